"""Runs every task of every library on the sets, alternating, and writes the table.

    python -m bench [--sets SML] [--tasks open,load] [--rounds 3] [--folder DIR] [--write FILE]

Each sample is a process of its own; in each round all libraries take their turn in shuffled order.
The table gives medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from bench import tasks
from bench.data import SETS, Set

TASKS = {
    "open": "open and list",
    "views": "every tensor as a view, every byte read",
    "load": "every tensor in memory of its own",
    "one": "open and read one tensor",
    "verify": "check every digest",
    "save": "save from memory, on the disk",
    "convert": "convert to the other format, on the disk",
}
LIBRARIES = {
    "tensorark_zt": "tensorark, `.zt`",
    "tensorark_safetensors": "tensorark, safetensors",
    "ztensor": "ztensor",
    "safetensors": "safetensors",
    "limit": "the machine",
}
Samples = dict[tuple[str, str, str], list[dict[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", default="SML")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the sets are made and kept")
    parser.add_argument("--write", type=Path, help="the Markdown file whose table is replaced")
    options = parser.parse_args()
    chosen = [each for each in SETS if each.name in options.sets]
    with tempfile.TemporaryDirectory(prefix="tensorark-bench-") as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        samples = measure(chosen, options.tasks.split(","), options.rounds, folder)
    text = report(samples, chosen, options.tasks.split(","), options.rounds)
    if options.write:
        options.write.write_text(replace_table(options.write.read_text(), text))
    print(text)


def measure(sets: list[Set], wanted: list[str], rounds: int, folder: Path) -> Samples:
    samples: Samples = {}
    for each in sets:
        each.make(folder)
        runs = [(task, lib) for task in wanted for lib in LIBRARIES if tasks.find(task, lib)]
        for turn in range(rounds):
            random.Random(turn).shuffle(runs)
            for task, library in runs:
                found = sample(task, library, folder / each.name, folder)
                samples.setdefault((each.name, task, library), []).append(found)
                shown = f"{found['seconds'] * 1000:9.1f} ms"
                print(f"{turn} {each.name} {task:8} {library:22} {shown}", file=sys.stderr)
    return samples


def sample(task: str, library: str, base: Path, folder: Path) -> dict[str, float]:
    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    os.sync()
    command = [sys.executable, "-m", "bench.sample", task, library, str(base), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[2:])} failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def report(samples: Samples, sets: list[Set], wanted: list[str], rounds: int) -> str:
    lines = [
        f"Measured with Python {platform.python_version()}, {os.cpu_count()} cores, "
        + ", ".join(f"{name} {version(name)}" for name in ("numpy", "safetensors", "ztensor"))
        + f"; medians of {rounds} rounds, in milliseconds; (peak memory added, in MiB).",
    ]
    for each in sets:
        lines += ["", f"### {each.name}: {each.title}", ""]
        lines.append("| task | " + " | ".join(LIBRARIES.values()) + " |")
        lines.append("|---|" + "---:|" * len(LIBRARIES))
        for task in wanted:
            cells = [cell(samples.get((each.name, task, library))) for library in LIBRARIES]
            lines.append(f"| {TASKS[task]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(found: list[dict[str, float]] | None) -> str:
    if not found:
        return ""
    milliseconds = statistics.median(each["seconds"] for each in found) * 1000
    peak = statistics.median(each["peak_kib"] for each in found) / 1024
    shown = f"{milliseconds:,.1f}" if milliseconds < 100 else f"{milliseconds:,.0f}"
    return f"{shown} ({peak:,.0f})"


def replace_table(page: str, text: str) -> str:
    """Replace what lies between the two marks of the page."""
    begin, end = "<!-- measured -->", "<!-- /measured -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}{end}{after}"


if __name__ == "__main__":
    main()
