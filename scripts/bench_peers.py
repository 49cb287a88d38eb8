#!/usr/bin/env python3
"""Runs quern and llama-bench in turn, as whole processes, and prints both speeds and their ratio.

Every round runs each engine once on each file; the figure of a cell is its median over the rounds, with the smallest and
the largest beside it. A ratio is the median of the ratios of each round: what the machine did meanwhile, it did to both.
Both engines read a prompt of -p tokens into an empty cache, then write -n tokens one by one.

Called by scripts/bench-peers.sh, which builds and makes what is measured.
"""

import argparse
import datetime
import json
import pathlib
import platform
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE.parent / "docs" / "benchmarks.md"


def run(command):
    return json.loads(subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout)


def quern(options, model):
    sizes = ["-p", options.prompt, "-n", options.generate, "-r", 1, "--threads", options.threads]
    report = run([options.quern, "bench", *sizes, "--json", model])
    return report["prompt_tok_s"]["median"], report["generate_tok_s"]["median"]


def llama_bench(options, model):
    sizes = ["-p", options.prompt, "-n", options.generate, "-r", 1, "-t", options.threads, "-ngl", 0]
    prompt, generate = run([options.llama_bench, *sizes, "-o", "json", "-m", model])
    assert (prompt["n_prompt"], generate["n_gen"]) == (options.prompt, options.generate)
    return prompt["avg_ts"], generate["avg_ts"]


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def table(options):
    names = [name for name, _ in options.model]
    ours, theirs = {name: [] for name in names}, {name: [] for name in names}
    for number in range(options.rounds):
        for name, model in options.model:
            # Who goes first changes from round to round.
            for engine in (quern, llama_bench)[:: -1 if number % 2 else 1]:
                (ours if engine is quern else theirs)[name].append(engine(options, model))
            print(f"round {number + 1}: {name}: quern {ours[name][-1]}, llama.cpp {theirs[name][-1]}", flush=True)
    lines = ["| file | | quern tok/s | llama.cpp tok/s | ratio |", "|---|---|---|---|---|"]
    for name in names:
        for i, what in enumerate([f"prompt {options.prompt}", f"generate {options.generate}"]):
            a, b = [speeds[i] for speeds in ours[name]], [speeds[i] for speeds in theirs[name]]
            ratio = statistics.median(x / y for x, y in zip(a, b))
            lines.append(f"| {name} | {what} | {spread(a)} | {spread(b)} | {ratio:.2f} |")
    return "\n".join(lines)


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {platform.system()}"


def commit():
    git = lambda *arguments: subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True).stdout.strip()
    changed = " and changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "--short", "HEAD") + changed


def named(text):
    name, _, path = text.partition("=")
    return name, path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", required=True)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--model", action="append", type=named, required=True, metavar="NAME=PATH")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--generate", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="only files whose name holds this")
    parser.add_argument("--record", action="store_true", help=f"add the table to {RECORD.name}")
    options = parser.parse_args()
    options.model = [(name, path) for name, path in options.model if (options.only or "") in name]
    # What is measured is what was built: before anybody goes on working.
    measured = commit()
    text = table(options)
    print(text)
    if options.record:
        about = f"{machine()}, {options.threads} threads, {options.rounds} rounds in turn"
        with RECORD.open("a") as record:
            record.write(f"\n## {datetime.date.today()}, {measured}\n\n{about}.\n\n{text}\n")


main()
