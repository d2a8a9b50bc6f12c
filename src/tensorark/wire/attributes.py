"""Carrying attributes through formats whose metadata is text only, without losing their types.

Text stays as it is. Any other value is written as readable JSON under its own key, and once more,
exactly, in one entry of ours that is read back on the way home. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tensorark.errors import InvalidInput, Where

ENTRY: Final = "tensorark.attributes"
"""Holds, as hexadecimal deterministic CBOR, what text cannot: ``{"file": …, "tensors": …}``."""

Attributes = Mapping[str, object] | None
TensorAttributes = Mapping[str, Mapping[str, object]]
NONE: Final[TensorAttributes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AttributeSet:
    """Attributes of a file and of its tensors, by name."""

    file: Attributes
    tensors: TensorAttributes


def to_text(file: Attributes, tensors: TensorAttributes = NONE) -> dict[str, str] | None:
    """Return the metadata that carries these attributes; None where there are none.

    Raises:
        InvalidInput: when a value has no place in any metadata.
    """
    by_name = {name: dict(held) for name, held in tensors.items()}
    if file is None and not by_name:
        return None
    for where in _wrong_names(file, by_name):
        raise InvalidInput("the name of an attribute is not text", code="attribute", where=where)
    text = {k: v for k, v in (file or {}).items() if isinstance(v, str) and k != ENTRY}
    exact_only = {k: v for k, v in (file or {}).items() if k not in text}
    if not exact_only and not by_name:
        return text
    entry = _entry({"file": None if file is None else exact_only, "tensors": by_name})
    exact = _read(entry)
    # Shown as it will be read back: a tuple, say, as the list that it becomes.
    shown = {key: _show(value) for key, value in ((exact and exact.file) or {}).items()}
    return {key: text[key] if key in text else shown[key] for key in file or ()} | {ENTRY: entry}


def _wrong_names(file: Attributes, tensors: TensorAttributes) -> Iterator[Where]:
    """Yield where a name of an attribute is not text."""
    yield from (("attributes", str(key)) for key in _keys(file) if not isinstance(key, str))
    for name, held in tensors.items():
        for key in _keys(held):
            if not isinstance(key, str):
                yield ("objects", name, "attributes", str(key))


def _keys(attributes: Attributes) -> Iterable[object]:
    """Return the keys as callers gave them, who may not have asked a type checker."""
    return attributes or ()


def _entry(exact: Mapping[str, object]) -> str:
    from tensorark.wire.cbor import Unencodable, encode

    try:
        return encode(exact).hex()
    except Unencodable as error:
        whose, *rest = error.where
        if whose == "file":
            where = ("attributes", *rest)
        else:
            where = ("objects", *rest[:1], "attributes", *rest[1:])
        detail = f"an attribute cannot be stored: {error.detail}"
        raise InvalidInput(detail, code="attribute", where=where) from None


def from_text(metadata: Mapping[str, str] | None) -> AttributeSet:
    """Return the attributes that `metadata` carries; a value edited since then stays text."""
    if metadata is None or ENTRY not in metadata:
        return AttributeSet(metadata, {})
    exact = _read(metadata[ENTRY])
    if exact is None:
        return AttributeSet(metadata, {})
    plain: dict[str, object] = {key: value for key, value in metadata.items() if key != ENTRY}
    if exact.file is None:
        return AttributeSet(plain or None, exact.tensors)
    for key, value in exact.file.items():
        if key == ENTRY or plain.get(key) == _show(value):
            plain[key] = value
    return AttributeSet(plain, exact.tensors)


def _read(text: str) -> AttributeSet | None:
    """Read our entry; None when it is not what `to_text` writes."""
    from tensorark.wire.cbor import CborFault, decode

    try:
        value = decode(bytes.fromhex(text))
    except (CborFault, ValueError):
        return None
    if not isinstance(value, dict) or value.keys() != {"file", "tensors"}:
        return None
    file, tensors = value["file"], value["tensors"]
    if not (file is None or isinstance(file, dict)) or not isinstance(tensors, dict):
        return None
    if not all(isinstance(each, dict) for each in tensors.values()):
        return None
    return AttributeSet(file, tensors)


def _show(value: object) -> str:
    """Write a value for people and other tools: text as it is, else JSON where that is exact."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        from tensorark.wire.cbor import encode

        return "cbor:" + encode(value).hex()


def restore_types(attributes: Attributes, own: TensorAttributes = NONE) -> AttributeSet:
    """Return attributes of which those that were carried as text have their types again.

    Values that are no text are a format's own and have them already; so have those in `own`, which
    tensors have beside what was carried for them.
    """
    kept = {key: value for key, value in (attributes or {}).items() if not isinstance(value, str)}
    if not kept and not own:
        return from_text(text_of(attributes))
    text = {key: str(value) for key, value in (attributes or {}).items() if key not in kept}
    carried = from_text(text or None)
    file = {**(carried.file or {}), **kept}
    by_name = {name: {**carried.tensors.get(name, {}), **held} for name, held in own.items()}
    return AttributeSet(file or None, {**carried.tensors, **by_name})


def extend(own: Attributes, more: Attributes) -> tuple[Attributes, frozenset[str]]:
    """Return `own` with what only `more` has, and the keys of `more` whose values are in that."""
    own, more = own or {}, more or {}
    whole = {**own, **{key: value for key, value in more.items() if key not in own}}
    kept = frozenset(key for key, value in more.items() if alike(whole[key], value))
    return whole or None, kept


def alike(a: object, b: object) -> bool:
    """Compare values of attributes with their types: 1, 1.0 and true differ, NaN equals itself."""
    from tensorark.wire.cbor import encode

    return encode(a) == encode(b)


def text_of(attributes: Attributes) -> dict[str, str] | None:
    """Return attributes that are all text, such as those of safetensors, as such."""
    return None if attributes is None else {key: str(value) for key, value in attributes.items()}
