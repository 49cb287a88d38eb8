#!/bin/sh
# Explores the thread pool's protocol under loom. Arguments go to the test program (a test's name, --nocapture).
set -eu
cd "$(dirname "$0")/.."
# The flag changes every crate's fingerprint: a folder of its own keeps the ordinary build warm.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
exec cargo test -p quern-kernels --release --test pool_loom -- "$@"
