"""Quantized checkpoints as quantized tensors, and back: GPTQ, AWQ and MLX in safetensors.

Importing gathers the tensors of a quantized layer into one: GPTQ and AWQ become `zt.quant_group/1`,
repacked, MLX becomes `mlx.affine/1`. Exporting gives the tensors back byte for byte. Values are
those that the checkpoint means, exactly; a layer for which that cannot be had stays as it is, and
the reason is told. `docs/guide/sparse-and-quantized.md` says what is recognized.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from tensorark.conversion.config import Config
from tensorark.conversion.layers import Layers, Left, Recasting, replace_layers
from tensorark.core.model import Part, Raw, Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Rejected
from tensorark.files import File
from tensorark.files.derived import derive_part
from tensorark.layouts.affine import rules as affine
from tensorark.layouts.quant import rules as quant

ORIGIN: Final = "tensorark.checkpoint"
"""The attribute that says what an imported tensor was made of; exporting needs it."""

Direction = Literal["import", "export"]

_FACTORS: Final = {"f16": "f16_factors", "bf16": "f16_factors", "f32": "f32_factors"}
_WORDS: Final = ("i32", "u32")
_WEIGHT: Final = "weight"


def import_layers(file: File, config: Config | None) -> tuple[File, Recasting]:
    """Return `file` with its quantized layers as one tensor each, where that is exact.

    `config` is that of the checkpoint; without one no layer is understood, because the tensors
    alone do not tell.
    """
    return replace_layers(file, partial(_import, config))


def export_layers(file: File) -> tuple[File, Recasting]:
    """Return `file` with imported tensors as the tensors they were made of."""
    return replace_layers(file, _export, stays=lambda _error: True)


def _import(config: Config | None, layers: Layers, name: str) -> None:
    prefix, _, role = name.rpartition(".")
    stem = f"{prefix}." if prefix else ""
    if role == "qweight":
        _import_packed(layers, stem, config)
    elif role == _WEIGHT and {stem + "scales", stem + "biases"} <= layers.tensors.keys():
        _import_mlx(layers, stem, config)


def _payload(file: File, tensor: Tensor, role: str = "data") -> memoryview:
    return file.payload(tensor.parts[role], ("objects", tensor.name, "parts", role))


# GPTQ and AWQ


@dataclass(frozen=True, slots=True)
class _PackedLayer:
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


def _import_packed(layers: Layers, stem: str, config: Config | None) -> None:
    layer = _recognize(layers, stem, config)
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
        new: derive_part(
            partial(_import_part, layers.file, layer, new),
            originals[old].nbytes,
            originals[old].dtype,
        )
        for old, new in _ROLES.items()
    }
    old = [each.name for each in layer.tensors.values()]
    layers.replace(old, [Tensor(name, shape, quant.ID, parts, attributes)])


_ROLES: Final = {"qweight": "data", "scales": "scales", "qzeros": "zeros"}


def _import_part(file: File, layer: _PackedLayer, role: str) -> Iterator[memoryview]:
    """Compute a part of `zt.quant_group/1` from the tensors of a layer."""
    from tensorark.layouts.quant import checkpoints

    is_awq = layer.method == "awq"
    old = next(old for old, new in _ROLES.items() if new == role)
    tensor = layer.tensors[old]
    data = _payload(file, tensor)
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


def _recognize(layers: Layers, stem: str, config: Config | None) -> _PackedLayer:
    """Return the GPTQ or AWQ layer `stem`, all of whose tensors fit each other and `config`."""
    if config is None:
        raise Left("there is no configuration that says how it is quantized")
    if config.method not in {"gptq", "awq"}:
        raise Left(f"the configuration speaks of {config.method}")
    if config.refusal is not None:
        raise Left(config.refusal)
    tensors = {
        role: layers.tensors[stem + role]
        for role in ("qweight", "qzeros", "scales", "g_idx")
        if stem + role in layers.tensors
    }
    lacking = [role for role in _ROLES if role not in tensors]
    if lacking:
        raise Left(f"there is no {stem}{lacking[0]}")
    for role, tensor in tensors.items():
        if tensor.layout != "dense" or tensor.attributes is not None:
            raise Left(f"{tensor.name} is no plain tensor")
        if role == "scales":
            fits = tensor.parts["data"].dtype in _FACTORS
        else:
            fits = tensor.parts["data"].dtype in (("i32",) if role == "g_idx" else _WORDS)
        if not fits or tensor.parts["data"].type is not None:
            raise Left(f"{tensor.name} is of the type {tensor.parts['data'].dtype}")
        if len(tensor.shape) != (1 if role == "g_idx" else 2):
            raise Left(f"{tensor.name} has {len(tensor.shape)} dimensions")
    layer = _measure(config, tensors)
    _require_order(layers, layer, config)
    _require_zeros(layers, layer, config)
    return layer


def _measure(config: Config, tensors: Mapping[str, Tensor]) -> _PackedLayer:
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
        raise Left(
            f"its shapes do not fit {bits} bits in groups of {config.group_size}: "
            + ", ".join(f"{role} {list(each.shape)}" for role, each in tensors.items())
        )
    return _PackedLayer(
        config.method, tensors, inputs, outputs, bits, group_size, config.zeros_less
    )


def _require_order(layers: Layers, layer: _PackedLayer, config: Config) -> None:
    """Require groups to follow each other: the profile knows no others."""
    from tensorark.layouts.quant.checkpoints import is_plain_order

    if layer.method == "awq":
        if "g_idx" in layer.tensors:
            raise Left("AWQ has no g_idx")
        return
    if "g_idx" not in layer.tensors:
        if config.is_ordered:
            return
        raise Left("it was quantized in the order of activations, and its g_idx is not there")
    if not is_plain_order(
        _payload(layers.file, layer.tensors["g_idx"]), layer.inputs, layer.group_size
    ):
        raise Left("its g_idx scatters the inputs of a group, which zt.quant_group/1 cannot say")


def _require_zeros(layers: Layers, layer: _PackedLayer, config: Config) -> None:
    """Require the zero points to mean one thing to all who read them."""
    from tensorark.layouts.numbers.bits import unpack

    if not layer.add:
        return
    codes = unpack(_payload(layers.file, layer.tensors["qzeros"]), layer.bits)
    top, middle = (1 << layer.bits) - 1, 1 << (layer.bits - 1)
    if (codes == top).any():
        raise Left(
            f"it stores a zero point less one as {top}, which some read as 0 and some as {top + 1}"
        )
    if config.is_symmetric and codes.size and (codes == middle).all():
        raise Left(
            f"its zero points are all {middle}: the file says they are stored less one, "
            "and for symmetric codes that means they are not"
        )


# MLX


def _import_mlx(layers: Layers, stem: str, config: Config | None) -> None:
    names = {"data": stem + _WEIGHT, "scales": stem + "scales", "biases": stem + "biases"}
    tensors = {role: layers.tensors[name] for role, name in names.items()}
    data, scales = tensors["data"], tensors["scales"]
    if data.parts.get("data", _NO_PART).dtype != "u32":
        return  # a layer that happens to have scales and biases
    if config is None:
        raise Left("there is no configuration that says how it is quantized")
    if config.method != "mlx":
        raise Left(f"the configuration speaks of {config.method}")
    bits, group_size = config.of_layer(stem.removesuffix("."))
    if bits is None or group_size is None:
        raise Left("the configuration says that it is not quantized, or how is not known")
    for tensor in tensors.values():
        if tensor.layout != "dense" or tensor.attributes is not None or not tensor.shape:
            raise Left(f"{tensor.name} is no plain tensor")
    inputs = scales.shape[-1] * group_size
    shape = (*scales.shape[:-1], inputs)
    words = (*scales.shape[:-1], inputs * bits // 32)
    if data.shape != words or tensors["biases"].shape != scales.shape:
        found = ", ".join(f"{each.name} {list(each.shape)}" for each in tensors.values())
        raise Left(f"its shapes do not fit {bits} bits in groups of {group_size}: {found}")
    attributes = {"bits": bits, "group_size": group_size, ORIGIN: {"method": "mlx"}}
    parts = {role: tensor.parts["data"] for role, tensor in tensors.items()}
    made = Tensor(data.name, shape, affine.ID, parts, attributes)
    try:
        affine.LAYOUT.check(made)
    except Rejected as error:
        raise Left(error.detail) from error
    layers.replace(list(names.values()), [made])


_NO_PART: Final = Part(Raw(()), "")


# The way back


def _export(layers: Layers, name: str) -> None:
    tensor = layers.tensors[name]
    origin = (tensor.attributes or {}).get(ORIGIN)
    if not isinstance(origin, Mapping):
        return
    prefix, _, role = tensor.name.rpartition(".")
    if role != _WEIGHT:
        raise Left("its name does not end with weight")
    stem = f"{prefix}." if prefix else ""
    method = origin.get("method")
    if tensor.layout == affine.ID and method == "mlx":
        _export_mlx(layers, stem, tensor)
    elif tensor.layout == quant.ID and method in ("gptq", "awq"):
        _export_packed(layers, stem, tensor, origin)
    else:
        raise Left(f"it was made by {method!r}, which is not known for {tensor.layout}")


def _export_mlx(layers: Layers, stem: str, tensor: Tensor) -> None:
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
    layers.replace([tensor.name], new)


def _plain(tensor: Tensor, role: str) -> Part:
    return tensor.parts["data" if role == _WEIGHT else role]


def _export_packed(layers: Layers, stem: str, tensor: Tensor, origin: Mapping[str, object]) -> None:
    from tensorark.layouts.numbers.bits import unpack

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
        raise Left("its scheme is none that its origin could have had")
    if add and (unpack(_payload(layers.file, tensor, "zeros"), bits) == 0).any():
        raise Left("it has a zero point of 0, which cannot be stored less one")
    outputs, inputs = tensor.shape
    layer = _PackedLayer(str(origin["method"]), {}, inputs, outputs, bits, group_size, add)
    words = (inputs, outputs // layer.per_word)
    shapes = {
        "qweight": words if layer.method == "awq" else (inputs // layer.per_word, outputs),
        "qzeros": (layer.groups, outputs // layer.per_word),
        "scales": (layer.groups, outputs),
    }
    new = []
    for role, shape in shapes.items():
        held = tensor.parts[_ROLES[role]]
        compute = partial(_export_part, layers.file, tensor, layer, role)
        part = derive_part(compute, held.nbytes, held.dtype)
        new.append(Tensor(stem + role, shape, "dense", {"data": part}))
    if has_index:
        compute = partial(_export_part, layers.file, tensor, layer, "g_idx")
        part = derive_part(compute, 4 * inputs, "i32")
        new.append(Tensor(stem + "g_idx", (inputs,), "dense", {"data": part}))
    layers.replace([tensor.name], new)


def _export_part(
    file: File, tensor: Tensor, layer: _PackedLayer, role: str
) -> Iterator[memoryview]:
    """Compute a tensor of a GPTQ or AWQ layer from the parts of `zt.quant_group/1`."""
    from tensorark.layouts.quant import checkpoints

    if role == "g_idx":
        yield checkpoints.plain_order(layer.inputs, layer.group_size)
        return
    is_awq = layer.method == "awq"
    data = _payload(file, tensor, _ROLES[role])
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
