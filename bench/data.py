"""The three sets that are measured: a usual model, very many small tensors, one very large one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors.numpy

import tensorark
from tensorark.layouts.numbers.dtypes import Array

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Set:
    """A set of tensors; `align` is the placement of its `.zt`, None for canonical form."""

    name: str
    title: str
    align: int | None = None

    def tensors(self) -> Iterator[tuple[str, Array]]:
        """Yield the tensors in ascending order of their names."""
        rng = np.random.default_rng(7)
        if self.name == "S":
            for index in range(300):
                rows = 2048 if index % 10 else 1024
                bits = rng.integers(0, 1 << 16, (rows, 900), np.uint16)
                yield f"layers.{index:03d}.weight", bits.view(ml_dtypes.bfloat16)
        elif self.name == "M":
            for index in range(100_000):
                yield f"layers.{index:06d}.bias", np.full(64, index, np.float32)
        else:
            block = rng.integers(0, 1 << 16, (256, 1 << 20), np.uint16)
            yield "weight", np.concatenate([block + shift for shift in range(4)])

    def paths(self, folder: Path) -> dict[str, Path]:
        """Return the file of this set in each format."""
        return {kind: folder / f"{self.name}.{kind}" for kind in ("zt", "safetensors")}

    def make(self, folder: Path) -> None:
        """Write the set in both formats, by the libraries that define them."""
        paths = self.paths(folder)
        if not paths["safetensors"].exists():
            arrays = {
                name: array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
                for name, array in self.tensors()
            }
            safetensors.numpy.save_file(arrays, paths["safetensors"])
        if not paths["zt"].exists():
            tensorark.convert(paths["safetensors"], paths["zt"], align=self.align)


SETS = (
    Set("S", "300 tensors, 1 GiB"),
    Set("M", "100,000 tensors of 256 bytes", align=4096),
    Set("L", "one tensor of 2 GiB"),
)
