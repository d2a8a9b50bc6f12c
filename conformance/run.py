"""Run a decoder over the corpus: `python run.py [options] -- COMMAND…`.

For each file and each operation the index expects something of, `COMMAND… OPERATION FILE` is
started. Its exit code is its verdict: 0 accept, 1 reject, 2 refuse; anything else, a signal or a
timeout is a crash. It may print one JSON object: on reject `{"rules": […]}`, on accept what it
read, in the form of the JSON files beside the corpus. What it prints is compared, what it leaves
out is not. Only the standard library is used.

Exit code: 0 every file passed, 1 some did not, 2 wrong command line, 3 the decoder crashed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
OUTCOMES = {0: "accept", 1: "reject", 2: "refuse"}
CRASH = "crash"

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One answer that is not the expected one."""

    path: str
    operation: str
    expected: str
    answer: str
    crashed: bool


def chosen(files: list[Json], only: str, without: list[str]) -> list[Json]:
    """Return the files whose path or name matches and whose profile was not left out."""
    return [
        file
        for file in files
        if (fnmatch(file["path"], only) or fnmatch(Path(file["path"]).name, only))
        and file["requires"] not in without
    ]


@contextmanager
def image(path: Path) -> Iterator[Path]:
    """Provide the file a decoder is to read; a sparse recipe becomes a sparse temporary file."""
    if not path.name.endswith(".sparse.json"):
        yield path
        return
    recipe = json.loads(path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, path.name.replace(".sparse.json", ".zt"))
        with made.open("wb") as file:
            file.truncate(recipe["size"])
            for span in recipe["spans"]:
                file.seek(span["offset"])
                file.write(bytes.fromhex(span["hex"]))
        yield made


def judge(file: Json, command: list[str], *, strict: bool, timeout: float) -> list[Disagreement]:
    """Return where a decoder disagrees about one file."""
    path = HERE / file["path"]
    if hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
        return [Disagreement(file["path"], "-", "the bytes indexed", "others", crashed=False)]
    contents = json.loads((HERE / file["contents"]).read_bytes()) if file["contents"] else None
    free = file["class"] == "either" and not strict
    found = []
    with image(path) as made:
        for operation, expected in file["expect"].items():
            outcome, printed = ask([*command, operation, str(made)], timeout)
            wrong = outcome if outcome == CRASH or not (free or outcome == expected) else ""
            if not wrong and outcome == expected:
                wrong = difference(outcome, printed, file["rule"], contents)
            if wrong:
                crashed = outcome == CRASH
                said = f"{wrong}: {printed}" if crashed else wrong
                found.append(Disagreement(file["path"], operation, expected, said, crashed=crashed))
    return found


def ask(command: list[str], timeout: float) -> tuple[str, Json]:
    """Return a decoder's outcome and the JSON it printed; of a crash, how it ended."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return CRASH, f"no answer in {timeout:g} s"
    if done.returncode not in OUTCOMES:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return CRASH, " ".join([f"exit code {done.returncode}", *last])
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        printed = None
    return OUTCOMES[done.returncode], printed if isinstance(printed, dict) else {}


def difference(outcome: str, printed: Json, rule: str | None, contents: Json) -> str:
    """Return how what was printed differs from what is known, or an empty text."""
    if outcome == "reject" and rule and "rules" in printed and printed["rules"] != [rule]:
        return f"{printed['rules']} instead of {rule}"
    return compare(printed, contents, "$") if outcome == "accept" and contents else ""


def compare(printed: Json, known: Json, where: str) -> str:
    """Compare the fields that were printed; the names of tensors and parts have to be complete."""
    complete = where.rpartition(".")[2] in {"tensors", "parts"}
    if complete and printed.keys() != known.keys():
        return f"{where}: {sorted(printed.keys() ^ known.keys())}"
    for name, value in printed.items():
        path = f"{where}.{name}"
        if name not in known:
            return f"{path} is not in the expected contents"
        wanted = known[name]
        if isinstance(value, dict) and isinstance(wanted, dict) and name != "attributes":
            if found := compare(value, wanted, path):
                return found
        elif not (name == "sha256" and wanted is None) and not same(value, wanted):
            return f"{path} is {value!r} instead of {wanted!r}"
    return ""


def same(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal; 1, 1.0 and true differ, as 0.0 and -0.0 do."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def main(arguments: list[str]) -> int:
    """Run, print the disagreements, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="run.py [--only GLOB] [--without PROFILE] [--strict] [--timeout SECONDS] -- COMMAND…",
    )
    parser.add_argument("--only", default="*", help="run the files whose path or name matches")
    parser.add_argument(
        "--without", action="append", default=[], help="leave a profile's files out"
    )
    parser.add_argument("--strict", action="store_true", help="demand our choices in either/ too")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per start (default 60)")
    parser.add_argument("command", nargs="*", help="the decoder")
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("no command")
    files = json.loads((HERE / "index.json").read_bytes())["files"]
    files = chosen(files, options.only, options.without)
    if not files:
        parser.error("no file matches")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(
            pool.map(
                lambda file: judge(
                    file, options.command, strict=options.strict, timeout=options.timeout
                ),
                files,
            )
        )
    return report(results)


def report(results: list[list[Disagreement]]) -> int:
    """Print one line per disagreement and the totals, and return the exit code."""
    found = [disagreement for result in results for disagreement in result]
    rows = [("file", "operation", "expected", "answer")] if found else []
    rows += [(each.path, each.operation, each.expected, each.answer) for each in found]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)]
        print("  ".join(cells).rstrip())
    failed = sum(1 for result in results if result)
    print(f"{len(results) - failed} passed, {failed} failed")
    if any(each.crashed for each in found):
        return 3
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
