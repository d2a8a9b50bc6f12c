"""Opens each bomb by each verb in a process of its own; prints what it took, a line of JSON each.

usage: python measure.py FOLDER SIZE [PATTERN [VERB…]]
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tensorark
from tensorark.cli import DEFECT
from tensorark.cli import main as tark_main
from tensorark.conversion.pipeline import convert
from tensorark.integrity.diff import diff
from tensorark.integrity.verify import verify
from tensorark.numpy import save_file
from tensorark.report.diagnosis import diagnose
from tests.cost.bombs import BOMBS


def opened(path: Path) -> None:
    with tensorark.open(path) as file:
        for name in list(file)[:100]:
            repr(file[name])


def looked_for(path: Path) -> None:
    with tensorark.open(path) as file:
        file.missing()


def verified(path: Path) -> None:
    with tensorark.open(path) as file:
        verify(file, threads=1)


def compared(path: Path) -> None:
    with tensorark.open(path) as left, tensorark.open(path) as right:
        diff(left, right)


def tark(*words: str) -> Callable[[Path], None]:
    """Return a verb of the command line; what it writes goes nowhere."""

    def run(path: Path) -> None:
        out, err = sys.stdout, sys.stderr
        with Path(os.devnull).open("w") as sys.stdout, Path(os.devnull).open("w") as sys.stderr:
            code = tark_main([*words, str(path)])
        sys.stdout, sys.stderr = out, err
        if code == DEFECT:
            raise AssertionError("a defect")

    return run


def converted(path: Path) -> None:
    kind = "safetensors" if path.suffix == ".zt" else "zt"
    convert(path, path.with_name(f"other.{kind}"), dry_run=True)


VERBS = {
    "open": opened,
    "missing": looked_for,
    "validate": tensorark.validate,
    "doctor": diagnose,
    "verify": verified,
    "diff": compared,
    "convert": converted,
    "ls": tark("ls"),
    "id": tark("id"),
    "validate-json": tark("validate", "--json"),
    "doctor-json": tark("doctor", "--json"),
}


def peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measured(verb: str, path: Path) -> dict[str, object]:
    before, start = peak(), time.process_time()
    try:
        VERBS[verb](path)
        outcome = "done"
    except tensorark.Error as error:
        outcome = error.code
    except BaseException as error:  # noqa: BLE001 - told to whoever started us
        outcome = f"!{error!r}"
    return {"outcome": outcome, "memory": peak() - before, "seconds": time.process_time() - start}


def apart(work: Callable[[], None]) -> None:
    """Do something in a process of its own, so that this one keeps no memory of it."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        work()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


def load(folder: Path, verbs: list[str]) -> None:
    """Load whatever the verbs load: that is no cost of a file."""
    for name in ("a.zt", "a.safetensors"):
        path = folder / name
        save_file({"a": np.arange(3)}, path)
        for verb in verbs:
            VERBS[verb](path)
        path.unlink()


def main(folder: Path, size: int, pattern: str, verbs: list[str]) -> None:
    load(folder, verbs)
    for name, make in BOMBS.items():
        if not re.fullmatch(pattern, name):
            continue
        apart(lambda make=make: make(folder, size))
        (path,) = folder.iterdir()
        for verb in verbs:

            def tell(name: str = name, verb: str = verb, path: Path = path) -> None:
                said = {"bomb": name, "verb": verb, "size": path.stat().st_size}
                sys.stdout.write(json.dumps(said | measured(verb, path)) + "\n")

            apart(tell)
        path.unlink()


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]),
        (sys.argv[3:] or [".*"])[0],
        sys.argv[4:] or list(VERBS),
    )
