#!/usr/bin/env bash
# Compiles every crate with its tests and examples for Windows and macOS, up to but not including machine code: names,
# types, borrows and lints (warnings are errors) of what those systems alone see. Needs nothing of those systems but the
# standard library that rustup brings, so it runs on Linux; what it cannot do there is listed as not run.
#
# usage: scripts/check-platforms.sh [TARGET...]
set -euo pipefail

cd "$(dirname "$0")/.."
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(x86_64-pc-windows-gnu aarch64-apple-darwin x86_64-apple-darwin)
# Absolute: build scripts run in folders of their own.
mkdir -p "${CARGO_TARGET_DIR:-target}/stand-ins"
stand_ins=$(cd "${CARGO_TARGET_DIR:-target}/stand-ins" && pwd)
checked=() failed=() not_run=()

# ring's build script wants a C compiler and an archiver for the target. Without machine code nothing reads what they
# make, so a script that leaves empty files does, and no foreign toolchain is needed.
cat >"$stand_ins/tool" <<'TOOL'
#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    -o) : >"$2"; shift ;;
    *.a) : >"$1" ;;
  esac
  shift
done
TOOL
chmod +x "$stand_ins/tool"

for target in "${targets[@]}"; do
  printf '\n== %s\n' "$target"
  if ! rustup target add "$target"; then
    not_run+=("$target: rustup could not bring its standard library")
    continue
  fi
  name=${target//-/_}
  # SDKROOT: the cc crate asks Xcode for it otherwise.
  if env "CC_$name=$stand_ins/tool" "AR_$name=$stand_ins/tool" SDKROOT="$stand_ins" \
    cargo clippy --quiet --workspace --all-targets --target "$target" -- -D warnings; then
    checked+=("$target")
    not_run+=("$target: linking, C code and every test, which need the system itself")
  else
    failed+=("$target")
  fi
done

printf '\n== summary\n'
echo "checked: ${checked[*]:-none}"
echo "failed:  ${failed[*]:-none}"
printf 'NOT RUN: %s\n' "${not_run[@]}"
[ ${#failed[@]} -eq 0 ] && [ ${#checked[@]} -gt 0 ]
