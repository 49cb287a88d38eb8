#!/usr/bin/env bash
# Measures quern and llama.cpp side by side on this machine: builds both, makes the files, runs whole processes of the two
# in turn, and prints both speeds with their ratio. Ratios of one run can be compared; speeds of two runs, on a machine
# that does other things, cannot.
#
# usage: scripts/bench-peers.sh [bench_peers.py's options]
#        scripts/bench-peers.sh --record     adds the table to docs/benchmarks.md, with machine, commit and date
# QUERN_PEERS       where llama.cpp and the synthetic files lie (default: .cache/peers); 8 GB, 30 minutes the first time
# QUERN_TEST_DATA   where the two real models lie (see scripts/fetch-models.sh)
# PYTHON            a Python with gguf and numpy, for making the synthetic files (default: python3)
set -euo pipefail

cd "$(dirname "$0")/.."
peers=${QUERN_PEERS:-$PWD/.cache/peers}
python=${PYTHON:-python3}
mkdir -p "$peers/models"
peers=$(cd "$peers" && pwd)

llama_cpp=llama-cpp-python==0.3.36
llama_cpp_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

say() { printf 'bench-peers: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

build_llama_cpp() {
  local tool
  for tool in cmake ninja c++; do
    command -v "$tool" >/dev/null || die "$tool is missing: install it and run this again"
  done
  if [ ! -d "$peers/llama.cpp" ]; then
    say "downloading llama.cpp, out of the source archive of $llama_cpp"
    local tmp
    tmp=$(mktemp -d "$peers/.fetch.XXXXXX")
    printf '%s --hash=sha256:%s\n' "$llama_cpp" "$llama_cpp_sha256" >"$tmp/requirement.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --no-binary llama-cpp-python --dest "$tmp" --requirement "$tmp/requirement.txt"
    tar -xzf "$tmp"/llama_cpp_python-*.tar.gz -C "$tmp"
    mv "$tmp"/llama_cpp_python-*/vendor/llama.cpp "$peers/llama.cpp"
    rm -rf "$tmp"
  fi
  local build=$peers/llama.cpp/build
  [ -d "$build" ] || cmake -S "$peers/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DBUILD_SHARED_LIBS=OFF >&2
  say "building llama.cpp"
  ninja -C "$build" llama-bench llama-quantize >&2
}

# 1.46 B parameters in three formats, of the same random weights.
make_models() {
  local source=$1 type whole=$peers/models/synth-1.46b-f16.gguf missing=()
  for type in Q4_K_M Q8_0 Q4_0; do
    [ -f "$peers/models/synth-1.46b-$type.gguf" ] || missing+=("$type")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "making the synthetic files: ${missing[*]}"
  "$python" scripts/fixtures/synth_gguf.py "$source" "$whole"
  for type in "${missing[@]}"; do
    "$peers/llama.cpp/build/bin/llama-quantize" "$whole" "$whole.part" "$type" >&2
    mv "$whole.part" "$peers/models/synth-1.46b-$type.gguf"
  done
  rm "$whole"
}

data=$(scripts/fetch-models.sh)
[ -x "$peers/llama.cpp/build/bin/llama-quantize" ] || build_llama_cpp
make_models "$data/models/smollm2-135m-instruct-q4_1.gguf"
cargo build --release --quiet
exec python3 scripts/bench_peers.py \
  --quern "${CARGO_TARGET_DIR:-target}/release/quern" \
  --llama-bench "$peers/llama.cpp/build/bin/llama-bench" \
  --model "SmolLM2-135M Q4_1=$data/models/smollm2-135m-instruct-q4_1.gguf" \
  --model "Gemma 3 270M Q4_K_M=$data/models/gemma-3-270m-q4_k_m.gguf" \
  --model "1.46 B Q4_K_M=$peers/models/synth-1.46b-Q4_K_M.gguf" \
  --model "1.46 B Q8_0=$peers/models/synth-1.46b-Q8_0.gguf" \
  --model "1.46 B Q4_0=$peers/models/synth-1.46b-Q4_0.gguf" \
  "$@"
