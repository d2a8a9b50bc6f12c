"""What is written while faults happen: each kind, old and new, and how it is read."""

from __future__ import annotations

import copy
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensorark
import tensorark.integrity.keys
import tensorark.numpy as ark
from tensorark.cli import main
from tests import synthetic
from tests.unit.formats.ninfer import sets

Content = dict[str, bytes]


@dataclass(frozen=True)
class Kind:
    """Something that is written.

    `sources` makes the models ``old``, ``new`` in a folder and returns their paths. `words` are
    those of `tark` that write a source into a folder, in many files or in few. `entry` is what a
    reader opens; `look`, if given, reads it where it is no model.
    """

    sources: Callable[[Path], dict[str, Path]]
    words: Callable[[Path, Path, bool], list[object]]
    entry: str
    few: bool = True  # whether the number of files can change
    amends: bool = False  # whether the old file is read, and changed or written anew
    appends: bool = False  # whether that is done behind its end
    replaces: bool = True  # whether a file that is there may be replaced
    look: Callable[[Path], bytes] = Path.read_bytes
    is_model: bool = True
    beside: tuple[str, ...] = ()  # files of the model that are no tensors

    def write(self, source: Path, out: Path, *, few: bool = False, force: bool = False) -> int:
        forced = ["--force"] if force and self.replaces and not self.amends else []
        return main(["-q", *map(str, self.words(source, out, few)), *forced])

    def read(self, out: Path) -> Content | None:
        """Return what a reader finds; None where there is nothing."""
        if not (out / self.entry).exists():
            return None
        if not self.is_model:
            return {"": self.look(out / self.entry)}
        with tensorark.open(out / self.entry, store=out.parent / "sources") as file:
            found = {
                f"{name} {role}": bytes(file[name].raw(role))
                for name in file
                for role in file[name].parts
            }
            found[" attributes"] = repr(sorted(file.attributes.items())).encode()
            assert not tensorark.verify(file).findings
        return found | {name: (out / name).read_bytes() for name in self.beside}


def arrays(folder: Path) -> dict[str, Path]:
    made = {}
    for name, value in (("old", 1), ("new", 2)):
        made[name] = folder / f"{name}.zt"
        tensors = {f"layers.{i}.w": np.full(1500, value + i / 16, "f4") for i in range(6)}
        ark.save_file(tensors, made[name], {"version": name})
    return made


def appended(folder: Path) -> dict[str, Path]:
    made = arrays(folder)
    ark.save_file({f"more.{i}": np.full(3000, i, "f4") for i in range(3)}, made["new"])
    return made


def matrices(folder: Path) -> dict[str, Path]:
    made = {}
    for name, value in (("old", 1), ("new", 2)):
        made[name] = folder / f"{name}.zt"
        tensors = {f"layers.{i}.w": np.full((4, 3000), value + i / 16, "f4") for i in range(3)}
        ark.save_file(tensors, made[name])
    return made


def containers(folder: Path) -> dict[str, Path]:
    made = matrices(folder)
    for name, path in made.items():
        tensorark.convert(path, folder / f"{name}.tbm")
    return {name: path.with_suffix(".tbm") for name, path in made.items()}


def splits(folder: Path) -> dict[str, Path]:
    made = arrays(folder)
    for name, path in made.items():
        (folder / f"split-{name}").mkdir()
        tensorark.split(path, folder / f"split-{name}" / "m.zt", max_size=140000)
    return {name: folder / f"split-{name}" / "m.zt" for name in made}


def overlaid(folder: Path) -> dict[str, Path]:
    ark.save_file({f"layers.{i}.w": np.full(1500, i, "f4") for i in range(6)}, folder / "base.zt")
    return arrays(folder)


def folders(folder: Path) -> dict[str, Path]:
    made = {}
    for name, seed in (("old", 1), ("new", 2)):
        synthetic.write_checkpoint(folder / name, seed=seed)
        made[name] = folder / name
    return made


def signed(folder: Path) -> dict[str, Path]:
    tensorark.make_key(folder / "key")
    return arrays(folder)


def plain(folder: Path) -> dict[str, Path]:
    made = arrays(folder)
    for name in made:
        tensorark.convert(folder / f"{name}.zt", folder / f"{name}.safetensors")
    return {name: folder / f"{name}.safetensors" for name in made}


