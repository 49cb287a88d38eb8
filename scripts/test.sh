#!/usr/bin/env bash
# Everything a fresh machine needs to check this repository, in one command: missing tools, test data, formatting,
# lints, tests, documentation tests. Each step runs even when an earlier one failed, unless it could not mean anything;
# the closing summary names what failed and what could not run, and the exit status is non-zero when anything did.
#
# A test that cannot run on this machine (say, for want of an instruction set) says so by printing a line that starts
# with "NOT RUN: "; the summary repeats those lines.
#
# usage: scripts/test.sh
# QUERN_TEST_DATA   where the test data lies (see scripts/fetch-models.sh)
set -euo pipefail

cd "$(dirname "$0")/.."
nextest_version=0.9.143
logs=${CARGO_TARGET_DIR:-target}/test-logs
mkdir -p "$logs"
failed_steps=()
not_run=()

heading() { printf '\n== %s\n' "$*"; }

step() {
  local name=$1
  shift
  heading "$name"
  if "$@"; then return 0; fi
  failed_steps+=("$name")
  printf '** %s failed\n' "$name"
  return 1
}

system_packages() {
  local missing=()
  command -v cc >/dev/null || missing+=(build-essential) # the linker, and the C in ring
  python3 -m pip --version >/dev/null 2>&1 || missing+=(python3 python3-pip)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "missing: ${missing[*]}; install them and run this again"
    return 1
  fi
}

rust_tools() {
  if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust with rustup and run this again"
    return 1
  fi
  cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
  cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
  if ! cargo nextest --version >/dev/null 2>&1; then
    echo "cargo-nextest is missing: building it once, which takes some minutes"
    cargo install --quiet --locked cargo-nextest --version "$nextest_version"
  fi
}

# The whole output goes to a log; the terminal gets the verdicts, and the output of what failed.
tests() {
  local log=$logs/nextest.log status=0
  cargo nextest run --workspace --no-fail-fast --color never --cargo-quiet \
    --success-output immediate --failure-output final >"$log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then
    # What did not compile has no summary line: then the whole log is the answer.
    if grep -q '^ *Summary ' "$log"; then sed -n '/^ *Summary /,$p' "$log"; else cat "$log"; fi
  else
    grep '^ *Summary ' "$log"
  fi
  return "$status"
}

doc_tests() {
  local log=$logs/doctest.log status=0
  cargo test --quiet --doc --workspace --no-fail-fast --color never >"$log" 2>&1 || status=$?
  if [ "$status" != 0 ]; then cat "$log"; else grep '^test result' "$log" || true; fi
  return "$status"
}

# Sums the number before a word over the lines of a log: `total 'passed' '^test result' FILE`.
total() {
  { grep -E "$2" "$3" 2>/dev/null || true; } | { grep -oE "[0-9]+ $1" || true; } | awk '{ n += $1 } END { print n + 0 }'
}

summary() {
  local unit=$logs/nextest.log doc=$logs/doctest.log passed failed
  passed=$(($(total passed '^ *Summary ' "$unit") + $(total passed '^test result' "$doc")))
  failed=$(($(total '(failed|timed out)' '^ *Summary ' "$unit") + $(total failed '^test result' "$doc")))
  heading summary
  echo "passed:  $passed"
  echo "failed:  $failed"
  if [ "$passed" = 0 ]; then failed_steps+=("no test ran at all"); fi
  while IFS= read -r line; do not_run+=("$line"); done < <(
    { grep -hoE 'NOT RUN: .*' "$unit" "$doc" 2>/dev/null || true; } | sed 's/^NOT RUN: //' | sort -u
    local skipped
    skipped=$(total skipped '^ *Summary ' "$unit")
    [ "$skipped" = 0 ] || echo "$skipped tests skipped by nextest"
  )
  echo "not run: ${#not_run[@]}"
  if [ ${#not_run[@]} -gt 0 ]; then printf '  %s\n' "${not_run[@]}"; fi
  if [ ${#failed_steps[@]} -gt 0 ]; then
    echo "FAILED steps:"
    printf '  %s\n' "${failed_steps[@]}"
    exit 1
  fi
  echo "everything passed"
}

rm -f "$logs"/*.log
step "system packages" system_packages || true
if ! step "rust tools" rust_tools; then
  not_run+=("formatting, lints and tests: a tool is missing")
  summary
fi
step "test data" scripts/fetch-models.sh || true
step "formatting" cargo fmt --all --check || true
step "lints" cargo clippy --quiet --workspace --all-targets -- -D warnings || true
step "tests" tests || true
step "documentation tests" doc_tests || true
summary
