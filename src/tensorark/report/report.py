"""What is known of an opened model without reading payload, as one JSON-able value.

Owns the keys of ``--json``: they are stable within a schema's number. Computes from the catalog and
from the sizes of files; must never read a payload byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tensorark.core.model import Encoded, Part, Raw, Tensor
from tensorark.core.types import DTYPES, TYPES
from tensorark.files import File
from tensorark.layouts.affine import rules as affine
from tensorark.layouts.mx import rules as mx
from tensorark.layouts.ninfer.geometry import PREFIX as _NINFER
from tensorark.layouts.nm import rules as nm
from tensorark.layouts.quant import rules as quant
from tensorark.report.plain import plain

PAGE: Final = 4096
LINE: Final = 64


def main_part(tensor: Tensor) -> Part:
    """Return the part whose type is that of the elements."""
    parts = tensor.parts
    main = (parts.get(role) for role in ("data", "values", "weights"))
    return next((part for part in main if part is not None), next(iter(parts.values())))


def element_type(tensor: Tensor) -> str:
    """Return the id of the elements: the logical type where there is one, else the storage type."""
    part = main_part(tensor)
    return part.type or part.dtype


def scheme(tensor: Tensor) -> str | None:
    """Say shortly how a tensor is stored: ``2:4``, ``int4/g128``; None for plain values.

    Where a file says nothing that is usable, there is a question mark.
    """
    layout = tensor.layout
    if layout == "dense" or layout.startswith(_NINFER):  # the type says it
        return None
    given: Mapping[str, object] = tensor.attributes or {}
    if layout == nm.ID:
        own = nm.members(given)
        words = f"{_count(own.get('n'))}:{_count(own.get('m'))}"
        if isinstance(own.get("dtype"), str):
            words += f" {own['dtype']}"
        return words + (f"/g{_count(own['group_size'])}" if own.get("group_size") else "")
    if layout in {quant.ID, affine.ID}:
        group = given.get("group_size")
        return f"int{_count(given.get('bits'))}/" + (
            "channel" if group == 0 else f"g{_count(group)}"
        )
    if layout == mx.ID:
        return f"mx/g{_count(given.get('block_size'))}"
    return layout.removeprefix("zt.").rpartition("/")[0] or layout


def _count(value: object) -> str:
    return str(value) if type(value) is int and 0 <= value < 1 << 32 else "?"


def brief(tensor: Tensor) -> dict[str, Any]:
    """Return the facts of one line of a listing."""
    return {
        "name": tensor.name,
        "type": element_type(tensor),
        "shape": list(tensor.shape),
        "elements": tensor.elements,
        "nbytes": tensor.nbytes,
        "layout": tensor.layout,
        "scheme": scheme(tensor),
    }


def full(tensor: Tensor) -> dict[str, Any]:
    """Return everything that is known of one tensor."""
    return {
        **brief(tensor),
        "parts": {role: _part(part) for role, part in tensor.parts.items()},
        "attributes": plain(tensor.attributes),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "dtype": part.dtype,
        "type": part.type,
        "nbytes": part.nbytes,
        "encoding": part.blob.encoding if isinstance(part.blob, Encoded) else None,
        "digest": part.digest,
        "spans": [
            {"file": span.file, "offset": span.offset, "length": span.length}
            for span in part.blob.spans
        ],
    }


def totals(tensors: Iterable[Tensor]) -> dict[str, Any]:
    """Return counts and sizes, in all and by type of element, the largest first."""
    counts: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    for tensor in tensors:
        kind = element_type(tensor)
        counts[kind] += 1
        elements[kind] += tensor.elements
        nbytes[kind] += tensor.nbytes
    return {
        "tensors": counts.total(),
        "elements": elements.total(),
        "nbytes": nbytes.total(),
        "types": [
            {
                "type": kind,
                "tensors": counts[kind],
                "elements": elements[kind],
                "nbytes": nbytes[kind],
            }
            for kind in sorted(counts, key=lambda each: (-nbytes[each], each))
        ],
    }


def report(file: File) -> dict[str, Any]:
    """Describe a whole model: format, files, totals, layouts, digests, alignment, attributes."""
    tensors = list(file.catalog.tensors.values())
    parts = [part for tensor in tensors for part in tensor.parts.values()]
    beside = file.format.artifact
    return {
        "path": file.path,
        "format": file.format.name,
        "title": file.format.title,
        "artifact": None if beside is None else plain(beside(file.catalog)),
        "files": files(file),
        "totals": totals(tensors),
        "layouts": dict(Counter(tensor.layout for tensor in tensors)),
        "digests": {
            "parts": len(parts),
            "digested": sum(part.digest is not None for part in parts),
            "algorithms": dict(
                Counter(part.digest.partition(":")[0] for part in parts if part.digest)
            ),
        },
        "alignment": alignment(parts),
        "aliases": aliases(tensors),
        "family": family(file.catalog.tensors),
        "attributes": plain(file.catalog.attributes),
    }


def files(file: File) -> list[dict[str, Any]]:
    """Return the files of a model: the opened one (label None) and its shards.

    One that is missing, or is another file, has no size, and `tensors` names what it should hold.
    """
    missing = file.missing()
    found: list[dict[str, Any]] = []
    for label in file.labels:
        if label in missing:
            lost = list(missing[label])
            found.append({"label": label, "size": None, "present": False, "tensors": lost})
        else:
            found.append({"label": label, "size": file.source.size(label), "present": True})
    return found


def alignment(parts: Iterable[Part]) -> dict[str, int]:
    """Count the raw parts whose first byte is not aligned to their element, a cache line, a page.

    Parts without bytes, and those in several spans, are left out.
    """
    off = {"parts": 0, "off_dtype": 0, "off_64": 0, "off_4096": 0}
    for part in parts:
        if not isinstance(part.blob, Raw) or len(part.blob.spans) != 1 or not part.nbytes:
            continue
        offset = part.blob.spans[0].offset
        off["parts"] += 1
        off["off_dtype"] += offset % _width(part) != 0
        off["off_64"] += offset % LINE != 0
        off["off_4096"] += offset % PAGE != 0
    return off


def _width(part: Part) -> int:
    known = TYPES.get(part.type or "")
    return max(1, known.bits // 8) if known else DTYPES.get(part.dtype, 1)


def aliases(tensors: Iterable[Tensor]) -> list[list[str]]:
    """Return the groups of names whose parts are the very same bytes of the same files."""
    groups: dict[object, list[str]] = {}
    for tensor in tensors:
        if tensor.nbytes:
            place = tuple(part.blob.spans for part in tensor.parts.values())
            groups.setdefault(place, []).append(tensor.name)
    return [names for names in groups.values() if len(names) > 1]


_FAMILIES: Final = (
    (r"\.lora_(A|B|up|down)\b", "a LoRA adapter"),
    (r"^model\.diffusion_model\.", "a Stable Diffusion checkpoint"),
    (r"^blk\.\d+\.attn_", "a language model with the names of llama.cpp"),
    (r"\.mlp\.experts\.\d+\.", "a mixture-of-experts language model"),
    (r"^model\.layers\.\d+\.self_attn\.q_proj\.", "a decoder of the Llama kind"),
    (r"(^|\.)h\.\d+\.attn\.c_attn\.", "a decoder of the GPT-2 kind"),
    (r"\.SelfAttention\.q\.", "an encoder-decoder of the T5 kind"),
    (r"(^|\.)encoder\.layer\.\d+\.attention\.self\.", "an encoder of the BERT kind"),
    (r"^(vision|text)_model\.", "a model of the CLIP kind"),
)


def family(names: Iterable[str]) -> str | None:
    """Guess from names what kind of model this is; None without an idea. Never more than a guess.

    The first line of the table that any name matches wins.
    """
    text = "\n".join(names)
    for pattern, guess in _FAMILIES:
        if re.search(pattern, text, re.MULTILINE):
            return guess
    return None


def finding(found: Any) -> dict[str, Any]:
    """Return a `Finding` as a JSON-able value."""
    from tensorark.errors import place

    return {
        "rule": found.rule,
        "section": found.section,
        "stage": found.stage,
        "where": list(found.where),
        "place": place(found.where),
        "offset": found.offset,
        "detail": found.detail,
        "expected": plain(found.expected),
        "found": plain(found.found),
    }
