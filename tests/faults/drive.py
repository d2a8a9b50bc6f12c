"""Runs in a process into which `faults.c` is interposed: writes, with a fault at one of its calls.

    drive.py LIBRARY FOLDER, then a line of JSON for each run on standard input.

Each run is a child of its own, forked when everything is imported. Answers with a line of JSON for
each point: what became of the child, what a reader finds, what lies there, before and after another
run that nothing disturbs.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.faults.kinds import KINDS, Content, Kind

ACTIONS = ("nothing", "kill", "torn", "term", "eio", "enospc", "eio-ever", "enospc-ever")


class Scene:
    """A kind of file or set, and what is in place before it is written: nothing, or another one."""

    def __init__(self, kind: Kind, stage: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.out = folder / "out"
        self.few = stage == "resized"
        (folder / "sources").mkdir(parents=True)
        self.sources = kind.sources(folder / "sources")
        self.before = folder / "before"
        self.before.mkdir()
        (self.before / "other.bin").write_bytes(b"of somebody else")
        if kind.amends:
            shutil.copy(self.sources["old"], self.before / kind.entry)
        elif stage != "new":
            assert kind.write(self.sources["old"], self.before) == 0
        self.old = kind.read(self.before)
        self.restore()
        assert self.write() == 0
        self.new = kind.read(self.out)
        self.clean = len(listing(self.out))
        assert self.new != self.old

    def restore(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.copytree(self.before, self.out)

    def write(self) -> int:
        return self.kind.write(self.sources["new"], self.out, few=self.few, force=True)

    def found(self) -> str:
        """Say what a reader finds: the old model, the new one, a refusal, or a mixture."""
        try:
            content: Content | None = self.kind.read(self.out)
        except Exception as error:  # noqa: BLE001 - whatever a reader says
            return f"told: {type(error).__name__}: {error}"
        if content == self.old:
            return "old"
        return "new" if content == self.new else "MIXED"


def listing(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): hash(path.read_bytes()) if path.is_file() else 0
        for path in sorted(folder.rglob("*"))
    }


def forked(work: Callable[[], int], log: Path) -> int:
    """Run `work` in a child and return its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(words, 1)
            os.dup2(words, 2)
            code = work()
        except BaseException:  # noqa: BLE001 - reported as what it is
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(scene: Scene, library: ctypes.CDLL, action: str, at: int) -> dict[str, object]:
    """Write with a fault at call number `at`; return what became of it."""
    scene.restore()
    before = listing(scene.out)
    log = scene.folder / "log"

    def faulty() -> int:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
        library.faults_arm(at, ACTIONS.index(action))
        code = scene.write()
        early = library.faults_early()
        calls = library.faults_disarm()
        (scene.folder / "calls").write_text(f"{calls} {early}")
        return code

    code = forked(faulty, log)
    said = log.read_text()
    after = listing(scene.out)
    facts: dict[str, object] = {
        "at": at,
        "code": code,
        "said": said[-2000:],
        "found": scene.found(),
        "same": after == before,
        "extra": sorted(after.keys() - before.keys()),
    }
    if not scene.kind.amends:
        facts["again"] = forked(scene.write, log)
        facts["then"] = scene.found()
        rest = listing(scene.out)
        facts["left"] = len(rest) - scene.clean
        facts["hidden"] = [name for name in rest if "/." in f"/{name}"]
        facts["foreign"] = rest.get("other.bin") == before["other.bin"]
    return facts


def answer(facts: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    folder = Path(sys.argv[2])
    scenes: dict[tuple[str, str], Scene] = {}
    for line in sys.stdin:
        kind, stage, action, first, step = json.loads(line)
        here = folder / kind / stage
        if (kind, stage) not in scenes:
            null = os.open(os.devnull, os.O_WRONLY)
            kept = os.dup(1)
            os.dup2(null, 1)
            scenes[kind, stage] = Scene(KINDS[kind], stage, here)
            sys.stdout.flush()
            os.dup2(kept, 1)
        scene = scenes[kind, stage]
        run(scene, library, "nothing", -1)
        calls, early = map(int, (here / "calls").read_text().split())
        for at in range(first, calls, step):
            answer({**run(scene, library, action, at), "early": early})
        answer({"calls": calls})


if __name__ == "__main__":
    main()
