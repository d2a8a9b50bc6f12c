"""What the configuration of a checkpoint says about its quantization.

Owns the keys of `config.json` and `quantize_config.json`. Says no more than what is written there:
tensors are judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tensorark.errors import InvalidInput, ReadFailed, Rejected
from tensorark.io.inputs import note_path
from tensorark.io.safe_names import beside
from tensorark.wire.json import Malformed, parse

BESIDE: Final = (
    "config.json",
    "quantize_config.json",
    "hf_quant_config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
)
"""Files that belong to a model and lie beside it."""

FILES: Final = ("config.json", "quantize_config.json")
"""Where a configuration is looked for, beside the model; the first that has one is taken."""

_LARGEST: Final = 16 << 20  # bytes; real ones have a few thousand
_BITS: Final = frozenset({2, 4, 8})
_MLX_BITS: Final = frozenset({2, 3, 4, 5, 6, 8})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How the layers of a checkpoint are quantized.

    `method` is ``gptq``, ``awq``, ``mlx`` or another, `group_size` -1 a single group; GPTQ stores
    zero points less `zeros_less`. `refusal` says why no layer can be understood, None if some can.
    """

    method: str
    bits: int = 0
    group_size: int = 0
    zeros_less: int = 0
    is_ordered: bool = True
    is_symmetric: bool = False
    refusal: str | None = None
    layers: Mapping[str, object] = field(default_factory=dict)

    def of_layer(self, name: str) -> tuple[int | None, int | None]:
        """Return bits and group size of an MLX layer; None where it has none that we know."""
        own = self.layers.get(name)
        if own is None or own is True:
            return self.bits or None, self.group_size or None
        if not isinstance(own, Mapping) or own.get("mode", "affine") != "affine":
            return None, None
        bits, group_size = own.get("bits", self.bits), own.get("group_size", self.group_size)
        known = type(bits) is int and bits in _MLX_BITS
        sized = type(group_size) is int and group_size > 0
        return (bits if known else None), (group_size if sized else None)


def find_config(model: str) -> Config | None:
    """Return the configuration that lies beside a model, or None.

    Raises:
        Rejected: when it is no strict JSON.
        ReadFailed: when it cannot be read.
    """
    for name in FILES:
        path = beside(Path(model).parent, name)
        if not path.is_file():
            continue
        found = parse_config(_read(path))
        if found is not None:
            return found
    return None


def left_beside(model: str, target: Path) -> tuple[str, ...]:
    """Return the files that belong to a model and lie beside it, but not beside `target`."""
    here, there = Path(model).absolute().parent, target.absolute().parent
    return tuple(
        name for name in BESIDE if (here / name).is_file() and not (there / name).is_file()
    )


def _read(path: Path) -> Mapping[str, object]:
    note_path(path)
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise ReadFailed(error.strerror or str(error), path=str(path)) from error
    if len(text) > _LARGEST:
        expected = f"at most {_LARGEST} bytes"
        raise Rejected("too large for a configuration", path=str(path), expected=expected)
    try:
        value = parse(text)
    except Malformed as error:
        detail = f"the configuration is no strict JSON: {error.detail}"
        raise Rejected(detail, code="config", path=str(path), offset=error.offset) from error
    if not isinstance(value, Mapping):
        raise Rejected("the configuration is no JSON object", code="config", path=str(path))
    return value


def parse_config(config: Mapping[str, object]) -> Config | None:
    """Read a configuration: that of a model, or only its part about quantization. None if none.

    Raises:
        InvalidInput: when the part about quantization is no object.
    """
    part = config
    for key in ("quantization_config", "quantization"):
        if config.get(key) is not None:
            found = config[key]
            if not isinstance(found, Mapping):
                detail = "the configuration of the quantization is no object"
                raise InvalidInput(detail, code="config", found=key)
            part = found
            break
    method = _method(part)
    if method == "gptq":
        return _gptq(part)
    if method == "awq":
        return _awq(part)
    if method == "mlx":
        return _mlx(part)
    return None if method is None else Config(method=method, refusal=f"{method} is not known")


def _method(part: Mapping[str, object]) -> str | None:
    named = part.get("quant_method")
    if isinstance(named, str):
        return named.lower()
    if "desc_act" in part:
        return "gptq"
    if "w_bit" in part or "q_group_size" in part:
        return "awq"
    return "mlx" if "bits" in part and "group_size" in part else None


def _gptq(part: Mapping[str, object]) -> Config:
    stored = part.get("checkpoint_format", "gptq")
    refusal = None
    if stored not in ("gptq", "gptq_v2"):  # may be a list, which no set can be asked for
        refusal = f"the checkpoint format {stored!r} is not known"
    if part.get("dynamic"):
        refusal = "its layers are quantized in different ways (dynamic)"
    return _with_size(
        Config(
            method="gptq",
            zeros_less=int(stored == "gptq"),
            is_ordered=part.get("desc_act", False) is False,
            is_symmetric=part.get("sym") is True,
            refusal=refusal,
        ),
        part.get("bits"),
        part.get("group_size"),
    )


def _awq(part: Mapping[str, object]) -> Config:
    version = part.get("version", "gemm")
    known = isinstance(version, str) and version.lower() == "gemm"
    bits = part.get("bits", part.get("w_bit"))
    refusal = None if known else f"the version {version!r} of AWQ is not known"
    if bits != 4:
        refusal = f"AWQ with {bits!r} bits is not known"
    group_size = part.get("group_size", part.get("q_group_size"))
    return _with_size(Config(method="awq", refusal=refusal), bits, group_size)


def _mlx(part: Mapping[str, object]) -> Config:
    bits, group_size = part.get("bits"), part.get("group_size")
    known = part.get("mode", "affine") == "affine" and type(bits) is int and bits in _MLX_BITS
    sized = type(group_size) is int and group_size > 0
    return Config(
        method="mlx",
        bits=bits if known and type(bits) is int else 0,
        group_size=group_size if sized and type(group_size) is int else 0,
        layers={key: own for key, own in part.items() if isinstance(own, bool | Mapping)},
    )


def _with_size(config: Config, bits: object, group_size: object) -> Config:
    """Return `config` with bits and group size, or with the reason why they are not usable."""
    if type(bits) is not int or bits not in _BITS:
        return replace(config, refusal=config.refusal or f"{bits!r} bits do not divide words")
    if type(group_size) is not int or not (group_size == -1 or group_size > 0):
        return replace(config, refusal=config.refusal or f"the group size {group_size!r} is none")
    return replace(config, bits=bits, group_size=group_size)
