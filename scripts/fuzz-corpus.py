#!/usr/bin/env python3
"""Makes seeds for the fuzz targets from real files.

    scripts/fuzz-corpus.py

fills fuzz/corpus/TARGET with the fixtures of this repository, whole where they are small, and the first bytes of larger
ones and of llama.cpp's vocabularies in $QUERN_TEST_DATA/vocab, and the chat templates beside them (see
scripts/fetch-models.sh). Nothing there is committed.
"""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates/quern-gguf/tests/fixtures"
# As much of a large file as a seed: many keys, and a part of the vocabulary.
HEAD = 4096


def main():
    data = Path(os.environ.get("QUERN_TEST_DATA", ROOT / ".cache/test-data"))
    vocabularies = sorted((data / "vocab").glob("*.gguf"))
    if not vocabularies:
        raise SystemExit(f"{data}/vocab holds no vocabularies: run scripts/fetch-models.sh")

    def seed(target, name, content):
        folder = ROOT / "fuzz/corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    small = [FIXTURES / "sample.gguf", *sorted((FIXTURES / "split").glob("*.gguf"))]
    for target in ["gguf", "gguf_rewrite"]:
        for path in small:
            seed(target, path.name, path.read_bytes())
        for path in [*sorted((ROOT / "fixtures/tiny").glob("*.gguf")), *vocabularies]:
            with path.open("rb") as file:
                seed(target, f"head-{path.name}", file.read(HEAD))

    # Two parts, without the eight bytes that the target writes itself, and a line break between.
    sets = [("cpp", 1, 3), ("cpp", 2, 3), ("py", 1, 4), ("py", 3, 4)]
    for stem, i, n in sets:
        parts = [(FIXTURES / f"split/{stem}-{j:05}-of-{n:05}.gguf").read_bytes()[8:] for j in (i, i + 1)]
        seed("gguf_set", f"{stem}-{i}", b"\n".join(parts))
    seed("gguf_set", "two", b"\n".join(two_parts()))

    for path in sorted((FIXTURES / "safetensors").rglob("*.safetensors")):
        seed("safetensors", path.name, path.read_bytes())
    index = (FIXTURES / "safetensors/sharded/model.safetensors.index.json").read_bytes()
    seed("safetensors_index", "index", index)
    good = '{"metadata":{"total_size":2},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}'
    seed("safetensors_index", "good", good.encode())

    tokenizers = ROOT / "crates/quern-tokenizer/tests/json"
    cases = json.loads((tokenizers / "cases.json").read_text())
    for name, case in cases.items():
        file = {**cases.get(case["base"], {}).get("tokenizer", {}), **case["tokenizer"]}
        seed("tokenizer_json", name, json.dumps(file, ensure_ascii=False).encode())
    for i, text in enumerate(json.loads((tokenizers / "texts.json").read_text())):
        # The first byte chooses one of the tokenizers.
        seed("tokenizer_text", str(i), bytes([i % 35]) + text.encode())

    for path in sorted((data / "templates").glob("*.jinja")):
        seed("chat_template", path.stem, path.read_bytes())


def two_parts():
    """A good set of two parts with a tensor each, after magic and version."""

    def text(string):
        return len(string).to_bytes(8, "little") + string.encode()

    for i, name in enumerate("ab"):
        keys = [("split.no", 2, i.to_bytes(2, "little")), ("split.count", 2, b"\2\0"), ("split.tensors.count", 5, b"\2\0\0\0")]
        part = (1).to_bytes(8, "little") + len(keys).to_bytes(8, "little")
        for key, ty, value in keys:
            part += text(key) + ty.to_bytes(4, "little") + value
        # One I8 value at the start of the data.
        part += text(name) + b"\1\0\0\0" + (1).to_bytes(8, "little") + (24).to_bytes(4, "little") + bytes(8)
        part += bytes(-(8 + len(part)) % 32) + b"\7"
        yield part


main()
