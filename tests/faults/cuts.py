"""Runs verbs and functions while another process cuts, rewrites or replaces what they read.

    cuts.py FOLDER, then lines of JSON on standard input: [verb, source, ways, fractions].

`fractions` say before which of the calls that read something happens, null before each. A run is
a child of its own. The other process is played by the reads themselves: at one of the calls that
read a file of the source, that file is changed. Nothing may be read from a mapping then, since its
pages may be gone at any moment. The first run of a line is not disturbed, and answers with the
number of calls and what was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import tensorark
import tensorark.numpy as ark
from tensorark.cli import main as tark
from tensorark.core.model import Span
from tensorark.io import open_file as opened
from tests import synthetic
from tests.unit.formats.ninfer import sets

MAPPED = 98  # exit code of a child that read from a mapping
DEFECT = 99


# ------------------------------------------------------------------------------ the sources


def arrays(shift: int = 0) -> dict[str, np.ndarray]:
    made = {f"layers.{i}.w": np.full((4, 3000), i + shift + 0.5, "f4") for i in range(3)}
    return made | {"big": np.arange(shift, shift + 300_000, dtype="f4").reshape(3, 100_000)}


def of_format(name: str, **options: object) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        ark.save_file(arrays(), folder.parent / "plain.zt")
        tensorark.convert(folder.parent / "plain.zt", folder / name, **options)  # type: ignore[arg-type]
        (folder.parent / "plain.zt").unlink()

    return make


def split(folder: Path) -> None:
    ark.save_file(arrays(), folder.parent / "plain.zt")
    tensorark.split(folder.parent / "plain.zt", folder / "m.zt", max_size=1_300_000)
    (folder.parent / "plain.zt").unlink()


def masked(folder: Path) -> None:
    ark.save_file(arrays(), folder.parent / "plain.zt")
    words = ["-q", "prune", str(folder.parent / "plain.zt"), str(folder / "m.tbm")]
    assert tark(words) == 0
    (folder.parent / "plain.zt").unlink()


SOURCES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "zt": ("m.zt", of_format("m.zt")),
    "zt-encoded": ("m.zt", of_format("m.zt", encoding="zt.zstd-seekable/1")),
    "zt-set": ("m.zt", split),
    "safetensors": ("m.safetensors", of_format("m.safetensors")),
    "safetensors-set": (
        "m.safetensors.index.json",
        of_format("m.safetensors", max_shard_size=1_210_000),
    ),
    "npz": ("m.npz", lambda folder: np.savez(folder / "m.npz", **arrays())),
    "npz-deflated": ("m.npz", lambda folder: np.savez_compressed(folder / "m.npz", **arrays())),
    "tbm": ("m.tbm", of_format("m.tbm")),
    "tbm-masked": ("m.tbm", masked),
    "tensorbit-folder": ("d", of_format("d", format="tensorbit-directory")),
    "ninfer": ("model.ninfer", sets.model),
    "ninfer-set": ("model.ninfer", lambda folder: sets.model(folder, (300, 600))),
    "checkpoint": ("hf", lambda folder: synthetic.write_checkpoint(folder / "hf")),
}
"""By name: what is opened, and what makes it in a folder."""

NINFER = ("ninfer", "ninfer-set")
MODELS = tuple(name for name in SOURCES if name not in {*NINFER, "checkpoint"})
RAW = ("zt", "zt-set", "safetensors", "safetensors-set", "npz", "tbm", "tensorbit-folder")
DENSE = tuple(name for name in MODELS if name != "tbm-masked")

# ------------------------------------------------------------------------------ the verbs


def said(value: object) -> None:
    Path("out/said").write_text(str(value))


def loaded(path: str, *, verify: bool = False) -> None:
    found = ark.load_file(path, verify=verify)
    said({name: hashlib.sha256(np.ascontiguousarray(a)).hexdigest() for name, a in found.items()})


def copied(path: str) -> None:
    guard.on = False  # what is opened outside of an operation is mapped
    with tensorark.open(path) as file:
        guard.on = True
        found = {name: file[name].numpy(copy=True) for name in file}
    said({name: hashlib.sha256(a).hexdigest() for name, a in found.items()})


def by_calls(function: Callable[[tensorark.File], object]) -> Callable[[str], None]:
    def run(path: str) -> None:
        with tensorark.open(path, io="pread") as file:
            said(function(file))

    return run


VERBS: dict[str, tuple[str | Callable[[str], None], tuple[str, ...]]] = {
    "convert-zt": ("convert {} out/x.zt", MODELS),
    "convert-encoded": ("convert {} out/x.zt --encoding zt.zstd-seekable/1", MODELS),
    "convert-safetensors": ("convert {} out/x.safetensors", DENSE),
    "convert-set": ("convert {} out/x.safetensors --max-size 1210000", DENSE),
    "convert-npz": ("convert {} out/x.npz", DENSE),
    "convert-tbm": ("convert {} out/x.tbm", MODELS),
    "convert-folder": ("convert {} out/x --to tensorbit-directory", MODELS),
    "convert-ninfer": ("convert {} out/x.ninfer --max-size 16384", NINFER),
    "cast": ("convert {} out/x.zt --cast bf16", DENSE),
    "split": ("split {} -o out/x.zt --max-size 1300000", MODELS),
    "merge": ("merge {} out/x.zt", ("zt", "zt-set")),
    "repack": ("repack {} out/x.zt", ("zt", "zt-encoded")),
    "append": ("append grown.zt {}", ("zt", "safetensors", "npz", "npz-deflated")),
    "overlay": ("overlay base.zt {} -o out/x.zt", ("zt", "safetensors", "npz-deflated")),
    "delta": (
        lambda path: tensorark.delta("base.zt", path, "out/x.zt"),
        ("zt", "safetensors", "npz"),
    ),
    "prune": ("prune {} out/x.tbm", DENSE),
    "mend": ("mend {} out/x.tbm", ("tbm", "tbm-masked", "tensorbit-folder")),
    "seal": ("seal {} -o out/x.json", (*MODELS, *NINFER)),
    "sign": ("sign {} --key key -o out/x.json", (*MODELS, *NINFER)),
    "sign-files": ("sign {} --key key --over file -o out/x.json", ("safetensors", "npz")),
    "cat": ("cat {} big -o out/x.npy", MODELS),
    "pack": ("pack {} -o out/x.ninfer --recipe bf16", ("checkpoint",)),
    "resources": ("resources {} --extract chat_template.jinja -o out/x", NINFER),
    "objects": ("unpack {} -o out/x.safetensors --as objects", NINFER),
    "parameters": ("unpack {} -o out/x.safetensors --as parameters", NINFER),
    "load": (loaded, MODELS),
    "load-verified": (lambda path: loaded(path, verify=True), ("zt", "zt-set", "npz-deflated")),
    "copy": (copied, RAW),
    "verify": (by_calls(tensorark.verify), (*MODELS, *NINFER)),
    "digest": (by_calls(tensorark.content_digest), (*MODELS, *NINFER)),
}
"""By name: words, or a function of the path of the source, and the sources that it takes."""


def cases() -> list[tuple[str, str]]:
    return [(verb, source) for verb, (_, sources) in VERBS.items() for source in sources]


# ------------------------------------------------------------------------------ the disturber


class Disturber:
    """Changes a file of the source at the call number `at` that reads one."""

    def __init__(self, folder: Path, way: str, at: int) -> None:
        self.paths = {
            (path.stat().st_dev, path.stat().st_ino): path
            for path in folder.rglob("*")
            if path.is_file()
        }
        self.way, self.at, self.calls = way, at, 0
        self.lock = threading.Lock()

    def before(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        path = self.paths.get((status.st_dev, status.st_ino))
        if path is None:
            return
        with self.lock:
            now = self.calls == self.at
            self.calls += 1
        if now and self.way == "cut":
            os.truncate(path, status.st_size // 2)
        elif now and self.way == "emptied":
            os.truncate(path, 0)
        elif now and self.way == "rewritten":
            path.write_bytes(b"\x55" * status.st_size)
        elif now and self.way == "replaced":
            other = path.with_name("other")
            other.write_bytes(b"\x55" * status.st_size)
            other.replace(path)

    def install(self) -> None:
        pread, preadv = os.pread, opened._preadv

        def one(descriptor: int, length: int, offset: int) -> bytes:
            self.before(descriptor)
            return pread(descriptor, length, offset)

        def many(descriptor: int, buffers: list[memoryview], offset: int) -> int:
            self.before(descriptor)
            assert preadv is not None
            return preadv(descriptor, buffers, offset)

        os.pread = one
        opened._preadv = many if preadv is not None else None
        for name in ("view", "passing", "lend"):
            setattr(opened.OpenFile, name, unmapped(getattr(opened.OpenFile, name)))


guard = SimpleNamespace(on=True)


def unmapped(method: Callable[..., object]) -> Callable[..., object]:
    def called(self: opened.OpenFile, span: Span) -> object:
        if guard.on and self.is_mapped and span.length:
            traceback.print_stack()
            sys.stderr.flush()
            os._exit(MAPPED)
        return method(self, span)

    return called


# ------------------------------------------------------------------------------ the runs


def build(folder: Path) -> None:
    """Make the sources, and what verbs need beside them."""
    for name, (_, make) in SOURCES.items():
        (folder / "sources" / name).mkdir(parents=True)
        make(folder / "sources" / name)
    ark.save_file(arrays(1), folder / "base.zt")
    ark.save_file({"mine": np.ones(3, "f4")}, folder / "grown.zt")
    tensorark.make_key(folder / "key")


def run(folder: Path, verb: str, source: str, way: str, at: int) -> dict[str, object]:
    here = folder / "run"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    shutil.copytree(folder / "sources" / source, here / "source")
    for name in ("base.zt", "grown.zt", "key"):
        shutil.copy(folder / name, here)
    (here / "out").mkdir()
    before = content(here)
    child = os.fork()
    if child == 0:
        os._exit(disturbed(here, verb, source, way, at))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = content(here)
    return {
        "code": code,
        "signal": signal.Signals(-code).name if code < 0 else None,
        "said": (here.parent / "log").read_text()[-1500:],
        "made": {name: after[name] for name in after if after[name] != before.get(name)},
        "gone": sorted(before.keys() - after.keys()),
        "calls": int((here.parent / "calls").read_text()) if code == 0 else None,
    }


def content(folder: Path) -> dict[str, str]:
    """Return the files and folders beside the source, with digests, and the names inside of it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("source") or path.is_dir():
            found[name] = "" if not name.endswith("/other") else "other"
        else:
            data = path.read_bytes()
            if data.startswith((b"NINFER", b"NINPRT")):
                data = data[:16] + data[32:]  # without the id, which is drawn
            found[name] = hashlib.sha256(data).hexdigest()
    return found


