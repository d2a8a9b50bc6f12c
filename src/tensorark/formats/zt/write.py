"""Writing any model as a `.zt`: objects in canonical order, then manifest and footer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from tensorark.core.model import Catalog, Part, Tensor
from tensorark.core.writing import (
    Goal,
    Options,
    Output,
    Outputs,
    Place,
    Placement,
    Skip,
    Writing,
)
from tensorark.errors import Hint, InvalidInput
from tensorark.formats.zt.encode import align_up, check_align, encode_manifest, encode_tail
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN, MAGIC
from tensorark.formats.zt.rules import MAX_NAME

_DIGESTS: Final = ("xxh3", "sha256", "none")


def write(catalog: Catalog, options: Options, goal: Goal) -> Writing:
    """Write a model as one `.zt`, canonical unless something else is asked for (§6.3).

    Empty maps of attributes are left out. Without `options.digest` each part keeps its own digest,
    and those that have none get one of xxh3.

    Raises:
        InvalidInput: when the file is to be canonical, which has digests of xxh3 (§6.3.4), and a
            part has another one to be kept.
    """
    canonical, wanted = _is_canonical(options), _digest(options)
    align = _align(options)
    yield Outputs((Output(goal.name),), goal.name, align=align, canonical=canonical)
    tensors, end = [], len(MAGIC)
    for name in sorted(catalog.tensors):
        tensor = catalog.tensors[name]
        parts = {}
        for role in sorted(tensor.parts):
            part, where = tensor.parts[role], ("objects", name, "parts", role)
            is_kept = wanted is None and not (part.digest or "xxh3:").startswith("xxh3:")
            if is_kept and canonical:
                raise _not_canonical(part, where)
            placed: Placement = yield Place(part, where, wanted == "sha256")
            digest = part.digest if is_kept else _choose_digest(placed, wanted)
            parts[role] = Part(placed.blob, part.dtype, part.type, digest)
            end = placed.end
        tensors.append(Tensor(name, tensor.shape, tensor.layout, parts, tensor.attributes or None))
    manifest = encode_manifest(tensors, catalog.attributes or None)
    offset = align_up(end, align)
    if not tensors:
        yield MAGIC
    yield Skip(offset - end)
    yield encode_tail(manifest, offset)


def _choose_digest(placed: Placement, wanted: str | None) -> str | None:
    """Return the digest that was asked for, if any; else that of xxh3."""
    if wanted == "none":
        return None
    return placed.sha256 if wanted == "sha256" else placed.digest


def _align(options: Options) -> int:
    plain = CANONICAL_ALIGN if options.encoding is None else ALIGN
    return check_align(plain if options.align is None else options.align)


def _digest(options: Options) -> str | None:
    if options.digest is not None and options.digest not in _DIGESTS:
        expected = " ".join(_DIGESTS)
        found = options.digest
        raise InvalidInput("no such digest", code="option", expected=expected, found=found)
    return options.digest


def _is_canonical(options: Options) -> bool:
    is_plain = options.align is None and options.encoding is None
    return is_plain and options.digest in {None, "xxh3"}


def _not_canonical(part: Part, where: tuple[str | int, ...]) -> InvalidInput:
    return InvalidInput(
        "canonical form has digests of xxh3, and this part has another one, which would be lost",
        code="zt.canonical-digest",
        section="6.3.4",
        where=where,
        found=(part.digest or "").partition(":")[0],
        hint=Hint(
            "digest='xxh3' replaces it, digest='sha256' or an alignment keeps it",
            tark="`tark convert --digest xxh3` replaces it, --digest sha256 or --align keeps it",
        ),
    )


def refusals(catalog: Catalog, options: Options) -> Iterator[tuple[str, str]]:
    """Yield the tensors of whose name a `.zt` has none, and why."""
    canonical = _is_canonical(options)
    for name in catalog.tensors:
        if name.isascii() and 0 < len(name) <= MAX_NAME and "\0" not in name:
            continue
        reason = _unnamable(name, canonical=canonical)
        if reason:
            yield name, reason


def _unnamable(name: str, *, canonical: bool) -> str | None:
    """Say why a `.zt` has no tensor of this name (§3.5, §6.3.5); None if it may."""
    if not name:
        return "it has no name"
    if "\0" in name:
        return "the name holds U+0000"
    if len(name.encode()) > MAX_NAME:
        return f"the name has more than {MAX_NAME} bytes"
    if canonical and not unicodedata.is_normalized("NFC", name):
        return "canonical form takes names in Unicode NFC"
    return None
