"""Quantised checkpoints as quantised tensors, and back: GPTQ, AWQ and MLX in safetensors.

Importing gathers the tensors of a quantised layer into one: GPTQ and AWQ become `zt.quant_group/1`,
repacked, MLX becomes `mlx.affine/1`. Exporting gives the tensors back byte for byte. Values are
those that the checkpoint means, exactly; a layer for which that cannot be had stays as it is, and
the reason is told. `docs/guide/sparse-and-quantized.md` says what is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from tensorark.conversion.config import Config
from tensorark.core.brief import brief
from tensorark.core.model import Catalog, Part, Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Rejected
from tensorark.files import File
from tensorark.files.derived import Pieces, Recast, computed
from tensorark.layouts.affine import rules as affine
from tensorark.layouts.quant import rules as quant

ORIGIN: Final = "tensorark.checkpoint"
"""The attribute that says what an imported tensor was made of; exporting needs it."""

Direction = Literal["import", "export"]

_FACTORS: Final = {"f16": "f16_factors", "bf16": "f16_factors", "f32": "f32_factors"}
_WORDS: Final = ("i32", "u32")
_WEIGHT: Final = "weight"


class _Left(Exception):
    """A layer stays as it is, for this reason."""


@dataclass(frozen=True, slots=True)
class Recasting:
    """What importing or exporting did: tensors made, tensors they replace, layers left, and why."""

    __repr__ = brief

    made: tuple[str, ...]
    replaced: tuple[str, ...]
    left: Mapping[str, str]


@dataclass(slots=True)
class _Work:
    """The catalog that is being made: tensors by name, and how to compute parts."""

    file: File
    tensors: dict[str, Tensor]
    made: dict[str, Pieces] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def replace(self, old: list[str], new: list[Tensor], made: Mapping[str, Pieces]) -> None:
        """Put the tensors `new` in the place of `old`."""
        clash = [each.name for each in new if each.name in self.tensors and each.name not in old]
        if clash:
            raise _Left(f"there is a tensor {clash[0]!r} already")
        for name in old:
            del self.tensors[name]
        self.tensors.update({each.name: each for each in new})
        self.made.update(made)
        self.names += [each.name for each in new]
        self.replaced += old

    def payload(self, tensor: Tensor, role: str = "data") -> memoryview:
        """Return the decoded bytes of a part of the original file."""
        return self.file.payload(tensor.parts[role], ("objects", tensor.name, "parts", role))

    def reader(self, tensor: Tensor, role: str = "data") -> Callable[[], memoryview]:
        """Return what reads a part of the original file."""
        return partial(self.payload, tensor, role)

    def result(self) -> Recasting:
        """Return what was done."""
        return Recasting(tuple(self.names), tuple(self.replaced), dict(self.left))


def import_layers(file: File, config: Config | None) -> tuple[File, Recasting]:
    """Return `file` with its quantised layers as one tensor each, where that is exact.

    `config` is that of the checkpoint; without one no layer is understood, because the tensors
    alone do not tell.
    """
    work = _Work(file, dict(file.catalog.tensors))
    for name in file.catalog.tensors:
        prefix, _, role = name.rpartition(".")
        stem = f"{prefix}." if prefix else ""
        try:
            if role == "qweight":
                _import_packed(work, stem, config)
            elif role == _WEIGHT and {stem + "scales", stem + "biases"} <= work.tensors.keys():
                _import_mlx(work, stem, config)
        except _Left as reason:
            work.left[name] = str(reason)
    catalog = Catalog("zt", work.tensors, file.catalog.attributes, None, file.catalog.files)
    return Recast(file, catalog, work.made), work.result()


def export_layers(file: File) -> tuple[File, Recasting]:
    """Return `file` with imported tensors as the tensors they were made of."""
    work = _Work(file, dict(file.catalog.tensors))
    for name, tensor in list(work.tensors.items()):
        origin = (tensor.attributes or {}).get(ORIGIN)
        if not isinstance(origin, Mapping):
            continue
        try:
            _export(work, tensor, origin)
        except _Left as reason:
            work.left[name] = str(reason)
        except Rejected as error:
            work.left[name] = error.detail
    catalog = replace(file.catalog, tensors=work.tensors)
    return Recast(file, catalog, work.made), work.result()


# GPTQ and AWQ


@dataclass(frozen=True, slots=True)
class _Packed:
    """A GPTQ or AWQ layer: its tensors, and what they mean."""

    method: str
    tensors: Mapping[str, Tensor]
    inputs: int
    outputs: int
    bits: int
    group_size: int
    add: int

    @property
    def groups(self) -> int:
        """Groups along the input."""
        return self.inputs // self.group_size

    @property
    def per_word(self) -> int:
        """Codes in a word."""
        return 32 // self.bits


def _import_packed(work: _Work, stem: str, config: Config | None) -> None:
    layer = _recognised(work, stem, config)
    shape = (layer.outputs, layer.inputs)
    name = stem + _WEIGHT
    scales = layer.tensors["scales"].parts["data"]
    origin: dict[str, object] = {"method": layer.method}
    if layer.method == "gptq":
        origin |= {"g_idx": "g_idx" in layer.tensors, "zeros_less": layer.add}
    attributes: dict[str, object] = {
        "axis": 1,
        "bits": layer.bits,
        "group_size": layer.group_size,
        "packing": {"order": "lsb_first", "per_word": layer.per_word, "word": "u32"},
        "scale_form": _FACTORS[scales.dtype],
        "zero_point": {"form": "tensor", "packing": "same_as_data"},
        ORIGIN: origin,
    }
    originals = {role: layer.tensors[role].parts["data"] for role in _ROLES}
    parts = {
        new: computed(f"{name} {new}", originals[old].nbytes, originals[old].dtype)
        for old, new in _ROLES.items()
    }
    old = [each.name for each in layer.tensors.values()]
    made = {f"{name} {role}": partial(_ours, work, layer, role) for role in parts}
    work.replace(old, [Tensor(name, shape, quant.ID, parts, attributes)], made)


_ROLES: Final = {"qweight": "data", "scales": "scales", "qzeros": "zeros"}


def _ours(work: _Work, layer: _Packed, role: str) -> Iterator[memoryview]:
    """Compute a part of `zt.quant_group/1` from the tensors of a layer."""
    from tensorark.layouts.quant import checkpoints

    is_awq = layer.method == "awq"
    old = next(old for old, new in _ROLES.items() if new == role)
    tensor = layer.tensors[old]
    data = work.payload(tensor)
    if role == "scales":
        width = DTYPES[tensor.parts["data"].dtype]
        yield from checkpoints.transpose(data, layer.groups, layer.outputs, width)
    elif role == "zeros":
        yield checkpoints.zeros_from_rows(
            data, layer.groups, layer.outputs, layer.bits, add=layer.add, awq=is_awq
        )
    elif is_awq:
        yield from checkpoints.awq_to_words(data, layer.inputs, layer.outputs)
    else:
        rows = layer.inputs // layer.per_word
        yield from checkpoints.transpose(data, rows, layer.outputs, 4)


def _recognised(work: _Work, stem: str, config: Config | None) -> _Packed:
    """Return the GPTQ or AWQ layer `stem`, all of whose tensors fit each other and `config`."""
    if config is None:
        raise _Left("there is no configuration that says how it is quantised")
    if config.method not in {"gptq", "awq"}:
        raise _Left(f"the configuration speaks of {config.method}")
    if config.refusal is not None:
        raise _Left(config.refusal)
    tensors = {
        role: work.tensors[stem + role]
        for role in ("qweight", "qzeros", "scales", "g_idx")
        if stem + role in work.tensors
    }
    lacking = [role for role in _ROLES if role not in tensors]
    if lacking:
        raise _Left(f"there is no {stem}{lacking[0]}")
    for role, tensor in tensors.items():
        if tensor.layout != "dense" or tensor.attributes is not None:
            raise _Left(f"{tensor.name} is no plain tensor")
        if role == "scales":
            fits = tensor.parts["data"].dtype in _FACTORS
        else:
            fits = tensor.parts["data"].dtype in (("i32",) if role == "g_idx" else _WORDS)
        if not fits or tensor.parts["data"].type is not None:
            raise _Left(f"{tensor.name} is of the type {tensor.parts['data'].dtype}")
        if len(tensor.shape) != (1 if role == "g_idx" else 2):
            raise _Left(f"{tensor.name} has {len(tensor.shape)} dimensions")
    layer = _measured(config, tensors)
    _require_order(work, layer, config)
    _require_zeros(work, layer, config)
    return layer


def _measured(config: Config, tensors: Mapping[str, Tensor]) -> _Packed:
    """Return the sizes of a layer, which follow from its tensors and must fit `config`."""
    bits = config.bits
    groups, outputs = tensors["scales"].shape
    per_word = 32 // bits
    if config.method == "awq":
        inputs = tensors["qweight"].shape[0]
        expected = (inputs, outputs // per_word)
    else:
        inputs = tensors["qweight"].shape[0] * per_word
        expected = (inputs // per_word, outputs)
    group_size = inputs if config.group_size == -1 else config.group_size
    if (
        tensors["qweight"].shape != expected
        or tensors["qzeros"].shape != (groups, outputs // per_word)
        or outputs % per_word
        or inputs % per_word
        or not group_size
        or groups * group_size != inputs
        or ("g_idx" in tensors and tensors["g_idx"].shape != (inputs,))
    ):
        raise _Left(
            f"its shapes do not fit {bits} bits in groups of {config.group_size}: "
            + ", ".join(f"{role} {list(each.shape)}" for role, each in tensors.items())
        )
    return _Packed(config.method, tensors, inputs, outputs, bits, group_size, config.zeros_less)


def _require_order(work: _Work, layer: _Packed, config: Config) -> None:
    """Require groups to follow each other: the profile knows no others."""
    from tensorark.layouts.quant.checkpoints import is_plain_order

    if layer.method == "awq":
        if "g_idx" in layer.tensors:
            raise _Left("AWQ has no g_idx")
        return
    if "g_idx" not in layer.tensors:
        if config.is_ordered:
            return
        raise _Left("it was quantised in the order of activations, and its g_idx is not there")
    if not is_plain_order(work.payload(layer.tensors["g_idx"]), layer.inputs, layer.group_size):
        raise _Left("its g_idx scatters the inputs of a group, which zt.quant_group/1 cannot say")


def _require_zeros(work: _Work, layer: _Packed, config: Config) -> None:
    """Require the zero points to mean one thing to all who read them."""
    from tensorark.layouts.quant.checkpoints import codes_of

    if not layer.add:
        return
    codes = codes_of(work.payload(layer.tensors["qzeros"]), layer.bits)
    top, middle = (1 << layer.bits) - 1, 1 << (layer.bits - 1)
    if (codes == top).any():
        raise _Left(
            f"it stores a zero point less one as {top}, which some read as 0 and some as {top + 1}"
        )
    if config.is_symmetric and codes.size and (codes == middle).all():
        raise _Left(
            f"its zero points are all {middle}: the file says they are stored less one, "
            "and for symmetric codes that means they are not"
        )


# MLX


def _import_mlx(work: _Work, stem: str, config: Config | None) -> None:
    names = {"data": stem + _WEIGHT, "scales": stem + "scales", "biases": stem + "biases"}
    tensors = {role: work.tensors[name] for role, name in names.items()}
    data, scales = tensors["data"], tensors["scales"]
    if data.parts.get("data", _NO_PART).dtype != "u32":
        return  # a layer that happens to have scales and biases
    if config is None:
        raise _Left("there is no configuration that says how it is quantised")
    if config.method != "mlx":
        raise _Left(f"the configuration speaks of {config.method}")
    bits, group_size = config.of_layer(stem.removesuffix("."))
    if bits is None or group_size is None:
        raise _Left("the configuration says that it is not quantised, or how is not known")
    for tensor in tensors.values():
        if tensor.layout != "dense" or tensor.attributes is not None or not tensor.shape:
            raise _Left(f"{tensor.name} is no plain tensor")
    inputs = scales.shape[-1] * group_size
    shape = (*scales.shape[:-1], inputs)
    words = (*scales.shape[:-1], inputs * bits // 32)
    if data.shape != words or tensors["biases"].shape != scales.shape:
        found = ", ".join(f"{each.name} {list(each.shape)}" for each in tensors.values())
        raise _Left(f"its shapes do not fit {bits} bits in groups of {group_size}: {found}")
    attributes = {"bits": bits, "group_size": group_size, ORIGIN: {"method": "mlx"}}
    parts = {role: tensor.parts["data"] for role, tensor in tensors.items()}
    made = Tensor(data.name, shape, affine.ID, parts, attributes)
    try:
        affine.LAYOUT.check(made)
    except Rejected as error:
        raise _Left(error.detail) from error
    work.replace(list(names.values()), [made], {})


_NO_PART: Final = computed("", 0, "")


# The way back


def _export(work: _Work, tensor: Tensor, origin: Mapping[str, object]) -> None:
    prefix, _, role = tensor.name.rpartition(".")
    if role != _WEIGHT:
        raise _Left("its name does not end with weight")
    stem = f"{prefix}." if prefix else ""
    method = origin.get("method")
    if tensor.layout == affine.ID and method == "mlx":
        _export_mlx(work, stem, tensor)
    elif tensor.layout == quant.ID and method in ("gptq", "awq"):
        _export_packed(work, stem, tensor, origin)
    else:
        raise _Left(f"it was made by {method!r}, which is not known for {tensor.layout}")


def _export_mlx(work: _Work, stem: str, tensor: Tensor) -> None:
    scheme = affine.LAYOUT.check(tensor)
    head, inputs = tensor.shape[:-1], tensor.shape[-1]
    bits, group_size = scheme.bits or 8, scheme.group_size or 1
    shapes = {
        _WEIGHT: (*head, inputs * bits // 32),
        "scales": (*head, inputs // group_size),
        "biases": (*head, inputs // group_size),
    }
    new = [
        Tensor(stem + role, shape, "dense", {"data": _plain(tensor, role)})
        for role, shape in shapes.items()
    ]
    work.replace([tensor.name], new, {})


def _plain(tensor: Tensor, role: str) -> Part:
    return tensor.parts["data" if role == _WEIGHT else role]


def _export_packed(work: _Work, stem: str, tensor: Tensor, origin: Mapping[str, object]) -> None:
    from tensorark.layouts.quant.checkpoints import codes_of

    scheme = quant.LAYOUT.check(tensor)
    add, has_index = origin.get("zeros_less", 0), origin.get("g_idx", False)
    bits, group_size = scheme.bits or 8, scheme.group_size or 1
    fits = (
        len(tensor.shape) == 2
        and scheme.axis == 1
        and (scheme.word, scheme.order) == ("u32", "lsb_first")
        and (scheme.zero_form, scheme.zero_packing) == ("tensor", "same_as_data")
        and scheme.group_size
        and not (tensor.shape[0] * bits % 32 or tensor.shape[1] * bits % 32)
        and type(add) is int
        and add in {0, 1}
        and isinstance(has_index, bool)
        and (origin["method"] == "gptq" or (bits, add, has_index) == (4, 0, False))
    )
    if not fits or type(add) is not int:
        raise _Left("its scheme is none that its origin could have had")
    if add and (codes_of(work.payload(tensor, "zeros"), bits) == 0).any():
        raise _Left("it has a zero point of 0, which cannot be stored less one")
    outputs, inputs = tensor.shape
    layer = _Packed(str(origin["method"]), {}, inputs, outputs, bits, group_size, add)
    words = (inputs, outputs // layer.per_word)
    shapes = {
        "qweight": words if layer.method == "awq" else (inputs // layer.per_word, outputs),
        "qzeros": (layer.groups, outputs // layer.per_word),
        "scales": (layer.groups, outputs),
    }
    new, made = [], {}
    for role, shape in shapes.items():
        stored = tensor.parts[_ROLES[role]]
        key = stem + role
        part = computed(key, stored.nbytes, stored.dtype)
        new.append(Tensor(key, shape, "dense", {"data": part}))
        made[key] = partial(_theirs, work, tensor, layer, role)
    if has_index:
        part = computed(stem + "g_idx", 4 * inputs, "i32")
        new.append(Tensor(stem + "g_idx", (inputs,), "dense", {"data": part}))
        made[stem + "g_idx"] = partial(_theirs, work, tensor, layer, "g_idx")
    work.replace([tensor.name], new, made)


def _theirs(work: _Work, tensor: Tensor, layer: _Packed, role: str) -> Iterator[memoryview]:
    """Compute a tensor of a GPTQ or AWQ layer from the parts of `zt.quant_group/1`."""
    from tensorark.layouts.quant import checkpoints

    if role == "g_idx":
        yield checkpoints.plain_order(layer.inputs, layer.group_size)
        return
    is_awq = layer.method == "awq"
    data = work.payload(tensor, _ROLES[role])
    if role == "scales":
        width = DTYPES[tensor.parts["scales"].dtype]
        yield from checkpoints.transpose(data, layer.outputs, layer.groups, width)
    elif role == "qzeros":
        yield checkpoints.zeros_to_rows(
            data, layer.groups, layer.outputs, layer.bits, add=layer.add, awq=is_awq
        )
    elif is_awq:
        yield from checkpoints.awq_from_words(data, layer.inputs, layer.outputs)
    else:
        rows = layer.inputs // layer.per_word
        yield from checkpoints.transpose(data, layer.outputs, rows, 4)