def disturbed(here: Path, verb: str, source: str, way: str, at: int) -> int:
    code = DEFECT
    try:
        log = os.open(here.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(here)
        disturber = Disturber(here / "source", way, at)
        disturber.install()
        words, _ = VERBS[verb]
        path = str(Path("source", SOURCES[source][0]))
        if callable(words):
            try:
                words(path)
                code = 0
            except tensorark.Error as error:
                sys.stderr.write(f"{error}\n")
                code = error.exit_code
        else:
            code = tark(["-q", *words.format(path).split()])
        (here.parent / "calls").write_text(str(disturber.calls))
    except BaseException:  # noqa: BLE001 - reported as what it is
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def points(
    folder: Path, verb: str, source: str, ways: list[str], fractions: list[float] | None
) -> Iterator[object]:
    """Yield the run that nothing disturbs, then those that something does."""
    whole = run(folder, verb, source, "none", -1)
    yield whole
    calls = whole["calls"]
    if not isinstance(calls, int):
        return
    ats = range(calls) if fractions is None else [int(calls * each) for each in fractions]
    for way in ways:
        for at in ats:
            yield {"way": way, "at": at, **run(folder, verb, source, way, at)}


def main() -> None:
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if not (folder / "key").exists():  # made last
        build(folder)
    for line in sys.stdin:
        answers.write(json.dumps([*points(folder, *json.loads(line))]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
