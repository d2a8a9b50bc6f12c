"""Plans Tensorbit files, byte for byte: headers, places, the index or the manifest.

Pure: what is planned here is written elsewhere. The same tensors always make the same bytes. What
the format cannot hold is refused by name before anything is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorark.core.model import Raw, Tensor
from tensorark.errors import InvalidInput, quoted
from tensorark.formats.tensorbit.frame import (
    HEADER_SIZE,
    PRECISIONS,
    QUANTIZED_CODES,
    Header,
    encode_header,
)
from tensorark.formats.tensorbit.index import FULL_SHAPE, Claim, shape_of
from tensorark.formats.tensorbit.layouts import STORAGE
from tensorark.formats.tensorbit.read import SUFFIX
from tensorark.layouts.layout import describe
from tensorark.layouts.nm import rules as profile
from tensorark.layouts.nm.rules import DENSE, ID, Pattern, members

NAMES: Final[Mapping[str, str]] = {storage: name for name, storage in STORAGE.items()}
"""How an index spells the storage types of weights."""

ROLES: Final = ("data", "weights", "scales", "mask")
"""The parts of a tensor in the order in which a blob holds them."""

MAX_INDEX: Final = (1 << 32) - 1
_U64: Final = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPlan:
    """One blob of a file: its header, and the parts of `tensor` that follow it in `roles`.

    `offset` is where it begins, `file` the name of its file in a directory.
    """

    tensor: Tensor
    offset: int
    header: bytes
    roles: tuple[str, ...]
    file: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the whole blob."""
        return len(self.header) + sum(self.tensor.parts[role].nbytes for role in self.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A model to be written: blobs, in order, then `tail`, which ends a container of `size` bytes.

    For a directory `tail` is the manifest.
    """

    blobs: tuple[BlobPlan, ...]
    tail: bytes
    size: int


def plan_container(
    tensors: Sequence[Tensor], facts: Mapping[str, object], *, align: int = 1
) -> Plan:
    """Plan a `.tbm` of `tensors` in their order; `facts` is what the model says of itself.

    Each blob begins at a multiple of `align`. A tensor that says it is tied to an earlier one, and
    has the same bytes in the source, gets no blob of its own.

    Raises:
        InvalidInput: for what `refusal` refuses, a name given twice, or an index that is too long.
    """
    _require(tensors)
    blobs: list[BlobPlan] = []
    places: dict[str, int] = {}
    held: dict[str, Tensor] = {}
    entries: list[dict[str, object]] = []
    reached = 0
    for tensor in tensors:
        shared = _shared_offset(tensor, places, held)
        if shared is None:
            offset = -(-reached // align) * align
            blob = BlobPlan(
                tensor=tensor, offset=offset, header=_header(tensor), roles=_roles(tensor)
            )
            blobs.append(blob)
            held[tensor.name] = tensor
            reached = offset + blob.size
        else:
            offset = shared
        places[tensor.name] = offset
        entries.append(_entry(tensor, {"offset": offset}))
    index = _json(_document(facts, entries))
    if len(index) > MAX_INDEX:
        detail = "the index is too long for its length of four bytes"
        raise InvalidInput(detail, code="index", expected=MAX_INDEX, found=len(index))
    tail = index + len(index).to_bytes(4, "little")
    return Plan(blobs=tuple(blobs), tail=tail, size=reached + len(tail))


def plan_directory(tensors: Sequence[Tensor], facts: Mapping[str, object]) -> Plan:
    """Plan a directory: a `.tb` for each tensor and the manifest that lists them.

    Raises:
        InvalidInput: for what `refusal` refuses, or a name given twice.
    """
    _require(tensors)
    taken: dict[str, int] = {}
    blobs: list[BlobPlan] = []
    entries: list[dict[str, object]] = []
    files: dict[str, str] = {}
    held: dict[str, Tensor] = {}
    for tensor in tensors:
        other = _facts(tensor).get("tied_to")
        if isinstance(other, str) and other in files and _same(tensor, held.get(other)):
            file = files[other]
        else:
            file = _file_name(tensor.name, taken)
            blobs.append(
                BlobPlan(
                    tensor=tensor,
                    offset=0,
                    header=_header(tensor),
                    roles=_roles(tensor),
                    file=file,
                )
            )
            held[tensor.name] = tensor
        files[tensor.name] = file
        entries.append(_entry(tensor, {"file": file}))
    text = _json(_document(facts, entries), indent=2) + b"\n"
    return Plan(blobs=tuple(blobs), tail=text, size=len(text))


def plan_blob(tensor: Tensor) -> BlobPlan:
    """Plan a `.tb` of one tensor. Name and shape have no place in it.

    Raises:
        InvalidInput: for what `refusal` refuses, and for weights whose scales it cannot name.
    """
    _require([tensor])
    if "scales" in tensor.parts or _dtype(tensor) in QUANTIZED_CODES:
        raise InvalidInput(
            f"{quoted(tensor.name)} is {_dtype(tensor)}, which only an index can say",
            code="quantized-blob",
            where=("objects", tensor.name),
            hint="write a .tbm, or a directory",
        )
    return BlobPlan(tensor=tensor, offset=0, header=_header(tensor), roles=_roles(tensor))


def refusals(tensors: Iterable[Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the name of every tensor that Tensorbit cannot hold, and why."""
    for tensor in tensors:
        reason = refusal(tensor)
        if reason is not None:
            yield tensor.name, reason


def refusal(tensor: Tensor) -> str | None:
    """Say why Tensorbit cannot hold `tensor`; None if it can."""
    if not tensor.name:
        return "it has no name"
    if tensor.layout == ID:
        record = profile.parse_nm(describe(tensor))
        for rule in profile.LAYOUT.rules:
            for fault in rule([record]):
                return fault.detail
        return None
    if tensor.layout != "dense":
        return f"layout {quoted(tensor.layout)} has no counterpart"
    part = tensor.parts.get("data")
    if part is None or len(tensor.parts) != 1:
        return "it has other parts than data"
    if part.type is not None or part.dtype not in {*NAMES, "i8"}:
        return f"type {quoted(part.type or part.dtype)} has no counterpart"
    if max(tensor.shape, default=0) >= _U64 or prod(tensor.shape) >= _U64:
        return "it has too many elements"
    return None


def restore_order(tensors: Mapping[str, Tensor], facts: Mapping[str, object]) -> list[Tensor]:
    """Return tensors in the order that `facts` gives, where that names each of them once."""
    order = facts.get("order")
    if isinstance(order, list) and len(order) == len(tensors):
        names = [name for name in order if isinstance(name, str) and name in tensors]
        if len({*names}) == len(tensors):
            return [tensors[name] for name in names]
    return list(tensors.values())


# ------------------------------------------------------------------------------------------ pieces


def _require(tensors: Sequence[Tensor]) -> None:
    seen: set[str] = set()
    for tensor in tensors:
        reason = refusal(tensor)
        if reason is not None:
            detail = f"{quoted(tensor.name)} cannot be stored: {reason}"
            raise InvalidInput(detail, code="refused", where=("objects", tensor.name))
        if tensor.name in seen:
            detail = f"{quoted(tensor.name)} is given twice"
            raise InvalidInput(detail, code="duplicate", where=("objects", tensor.name))
        seen.add(tensor.name)


def _facts(tensor: Tensor) -> Mapping[str, object]:
    return members(tensor.attributes)


def _roles(tensor: Tensor) -> tuple[str, ...]:
    return tuple(role for role in ROLES if role in tensor.parts and tensor.parts[role].nbytes)


def _pattern(tensor: Tensor) -> Pattern:
    if tensor.layout != ID:
        return DENSE
    return profile.parse_nm(describe(tensor)).pattern or DENSE


def _dtype(tensor: Tensor) -> str:
    """Return how an index spells the type of the weights."""
    stored = tensor.parts["data" if "data" in tensor.parts else "weights"].dtype
    quantized = _facts(tensor).get("dtype") if tensor.layout == ID else None
    if isinstance(quantized, str):
        return quantized
    return "int8" if stored == "i8" else NAMES[stored]


def _bytes_of(tensor: Tensor, role: str) -> int:
    part = tensor.parts.get(role)
    return 0 if part is None else part.nbytes


def _header(tensor: Tensor) -> bytes:
    pattern, dtype = _pattern(tensor), _dtype(tensor)
    weights = sum(_bytes_of(tensor, role) for role in ("data", "weights", "scales"))
    return encode_header(
        Header(
            n=pattern.n,
            m=pattern.m,
            weights=tensor.elements,
            mask_bytes=_bytes_of(tensor, "mask"),
            masks_offset=HEADER_SIZE + weights,
            precision=_precision(tensor, dtype),
        )
    )


def _precision(tensor: Tensor, dtype: str) -> int:
    if dtype in PRECISIONS:
        return PRECISIONS.index(dtype)
    code = _facts(tensor).get("precision", 0)
    return code if isinstance(code, int) and code in QUANTIZED_CODES[dtype] else 0


def _entry(tensor: Tensor, place: Mapping[str, object]) -> dict[str, object]:
    """Return the entry of an index: two dimensions, and ours beside them where they do not do."""
    pattern, dtype = _pattern(tensor), _dtype(tensor)
    shape = _two(tensor.shape)
    entry: dict[str, object] = {
        "name": tensor.name,
        **place,
        "shape": shape,
        "nm_n": pattern.n,
        "nm_m": pattern.m,
        "dtype": dtype,
    }
    if "offset" in place:
        entry |= {"num_weights": tensor.elements, "num_mask_bytes": _bytes_of(tensor, "mask")}
    facts = _facts(tensor)
    if "scales" in tensor.parts:
        group = facts.get("group_size", 0)
        entry |= {"scale_count": tensor.parts["scales"].nbytes // 4, "group_size": group}
    claim = Claim(name=tensor.name, shape=tuple(shape))
    if shape_of(claim, tensor.elements) != tensor.shape:
        entry[FULL_SHAPE] = list(tensor.shape)
    for key, value in _members(facts.get("extra")):
        entry.setdefault(key, value)
    return entry


def _two(shape: tuple[int, ...]) -> list[int]:
    """Return two dimensions of as many elements, which is what the public runtime reads."""
    if len(shape) == 2:
        return list(shape)
    return [shape[0], prod(shape[1:])] if shape else [1, 1]


def _document(facts: Mapping[str, object], entries: list[dict[str, object]]) -> dict[str, object]:
    """Return an index: `config` first, because the public runtime forgets what comes before it.

    An empty `config`, at which the runtime stops reading, comes last.
    """
    document: dict[str, object] = {}
    config = facts.get("config")
    if isinstance(config, Mapping):
        config = _in_order(config)
    if config:
        document["config"] = config
    if "architecture" in facts:
        document["architecture"] = facts["architecture"]
    document["tensors"] = entries
    for key, value in _members(facts.get("extra")):
        document.setdefault(key, value)
    if config is not None:
        document.setdefault("config", config)
    return document


_CONFIG: Final = (
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "intermediate_size",
    "vocab_size",
    "num_layers",
    "max_seq_len",
    "norm_eps",
    "rope_theta",
)
"""The members of `config` as the specification shows them."""


def _in_order(config: Mapping[str, object]) -> dict[str, object]:
    """Return `config` in an order of its own, so that the same content makes the same bytes."""
    known = {key: config[key] for key in _CONFIG if key in config}
    return known | dict(_members({k: v for k, v in config.items() if k not in known}))


def _members(extra: object) -> list[tuple[str, object]]:
    """Return the members that nobody defined, by name."""
    found = extra.items() if isinstance(extra, Mapping) else ()
    return sorted(((str(key), _sort(value)) for key, value in found), key=lambda each: each[0])


def _sort(value: object) -> object:
    """Return a value with the members of its objects by name."""
    if isinstance(value, Mapping):
        return dict(_members(value))
    return [_sort(each) for each in value] if isinstance(value, list | tuple) else value


def _json(document: object, *, indent: int | None = None) -> bytes:
    """Write JSON in UTF-8, without escapes; attributes of a `.zt` may hold what JSON does not."""
    separators = None if indent else (",", ":")
    try:
        return json.dumps(
            document, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
        ).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"JSON cannot hold this: {error}", code="json") from error


def _shared_offset(
    tensor: Tensor, places: Mapping[str, int], held: Mapping[str, Tensor]
) -> int | None:
    """Return the offset of the blob that `tensor` shares, None where it has its own."""
    other = _facts(tensor).get("tied_to")
    if isinstance(other, str) and _same(tensor, held.get(other)):
        return places[other]
    return None


def _same(tensor: Tensor, twin: Tensor | None) -> bool:
    """Whether the source keeps `tensor` where it keeps `twin`, which has a blob."""
    if twin is None or twin.parts.keys() != tensor.parts.keys():
        return False
    pairs = [(twin.parts[role].blob, part.blob) for role, part in tensor.parts.items()]
    return (
        all(isinstance(a, Raw) and a == b for a, b in pairs)
        and _header(twin) == _header(tensor)
        and "scales" not in tensor.parts
    )


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def _file_name(name: str, taken: dict[str, int]) -> str:
    """Return a file name for a tensor that no system reads as anything else, and no other has.

    `taken` counts names, in small letters, that were given before.
    """
    stem = _UNSAFE.sub("_", name)[:200].lstrip(".-") or "tensor"
    found = stem + SUFFIX
    while found.lower() in taken:
        taken[stem.lower() + SUFFIX] += 1
        found = f"{stem}-{taken[stem.lower() + SUFFIX]}{SUFFIX}"
    taken[found.lower()] = 1
    return found
