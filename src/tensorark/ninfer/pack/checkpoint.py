"""A checkpoint as matrices of rows: plain tensors, and those that were quantized by others.

Owns finding a parameter's rows among the tensors of a folder, reading a run of them, and the
meaning of the tensors that compressed-tensors and ModelOpt put beside each other. Reads no more
than is asked for; nothing is judged about values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tensorark import files
from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput, NotFound, ReadFailed, Unsupported
from tensorark.files import File
from tensorark.formats.ninfer.architecture import Parameter, Source
from tensorark.io.inputs import note_path
from tensorark.ninfer.pack.config import Config, text_root
from tensorark.wire.json import Malformed, parse

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

Encoding = Literal["nvfp4", "fp8_e4m3fn_row_bf16"]

_CONFIG_MOST: Final = 64 << 20
_PLAIN: Final = frozenset({"f64", "f32", "f16", "bf16", "i32", "i64"})


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a config.json and safetensors, opened."""

    folder: Path
    config: Config
    file: File

    @property
    def text_root(self) -> str:
        """What stands before the names of the text model's tensors."""
        return text_root(self.config)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the checkpoint.

        Raises:
            NotFound: when there is none of that name.
        """
        found = self.file.catalog.tensors.get(name)
        if found is None:
            raise NotFound(
                "the checkpoint has no such tensor",
                code="no-tensor",
                path=str(self.folder),
                where=("objects", name),
            )
        return found

    def has(self, name: str) -> bool:
        """Tell whether there is a tensor of that name."""
        return name in self.file.catalog.tensors


_CHECKPOINT: Final = (
    "a checkpoint is a folder with config.json, weights in safetensors, and files of a tokenizer"
)


@contextmanager
def open_checkpoints(
    folders: Mapping[str, str | os.PathLike[str]],
) -> Iterator[dict[str, Checkpoint]]:
    """Open checkpoints by name, for as long as the context lasts.

    Raises:
        ReadFailed: when a file is missing.
        InvalidInput: when a config.json is no JSON object.
    """
    with ExitStack() as opened:
        yield {
            name: Checkpoint(
                Path(folder), read_config(Path(folder)), opened.enter_context(files.open(folder))
            )
            for name, folder in folders.items()
        }


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config.json of a checkpoint; numbers with a fraction keep their spelling.

    Raises:
        ReadFailed: when there is none.
        InvalidInput: when it is no JSON object.
    """
    path = folder / "config.json"
    note_path(path)
    try:
        size = path.stat().st_size
        data = b"" if size > _CONFIG_MOST else path.read_bytes()
    except OSError as error:
        detail, code = error.strerror or str(error), None
        if isinstance(error, FileNotFoundError):
            known = folder.is_dir()
            detail = "the folder has no config.json" if known else "no such folder"
            code = "missing-file" if known else "missing-folder"
        raise ReadFailed(detail, code=code, path=str(path), hint=_CHECKPOINT) from error
    try:
        if size > _CONFIG_MOST:
            raise InvalidInput("the config is too large", code="config", path=str(path))
        found = parse(data, float_text=True)
    except Malformed as error:
        detail = f"the config is no strict JSON: {error.detail}"
        raise InvalidInput(detail, code="config", path=str(path), offset=error.offset) from error
    if not isinstance(found, dict):
        raise InvalidInput("the config is no JSON object", code="config", path=str(path))
    return found


