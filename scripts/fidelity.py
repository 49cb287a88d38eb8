"""Measures how far an engine's next-token distributions are from the publisher's, on real quantised models.

The reference is transformers' own modelling code in float32 over the weights of the same GGUF file, dequantised:
so the figures show what an engine adds to the file's quantisation (its rounding of activations, its cache, its
mistakes), not the quantisation. Every position of five texts counts. Per engine and mode the script prints the
mean and the largest KL(reference || engine) in nats, in float64, and how often the two have the same first choice.

    python scripts/fidelity.py --models .cache/test-data/models --cache .cache/fidelity --quern target/release/quern \\
        [--llama-logits PATH] [--check]

--quern         the quern binary; it runs as it comes, with an f32 cache, and with f32 activations as well
--llama-logits  a program `MODEL OUT.f32 id,id,...` around llama.cpp that dumps raw f32 logits of every position;
                give it an f32 cache without flash attention, llama.cpp at its most exact
--check         fail unless quern in f32 is within 1e-5 of the reference on every text, and quern as it comes is not
                further from it than llama.cpp over each model's positions
--make-ids      rewrite fixtures/texts/*.ids.json with llama.cpp's `llama-tokenize`, given by its path

Needs torch, transformers, gguf and numpy, about 8 GB of disk in --cache (the reference logits are kept there), and
no network.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

TEXTS = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "texts"
MODELS = {"smollm2": "smollm2*.gguf", "gemma3": "gemma-3*.gguf"}
MODES = {
    "quern": [],
    "quern kv f32": ["--kv", "f32"],
    "quern f32": ["--activations", "f32", "--kv", "f32"],
}
F32_BOUND = 1e-5
ROWS = 128


def find_model(folder, name):
    found = sorted(folder.glob(MODELS[name]))
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} files {MODELS[name]}: give the folder with exactly one (--models)")
    return found[0]


def ids_path(name, text):
    return TEXTS / f"{name}.{text}.ids.json"


def make_ids(tokenizer, name, path):
    for text in sorted(TEXTS.glob("*.txt")):
        command = [tokenizer, "-m", path, "-f", text, "--ids", "--log-disable", "--no-parse-special", "--no-escape"]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        ids_path(name, text.stem).write_text(json.dumps(json.loads(line)) + "\n")


def load_reference(path):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    config = model.config
    # A GGUF file says nothing of Gemma 3's layer pattern, local rope base and query scale. transformers fills them from
    # its defaults, which are those of the 270M model; a default that changes must not pass for a reference.
    if config.model_type == "gemma3_text":
        pattern = ["sliding_attention"] * 5 + ["full_attention"]
        assert config.layer_types == (pattern * 3), config.layer_types
        assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10_000.0, config.rope_parameters
        assert config.rope_parameters["full_attention"]["rope_theta"] == 1_000_000.0, config.rope_parameters
        assert (config.query_pre_attn_scalar, config.head_dim, config.sliding_window) == (256, 256, 512)
        assert config.final_logit_softcapping is None and config.attn_logit_softcapping is None
    assert config.tie_word_embeddings
    assert all(value.dtype == torch.float32 for value in model.parameters())
    return model


def write_reference(model, ids, out):
    """One forward pass over the whole text; the head in slices, for the sake of memory."""
    import torch

    hidden = model.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0]
    partial = out.with_suffix(".partial")
    logits = np.lib.format.open_memmap(partial, "w+", np.float32, (len(ids), model.config.vocab_size))
    for start in range(0, len(ids), ROWS):
        logits[start : start + ROWS] = model.lm_head(hidden[start : start + ROWS]).numpy()
    logits.flush()
    os.replace(partial, out)


def reference(cache, name, path, file_hash, text, ids, loaded):
    """The path of the cached logits, computed first when the model file or the ids are not those of the cache."""
    out = cache / f"{name}.{text}.npy"
    key_path = out.with_suffix(".key")
    key = hashlib.sha256(f"{file_hash} {ids}".encode()).hexdigest()
    if not (out.exists() and key_path.exists() and key_path.read_text() == key):
        if name not in loaded:
            loaded[name] = load_reference(path)
        write_reference(loaded[name], ids, out)
        key_path.write_text(key)
    return out


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def divergences(reference_logits, logits):
    """Per position: KL(reference || logits), and whether both have the same first choice."""
    if logits.shape != reference_logits.shape:
        raise SystemExit(f"logits of shape {logits.shape}, the reference has {reference_logits.shape}")
    kl, same = [], []
    for start in range(0, len(logits), ROWS):
        ours, theirs = logits[start : start + ROWS], reference_logits[start : start + ROWS]
        if not np.isfinite(ours).all():
            raise SystemExit(f"logits that are not finite in positions {start} to {start + len(ours) - 1}")
        p, q = log_softmax(theirs), log_softmax(ours)
        kl.append((np.exp(p) * (p - q)).sum(axis=1))
        same.append(theirs.argmax(axis=1) == ours.argmax(axis=1))
    return np.concatenate(kl), np.concatenate(same)


def quern_logits(program, flags, path, name, text, folder):
    out = folder / "quern.npy"
    command = [program, "score", path, "--json", "--ids-file", ids_path(name, text), "--logits-out", out, *flags]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    # What the program says was in force, not what was asked for.
    for flag, value in zip(flags[::2], flags[1::2]):
        if report["modes"][flag.removeprefix("--")] != value:
            raise SystemExit(f"asked quern for {flag} {value}, it ran with {report['modes']}")
    return np.load(out, mmap_mode="r")


def llama_logits(program, path, ids, folder):
    out = folder / "llama.f32"
    subprocess.run([program, path, out, ",".join(map(str, ids))], check=True, stdout=subprocess.DEVNULL)
    return np.memmap(out, np.float32, "r").reshape(len(ids), -1)


def row(name, text, engine, kl, same):
    means = f"{kl.mean():.2e} | {kl.max():.2e}"
    print(f"| {name} | {text} | {len(kl)} | {engine} | {means} | {100 * same.mean():.2f} % |", flush=True)


def difference(name, mode, apart):
    """Position by position, which shows whether two means differ by more than the texts' chance."""
    error = apart.std() / len(apart) ** 0.5
    return f"{name}: mean KL of {mode} less llama.cpp's: {apart.mean():+.1e}, standard error {error:.1e}"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--models", type=pathlib.Path, required=True, help="folder of the two model files")
    args.add_argument("--cache", type=pathlib.Path, required=True, help="folder for the reference logits")
    args.add_argument("--model", choices=MODELS, action="append", help="only this model")
    args.add_argument("--text", action="append", help="only this text, by its name in fixtures/texts")
    args.add_argument("--quern")
    args.add_argument("--llama-logits")
    args.add_argument("--check", action="store_true")
    args.add_argument("--make-ids", metavar="LLAMA_TOKENIZE")
    args = args.parse_args()
    if args.check and not (args.quern and args.llama_logits):
        raise SystemExit("--check needs --quern and --llama-logits, or it would pass with nothing compared")
    args.cache.mkdir(parents=True, exist_ok=True)
    loaded, differences, faults = {}, [], []
    print("| model | text | positions | engine | mean KL | largest KL | same first choice |")
    print("| --- | --- | ---: | --- | ---: | ---: | ---: |")
    for name in args.model or MODELS:
        path = find_model(args.models, name)
        if args.make_ids:
            make_ids(args.make_ids, name, path)
        file_hash = hashlib.sha256(path.read_bytes()).hexdigest()
        totals = {}
        for text in args.text or sorted(file.stem for file in TEXTS.glob("*.txt")):
            ids = json.loads(ids_path(name, text).read_text())
            expected = np.load(reference(args.cache, name, path, file_hash, text, ids, loaded), mmap_mode="r")
            with tempfile.TemporaryDirectory(dir=args.cache) as folder:
                folder = pathlib.Path(folder)
                engines = {}
                if args.quern:
                    for mode, flags in MODES.items():
                        engines[mode] = lambda f=flags: quern_logits(args.quern, f, path, name, text, folder)
                if args.llama_logits:
                    engines["llama.cpp"] = lambda: llama_logits(args.llama_logits, path, ids, folder)
                for engine, run in engines.items():
                    kl, same = divergences(expected, run())
                    row(name, text, engine, kl, same)
                    totals.setdefault(engine, []).append((kl, same))
                    if engine == "quern f32" and not kl.mean() < F32_BOUND:
                        faults.append(f"{name}, {text}: quern f32 has a mean KL of {kl.mean():.2e}")
        kls = {}
        for engine, parts in totals.items():
            kls[engine], same = (np.concatenate(column) for column in zip(*parts))
            row(name, "(all)", engine, kls[engine], same)
        if args.quern and args.llama_logits:
            differences += [difference(name, mode, kls[mode] - kls["llama.cpp"]) for mode in ("quern", "quern kv f32")]
            if not kls["quern"].mean() <= kls["llama.cpp"].mean():
                faults.append(f"{name}: quern as it comes is further from the reference than llama.cpp")
    if differences:
        print("", *differences, sep="\n")
    if args.check and faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
