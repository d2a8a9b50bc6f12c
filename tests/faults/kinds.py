"""What is written while faults happen: each kind, old and new, and how it is read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tensorark
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
    reader opens.
    """

    sources: Callable[[Path], dict[str, Path]]
    words: Callable[[Path, Path, bool], list[object]]
    entry: str
    few: bool = True  # whether the number of files can change
    amends: bool = False  # whether the old file is changed and not replaced
    beside: tuple[str, ...] = ()  # files of the model that are no tensors

    def write(self, source: Path, out: Path, *, few: bool = False, force: bool = False) -> int:
        words = self.words(source, out, few)
        return main(["-q", *map(str, words), *(["--force"] if force and not self.amends else [])])

    def read(self, out: Path) -> Content | None:
        """Return what a reader finds; None where there is nothing."""
        if not (out / self.entry).exists():
            return None
        with tensorark.open(out / self.entry) as file:
            found = {name: bytes(file[name].raw()) for name in file}
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
    ),
}