def whole_key(path: Path) -> bytes:
    """Require a private key to be whole, its owner's alone, and the one that its public half is."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key = tensorark.integrity.keys.key_id(tensorark.integrity.keys.read_private(path).public_key())
    shown = path.with_name(path.name + ".pub")
    if shown.exists():
        assert tensorark.integrity.keys.key_id(tensorark.integrity.keys.read_public(shown)) == key
    return b"a key"


def artifacts(folder: Path) -> dict[str, Path]:
    made = {}
    for name, shift in (("old", 0), ("new", 1)):
        (folder / name).mkdir()
        start = sets.up(len(sets.PAYLOAD), 256)
        values = np.full(5000, 1 + shift, "<f4").tobytes()
        directory = copy.deepcopy(sets.DIRECTORY)
        directory["objects"].append(
            {
                "id": "w.more",
                "kind": "tensor",
                "shape": [5000],
                "format": "fp32",
                "layout": "contiguous_le_v1",
                "offset": start,
                "bytes": len(values),
            }
        )
        directory["bindings"]["text/more"] = {"object": "w.more"}
        payload = sets.PAYLOAD.ljust(start, b"\0") + values
        made[name] = sets.write_set(folder / name, directory, payload)
    return made


def checkpoints(folder: Path) -> dict[str, Path]:
    made = {}
    for name, seed in (("old", 1), ("new", 2)):
        synthetic.write_checkpoint(folder / name, seed=seed, rms_norm_eps=seed * 1e-6)
        made[name] = folder / f"{name}.ninfer"
        words = ["-q", "pack", folder / name, "-o", made[name], "--recipe", "bf16"]
        assert main([str(word) for word in words]) == 0
    return made


KINDS = {
    "safetensors-set": Kind(
        arrays,
        lambda source, out, few: [
            *("convert", source, out / "m.safetensors", "--max-size", 30000 if few else 14000)
        ],
        "m.safetensors.index.json",
    ),
    "zt-set": Kind(
        arrays,
        lambda source, out, few: [
            *("split", source, "-o", out / "m.zt", "--max-size", 270000 if few else 140000)
        ],
        "m.zt",
    ),
    "ninfer-set": Kind(
        artifacts,
        lambda source, out, few: [
            *("convert", source, out / "m.ninfer", "--max-size", 16384 if few else 12288)
        ],
        "m.ninfer",
    ),
    "checkpoint": Kind(
        checkpoints,
        lambda source, out, few: [
            *("unpack", source, "-o", out / "hf", "--max-size", 1 << 20 if few else 500000)
        ],
        "hf/model.safetensors.index.json",
        beside=("hf/config.json",),
    ),
    "tensorbit-folder": Kind(
        arrays,
        lambda source, out, _few: ["convert", source, out / "d", "--to", "tensorbit-directory"],
        "d",
        few=False,
    ),
    "zt": Kind(
        arrays, lambda source, out, _few: ["convert", source, out / "m.zt"], "m.zt", few=False
    ),
    "safetensors": Kind(
        arrays,
        lambda source, out, _few: ["convert", source, out / "m.safetensors"],
        "m.safetensors",
        few=False,
    ),
    "append": Kind(
        appended,
        lambda source, out, _few: ["append", out / "m.zt", source],
        "m.zt",
        few=False,
        amends=True,
        appends=True,
    ),
    "attribute": Kind(
        arrays,
        lambda _source, out, _few: ["meta", "set", out / "m.zt", "version", "newer"],
        "m.zt",
        few=False,
        amends=True,
        appends=True,
    ),
    "attribute-anew": Kind(
        plain,
        lambda _source, out, _few: ["meta", "set", out / "m.safetensors", "version", "newer"],
        "m.safetensors",
        few=False,
        amends=True,
    ),
    "merge": Kind(
        splits, lambda source, out, _few: ["merge", source, out / "m.zt"], "m.zt", few=False
    ),
    "repack": Kind(
        arrays, lambda source, out, _few: ["repack", source, out / "m.zt"], "m.zt", few=False
    ),
    "overlay": Kind(
        overlaid,
        lambda source, out, _few: [
            *("overlay", source.with_name("base.zt"), source, "-o", out / "m.zt")
        ],
        "m.zt",
        few=False,
    ),
    "prune": Kind(
        matrices, lambda source, out, _few: ["prune", source, out / "m.tbm"], "m.tbm", few=False
    ),
    "mend": Kind(
        containers,
        lambda source, out, _few: ["mend", source, out / "m.tbm"],
        "m.tbm",
        few=False,
    ),
    "npz": Kind(
        arrays, lambda source, out, _few: ["convert", source, out / "m.npz"], "m.npz", few=False
    ),
    "pack": Kind(
        folders,
        lambda source, out, _few: ["pack", source, "-o", out / "m.ninfer", "--recipe", "bf16"],
        "m.ninfer",
        few=False,
    ),
    "objects": Kind(
        artifacts,
        lambda source, out, _few: [
            "unpack",
            source,
            "-o",
            out / "m.safetensors",
            "--as",
            "objects",
        ],
        "m.safetensors",
        few=False,
    ),
    "seal": Kind(
        arrays,
        lambda source, out, _few: ["seal", source, "-o", out / "m.json"],
        "m.json",
        few=False,
        is_model=False,
    ),
    "sign": Kind(
        signed,
        lambda source, out, _few: [
            *("sign", source, "--key", source.with_name("key"), "-o", out / "m.json")
        ],
        "m.json",
        few=False,
        is_model=False,
    ),
    "cat": Kind(
        arrays,
        lambda source, out, _few: ["cat", source, "layers.1.w", "-o", out / "m.npy"],
        "m.npy",
        few=False,
        is_model=False,
    ),
    "key": Kind(
        arrays,
        lambda _source, out, _few: ["keygen", out / "key"],
        "key",
        few=False,
        replaces=False,
        look=whole_key,
        is_model=False,
    ),
}
