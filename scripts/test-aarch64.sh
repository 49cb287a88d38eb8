#!/usr/bin/env bash
# Builds the workspace for aarch64 Linux on another machine and runs its tests under qemu: the same tests, and so the
# same hashes of record, on code made for another instruction set. Emulation is slow, which is why scripts/test.sh leaves
# it out. On an aarch64 machine scripts/test.sh is all there is to run.
#
# What cannot run here, or not in sensible time, is listed at the end in lines that start with "NOT RUN: ".
#
# usage: scripts/test-aarch64.sh [--real]
#   --real            whole real models too, one way each against its hash of record: hours
# QUERN_TEST_DATA   where the test data lies (see scripts/fetch-models.sh)
# QEMU_LD_PREFIX    where the C library for aarch64 lies (default: Debian's place, /usr/aarch64-linux-gnu)
set -euo pipefail

cd "$(dirname "$0")/.."
real=no
case ${1-} in
  '') ;;
  --real) real=yes ;;
  *) sed -n '/^# usage/,/^[^#]/p' "$0" | grep '^#' >&2; exit 2 ;;
esac

target=aarch64-unknown-linux-gnu
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export CARGO_TARGET_DIR
logs=$CARGO_TARGET_DIR/test-logs-aarch64
mkdir -p "$logs"
rm -f "$logs"/*.log
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
failed_steps=()
not_run=()

heading() { printf '\n== %s\n' "$*"; }
die() { printf 'test-aarch64: %s\n' "$*" >&2; exit 1; }

# The linker and the C compiler for ring, and the emulator.
system_packages() {
  local missing=()
  command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    die "missing: ${missing[*]}; install them and run this again"
  fi
}

# Where rustup cannot bring the standard library, Debian may: its compiler with both libraries, unpacked beside the build
# and used through RUSTC, so that the everyday toolchain stays as it is.
debian_toolchain() {
  local dir=$CARGO_TARGET_DIR/aarch64-debian std llvm
  if [ ! -x "$dir/rustc" ]; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    dpkg --add-architecture arm64 && apt-get update -qq || return 1
    std=$(apt-cache depends libstd-rust-web-dev | grep -oE 'libstd-rust-web-[0-9.]+' | head -n 1) || return 1
    llvm=$(apt-cache depends rustc-web "$std" | grep -o 'libllvm[0-9]*' | head -n 1) || return 1
    mkdir -p "$dir/packages" "$dir/unpacked"
    # apt drops its rights where it can, and then could not write here.
    (cd "$dir/packages" && apt-get download -qq -o APT::Sandbox::User=root \
      rustc-web "$llvm" "$std" libstd-rust-web-dev libstd-rust-web-dev:arm64) || return 1
    for package in "$dir"/packages/*.deb; do dpkg -x "$package" "$dir/unpacked" || return 1; done
    cat >"$dir/rustc.new" <<WRAPPER
#!/bin/sh
export LD_LIBRARY_PATH="$dir/unpacked/usr/lib/x86_64-linux-gnu:$dir/unpacked/usr/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$dir/unpacked/usr/bin/rustc" --sysroot "$dir/unpacked/usr" "\$@"
WRAPPER
    chmod +x "$dir/rustc.new"
    mv "$dir/rustc.new" "$dir/rustc"
  fi
  export RUSTC=$dir/rustc
  # Another compiler makes everything anew: in a folder of its own the everyday build stays warm.
  export CARGO_TARGET_DIR=$dir/build
}

# Runs the tests that a filter selects; the log gets everything, the terminal the verdict and the output of what failed.
tests() {
  local name=$1 filter=$2 log=$logs/$1.log status=0
  heading "tests: $name"
  cargo nextest run --workspace --target "$target" --no-fail-fast --color never --cargo-quiet --filterset "$filter" \
    --success-output immediate --failure-output final >"$log" 2>&1 || status=$?
  if ! grep -q '^ *Summary ' "$log"; then cat "$log"; else sed -n '/^ *Summary /,$p' "$log"; fi
  [ "$status" = 0 ] || failed_steps+=("tests: $name")
}

total() { { grep -hE '^ *Summary ' "$logs"/*.log || true; } | { grep -oE "[0-9]+ $1" || true; } | awk '{ n += $1 } END { print n + 0 }'; }

summary() {
  local passed
  passed=$(total passed)
  heading summary
  echo "passed:  $passed"
  echo "failed:  $(total '(failed|timed out)')"
  [ "$passed" != 0 ] || failed_steps+=("no test ran at all")
  while IFS= read -r line; do not_run+=("$line"); done < <(
    { grep -hoE 'NOT RUN: .*' "$logs"/*.log || true; } | sed 's/^NOT RUN: //' | sort -u)
  if [ ${#not_run[@]} -gt 0 ]; then printf 'NOT RUN: %s\n' "${not_run[@]}"; fi
  if [ ${#failed_steps[@]} -gt 0 ]; then
    echo "FAILED steps:"
    printf '  %s\n' "${failed_steps[@]}"
    exit 1
  fi
  echo "everything passed"
}

heading "tools"
[ "$(uname -m)" != aarch64 ] || die "this is an aarch64 machine: run scripts/test.sh"
cargo nextest --version >/dev/null 2>&1 || die "cargo-nextest is missing: scripts/test.sh brings it"
system_packages
rustup target add "$target" || debian_toolchain || die "no standard library for $target to be had"
scripts/fetch-models.sh

heading "build"
cargo build --quiet --target "$target" --bin quern

# Tests that start the program need a kernel that takes its file for a program, as after registering qemu with binfmt_misc.
starts_programs='(package(quern-cli) & kind(test)) | (package(quern) & binary(examples)) | (package(quern-platform) & binary(signals))'
whole_models='package(quern-model) & binary(bits) & test(/^(smollm2|gemma3)_/)'
spoiled_models='package(quern) & binary(damage) & test(/^r50_the_(demo|gemma)_model/)'
missing_program='package(quern-hub) & test(=wheels::a_failure_says_what_was_tried_what_it_said_and_what_to_do)'
left_out="($whole_models) | ($spoiled_models) | ($missing_program)"
if ! "$CARGO_TARGET_DIR/$target/debug/quern" --version >/dev/null 2>&1; then
  left_out="$left_out | $starts_programs"
  not_run+=("tests that start the program (quern-cli, quern's examples, signals): no binfmt_misc entry for aarch64")
fi

tests everyday "not ($left_out)"
if [ "$real" = yes ]; then
  QUERN_BITS_FIRST_WAY_ONLY=1 tests "whole models" "$whole_models"
else
  not_run+=("hashes of whole real models, which take hours under emulation: scripts/test-aarch64.sh --real")
fi
not_run+=("whole real models with spoiled bytes (quern's damage): each vocabulary is read a hundred times")
not_run+=("what quern-hub says of a pip that is not there: qemu's vfork is a fork, so the parent never learns of it")
not_run+=("documentation tests, which scripts/test.sh runs")
summary