# --------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True)
class Rows:
    """The rows of one parameter in a checkpoint: `runs` of a tensor seen as rows of `width`.

    `encoding` says that they are codes, with scales beside them; `columns` are elements either way.
    """

    checkpoint: Checkpoint
    name: str
    columns: int
    runs: tuple[tuple[int, int], ...]
    axes: tuple[int, ...] | None = None
    encoding: Encoding | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(stop - start for start, stop in self.runs)

    @property
    def dtype(self) -> str:
        """What the rows are stored as: a storage type, or the encoding."""
        tensor = self.checkpoint.tensor(self.name)
        return self.encoding or tensor.parts["data"].dtype

    @property
    def prefix(self) -> str:
        """Name of the module that the tensor belongs to."""
        return _module_of(self.name)

    def read(self, start: int, stop: int) -> Array:
        """Return the values of rows [start, stop), [rows, columns]; decoded where they are codes.

        Raises:
            ReadFailed: when they cannot be read.
        """
        import numpy as np

        if self.encoding == "nvfp4":
            from tensorark.layouts.ninfer import nvfp4

            codes, scales = self.nvfp4(start, stop)
            out = np.empty((stop - start, self.columns), np.float32)
            nvfp4.reconstruct(codes, scales, self.divisor, out)
            return out
        if self.encoding is not None:
            from tensorark.layouts.ninfer.fp8 import reconstruct

            codes, scales = self.fp8(start, stop)
            out = np.empty(codes.shape, np.float32)
            reconstruct(codes, scales, out)
            return out
        return self._slices(self.name, self.columns, start, stop)

    def nvfp4(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return packed codes and scale words of rows [start, stop)."""
        import numpy as np

        codes = self._slices(self.name, self.columns // 2, start, stop)
        scales = self._slices(self.prefix + ".weight_scale", self.columns // 16, start, stop)
        return codes.view(np.uint8), scales.view(np.uint8)

    def fp8(self, start: int, stop: int) -> tuple[Array, Array]:
        """Return codes of rows [start, stop) and their multipliers, rounded to BF16, as float32."""
        import numpy as np

        from tensorark.layouts.ninfer.small_floats import bf16_values, bf16_words

        codes = self._slices(self.name, self.columns, start, stop).view(np.uint8)
        name = self.prefix + ".weight_scale"
        tensor = self.checkpoint.tensor(name)
        if tensor.elements == 1:
            found = self.checkpoint.file[name].numpy().reshape(1)
            scales = np.broadcast_to(found, len(codes))
        else:
            scales = self._slices(name, 1, start, stop).reshape(-1)
        return codes, bf16_values(bf16_words(scales))

    @cached_property
    def divisor(self) -> np.float32:
        """The divisor of nvfp4 weights, made of a multiplier where the checkpoint has that."""
        return self._scalar("weight_global_scale", "weight_scale_2")

    @cached_property
    def input_divisor(self) -> np.float32 | None:
        """The divisor of the input, if the checkpoint has one for 4-bit activations."""
        names = ("input_global_scale", "input_scale")
        if not any(self.checkpoint.has(f"{self.prefix}.{each}") for each in names):
            return None
        return self._scalar(*names)

    def _scalar(self, divisor: str, multiplier: str) -> np.float32:
        import numpy as np

        from tensorark.layouts.ninfer.nvfp4 import reciprocal

        is_packed = self.checkpoint.has(f"{self.prefix}.weight_packed")
        name = f"{self.prefix}.{divisor if is_packed else multiplier}"
        tensor = self.checkpoint.tensor(name)
        part = tensor.parts["data"]
        if tensor.elements != 1 or part.dtype != "f32" or part.type is not None:
            raise InvalidInput(
                "the scale of a whole matrix is one f32",
                code="import-scales",
                where=("objects", name),
            )
        value = np.float32(self.checkpoint.file[name].numpy().reshape(1)[0])
        found = value if is_packed else reciprocal(value)
        if not np.isfinite(found) or found <= 0:
            raise InvalidInput(
                "the scale of a whole matrix makes no divisor",
                code="import-scales",
                section="6.1",
                where=("objects", name),
                expected="a positive finite number",
                found=float(value),
            )
        return found

    def _slices(self, name: str, width: int, start: int, stop: int) -> Array:
        """Return rows [start, stop) of this parameter out of a tensor whose rows are `width`."""
        import numpy as np

        pieces = []
        for first, last in self._within(start, stop):
            pieces.append(self._flat(name, first * width, last * width).reshape(-1, width))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _within(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the rows of the tensor that are rows [start, stop) of the parameter."""
        before = 0
        for first, last in self.runs:
            begin, end = max(start - before, 0), min(stop - before, last - first)
            if begin < end:
                yield first + begin, first + end
            before += last - first

    def _flat(self, name: str, start: int, stop: int) -> Array:
        """Return elements [start, stop) of a tensor, its axes in the wanted order."""
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        view = self.checkpoint.file[name]
        if self.axes is not None:
            return view.numpy().transpose(self.axes).reshape(-1)[start:stop]
        part = view.tensor.parts["data"]
        element = numpy_dtype(part.dtype, part.type)
        where = ("objects", name, "parts", "data")
        data = self.checkpoint.file.ranges(part, where)(
            start * element.itemsize, (stop - start) * element.itemsize
        )
        import numpy as np

        return np.frombuffer(data, element)


def rows_of(checkpoint: Checkpoint, parameter: Parameter) -> Rows:
    """Return the rows of a parameter in a checkpoint, whose tensors have the shapes they must.

    Raises:
        NotFound: when a tensor is missing.
        InvalidInput: when it has another shape or type.
        Unsupported: when it is quantized in a way that is not known.
    """
    source = parameter.source
    if source is None:
        raise InvalidInput("no checkpoint holds this", code="no-source", where=(parameter.name,))
    columns = parameter.shape[-1] if len(parameter.shape) > 1 else 1
    if source.alone is not None and _encoding(checkpoint, source.alone)[0] is not None:
        return _rows(checkpoint, source.alone, parameter.shape, columns, None)
    return _rows(checkpoint, source.tensor, source.shape, columns, source)


def _encoding(checkpoint: Checkpoint, name: str) -> tuple[str | None, Encoding | None]:
    """Return the tensor that holds the weights called `name`, and how they are encoded."""
    packed = name.removesuffix(".weight") + ".weight_packed"
    if name.endswith(".weight") and checkpoint.has(packed):
        return packed, "nvfp4"
    if not checkpoint.has(name):
        return None, None
    part = checkpoint.tensor(name).parts["data"]
    scale = name.removesuffix(".weight") + ".weight_scale"
    if part.dtype == "u8" and part.type is None and checkpoint.has(scale):
        return name, "nvfp4"
    if part.type == "f8_e4m3fn" and checkpoint.has(scale):
        return name, "fp8_e4m3fn_row_bf16"
    return name, None


def _rows(
    checkpoint: Checkpoint,
    name: str,
    shape: Sequence[int],
    columns: int,
    source: Source | None,
) -> Rows:
    found, encoding = _encoding(checkpoint, name)
    tensor = checkpoint.tensor(found or name)
    part = tensor.parts["data"]
    stored = tuple(shape)
    if encoding == "nvfp4":
        stored = (*stored[:-1], stored[-1] // 2)
    if tensor.shape != stored:
        raise InvalidInput(
            "a tensor has another shape than the config says",
            code="checkpoint-shape",
            path=str(checkpoint.folder),
            where=("objects", tensor.name),
            expected=list(stored),
            found=list(tensor.shape),
        )
    is_plain = tensor.layout == "dense" and part.type is None and part.dtype in _PLAIN
    if encoding is None and not is_plain:
        detail, hint = "the tensor is quantized in a way that is not known", None
        if checkpoint.has(f"{tensor.name}_scale_inv"):
            detail = "FP8 weights with a scale for each block (weight_scale_inv) are not converted"
            hint = "no format of NInfer has scales of blocks; start from the checkpoint in bf16"
        raise Unsupported(
            detail,
            code="checkpoint-type",
            hint=hint,
            path=str(checkpoint.folder),
            where=("objects", tensor.name),
            found=part.type or part.dtype,
        )
    axes = source.axes if source else None
    runs = source.rows if source and source.rows is not None else ((0, prod(shape) // columns),)
    if encoding is not None:
        _check_scales(checkpoint, tensor.name, encoding, tuple(shape))
    return Rows(checkpoint, tensor.name, columns, _join(runs), axes, encoding)


def _check_scales(
    checkpoint: Checkpoint, name: str, encoding: Encoding, shape: tuple[int, ...]
) -> None:
    scales = checkpoint.tensor(_module_of(name) + ".weight_scale")
    part = scales.parts["data"]
    if encoding == "nvfp4":
        fits = part.type == "f8_e4m3fn" and scales.shape == (*shape[:-1], shape[-1] // 16)
        fits = fits and shape[-1] % 16 == 0
    else:
        fits = part.type is None and part.dtype in {"bf16", "f32"}
        fits = fits and scales.elements in {1, prod(shape[:-1])}
    if not fits:
        raise InvalidInput(
            "the scales do not fit the codes",
            code="import-scales",
            path=str(checkpoint.folder),
            where=("objects", scales.name),
            found=f"{part.type or part.dtype} {list(scales.shape)}",
        )


def _module_of(name: str) -> str:
    return name.removesuffix(".weight").removesuffix(".weight_packed")


def _join(runs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join runs that follow each other."""
    found: list[tuple[int, int]] = []
    for start, stop in runs:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)
