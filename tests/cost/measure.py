"""Opens each bomb by each verb in a process of its own; prints what it took, a line of JSON each.

usage: python measure.py FOLDER SIZE VERB…
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import tensorark
from tensorark.comparison import diff
from tensorark.diagnosis import diagnose
from tensorark.verification import verify
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


VERBS = {
    "open": opened,
    "missing": looked_for,
    "validate": tensorark.validate,
    "doctor": diagnose,
    "verify": verified,
    "diff": compared,
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


def main(folder: Path, size: int, verbs: list[str]) -> None:
    for name, make in BOMBS.items():
        path = make(folder, size)
        for verb in verbs:
            sys.stdout.flush()
            child = os.fork()
            if not child:
                said = {"bomb": name, "verb": verb, "size": path.stat().st_size}
                sys.stdout.write(json.dumps(said | measured(verb, path)) + "\n")
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(child, 0)
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(VERBS))
