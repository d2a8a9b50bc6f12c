"""Measures integrity, compression, shards, NInfer and Tensorbit against the machine's own limits.

    python -m bench.codecs [--rows verify,merge] [--rounds 3] [--folder DIR] [--write FILE]

Each sample is a process of its own, and the best of a few runs where none writes. In each round the
rows come in shuffled order; the two ways of a row follow each other, and swap places from round to
round. The table gives medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from bench.rows import MIB, ROWS, Row, make
from bench.sample import warm_memory

RUNS, ENOUGH = 5, 2.0  # runs of a sample, and seconds after which there is no further one
Pairs = dict[str, list[tuple[float, float]]]
"""For each row the seconds of both ways in each round, tensorark's first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, help="an empty or new folder, where the files are kept"
    )
    parser.add_argument("--write", type=Path, help="the Markdown file whose table is replaced")
    parser.add_argument("--sample", nargs=2, metavar=("ROW", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        name, way = options.sample
        print(json.dumps(sample(name, way, options.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="tensorark-bench-") as made:
        folder = options.folder or Path(made)
        if not (folder / "made").exists():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder)
            (folder / "made").touch()
        before = os.getloadavg()[0]
        pairs = measure(options.rows.split(","), options.rounds, folder)
        text = report(pairs, folder, options.rounds, before)
    if options.write:
        options.write.write_text(replace_table(options.write.read_text(), text))
    print(text)


def measure(names: list[str], rounds: int, folder: Path) -> Pairs:
    pairs: Pairs = {name: [] for name in names}
    for turn in range(rounds):
        order = random.Random(turn).sample(names, len(names))
        for name in order:
            ways = ["ours", "limit"] if turn % 2 else ["limit", "ours"]
            seconds = {way: in_process(name, way, folder) for way in ways}
            pairs[name].append((seconds["ours"], seconds["limit"]))
            shown = f"{seconds['ours'] * 1000:9.1f} ms, the limit {seconds['limit'] * 1000:9.1f} ms"
            print(f"{turn} {name:14} {shown}", file=sys.stderr)
    return pairs


def in_process(name: str, way: str, folder: Path) -> float:
    os.sync()
    command = [sys.executable, "-m", "bench.codecs", "--folder", str(folder), "--sample", name, way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} {way} failed:\n{done.stderr}")
    return float(json.loads(done.stdout))


def sample(name: str, way: str, folder: Path) -> float:
    """Time one way of a row in this process: once if it writes files, else the best of `RUNS`."""
    row = ROWS[name]
    times: list[float] = []
    is_written = False
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=folder) as made:
        scratch = Path(made)
        run = (row.ours if way == "ours" else row.limit)(folder, scratch)
        warm_memory(row.nbytes(folder) + 512 * MIB)
        while not times or (len(times) < RUNS and sum(times) < ENOUGH and not is_written):
            start = time.perf_counter()
            result = run()
            times.append(time.perf_counter() - start)
            is_written = any(scratch.iterdir())  # and what exists is not written again
            del result  # freeing it is not on the clock
    return min(times)


def report(pairs: Pairs, folder: Path, rounds: int, load: float) -> str:
    names = ("numpy", "xxhash", "zstandard")
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    head = (
        f"Measured with Python {platform.python_version()}, {os.cpu_count()} cores, {packages}; "
        f"medians of {rounds} rounds, in MB/s; load of the machine before: {load:.1f}."
    )
    lines = [
        head,
        "",
        "| task | tensorark | the limit | share | goal | | the limit is |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    lines += [line(ROWS[name], found, folder) for name, found in pairs.items()]
    return "\n".join(lines) + "\n"


def line(row: Row, pairs: list[tuple[float, float]], folder: Path) -> str:
    nbytes = row.nbytes(folder)
    ours, limit = (nbytes / statistics.median(times) for times in zip(*pairs, strict=True))
    share = statistics.median(limit / ours for ours, limit in pairs)
    goal, held = "", ""
    if row.share is not None:
        goal, held = f"{row.share:.0%}", "held" if share >= row.share else "missed"
    elif row.rate is not None:
        goal, held = f"{row.rate / 1e6:,.0f} MB/s", "held" if ours >= row.rate else "missed"
    rates = f"{ours / 1e6:,.0f} | {limit / 1e6:,.0f} | {share:.1%}"
    return f"| {row.title} | {rates} | {goal} | {held} | {row.against} |"


def replace_table(page: str, text: str) -> str:
    """Replace what lies between the two marks of the page."""
    begin, end = "<!-- measured codecs -->", "<!-- /measured codecs -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}{end}{after}"


if __name__ == "__main__":
    main()
