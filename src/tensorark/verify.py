"""Verifying payload: digests and the rules that need bytes, part by part, on all cores.

Climbs the integrity ladder of `.zt` (§6.1) and says which rungs were climbed. Also computes the
content digest of any file, hashing the parts that carry none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import xxhash

from tensorark.api import File
from tensorark.errors import Rejected, Unsupported
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, hexdigest
from tensorark.formats.zt.digest import content_digest as digest_of
from tensorark.model import Part, Tensor
from tensorark.rules import Finding, Reading
from tensorark.vocab import DTYPES, TYPES

Progress = Callable[[int], None]
"""Called with the number of bytes that were just done; may be called from several threads."""

_HEX: Final = {"xxh3": 16, "sha256": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying found.

    `parts` were looked at, `checked` of them against a digest; `undigested` carry none; `refused`
    could not be judged, each with the reason. `findings` are the faults; `nbytes` were read.
    """

    parts: int
    checked: int
    undigested: int
    nbytes: int
    refused: tuple[Unsupported, ...] = field(default=())
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing that was looked at is wrong."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether every part was checked against a digest."""
        return self.ok and self.checked == self.parts


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one tensor gave."""

    parts: int = 0
    checked: int = 0
    undigested: int = 0
    nbytes: int = 0
    refused: tuple[Unsupported, ...] = ()
    findings: tuple[Finding, ...] = ()


def verify(
    file: File, *, threads: int | None = None, progress: Progress | None = None
) -> Verification:
    """Read every payload byte of `file` and judge it: digests, types, layouts.

    Uses `threads` (all cores by default); memory stays near the largest part for each thread, or
    near nothing where the file is mapped.

    Raises:
        ReadFailed: when payload cannot be read.
    """
    outcomes = list(
        _outcomes(file, threads or os.cpu_count() or 1, progress or (lambda _done: None))
    )
    return Verification(
        parts=sum(each.parts for each in outcomes),
        checked=sum(each.checked for each in outcomes),
        undigested=sum(each.undigested for each in outcomes),
        nbytes=sum(each.nbytes for each in outcomes),
        refused=tuple(error for each in outcomes for error in each.refused),
        findings=tuple(found for each in outcomes for found in each.findings),
    )


def _outcomes(file: File, threads: int, progress: Progress) -> Iterator[_Outcome]:
    def judge(name: str) -> _Outcome:
        outcome = _judge(file, file.catalog.tensors[name])
        progress(outcome.nbytes)
        return outcome

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(judge, list(file))


def _judge(file: File, tensor: Tensor) -> _Outcome:
    """Judge the parts of one tensor, then its layout."""
    gathered: list[Finding] = []
    refused: list[Unsupported] = []
    reading = Reading(gathered=gathered)
    checked = nbytes = undigested = 0
    contents: dict[str, memoryview] = {}
    for role, part in tensor.parts.items():
        where = ("objects", tensor.name, "parts", role)
        try:
            data = contents[role] = file.payload(part, where)
            nbytes += part.nbytes
            undigested += part.digest is None
            checked += _judge_digest(part, data, where, reading)
            _judge_type(tensor, part, data, where, reading)
        except Rejected:
            continue  # gathered
        except Unsupported as error:
            refused.append(error)
    if tensor.layout != "dense" and not gathered and not refused:
        try:
            _judge_layout(tensor, contents, reading)
        except Rejected:
            pass
        except Unsupported as error:
            refused.append(error)
    return _Outcome(len(tensor.parts), checked, undigested, nbytes, tuple(refused), tuple(gathered))


def _judge_digest(
    part: Part, data: memoryview, where: tuple[str | int, ...], reading: Reading
) -> bool:
    """Check the digest of a part, if it carries one; tell whether it was checked."""
    from tensorark.codecs.content import Digested, digest

    if part.digest is None:
        return False
    algorithm, _, stored = part.digest.partition(":")
    known = next((each for each in ALGORITHMS if each == algorithm), None)
    if known is None:
        raise Unsupported(
            "the digest's algorithm is unknown, so the part is not checked",
            code="unknown-algorithm",
            section="3.4",
            where=(*where, "digest"),
            expected="one of " + " ".join(_HEX),
            found=algorithm,
        )
    reading.require((digest,), Digested(where, stored, hexdigest(data, known)))
    return True


def _judge_type(
    tensor: Tensor, part: Part, data: memoryview, where: tuple[str | int, ...], reading: Reading
) -> None:
    """Check the bytes that the logical type of a part forbids."""
    if part.type in {None, *DTYPES}:
        return
    if part.type not in TYPES:
        raise Unsupported(
            "the logical type is unknown, so its bytes are not interpreted",
            code="unknown-type",
            section="4.2",
            where=where,
            found=part.type,
        )
    from tensorark.codecs.content import PART_RULES, Content

    elements = tensor.elements if tensor.layout == "dense" else None
    content = Content(where=where, data=data, type=part.type, elements=elements)
    reading.require(PART_RULES, content)


def _judge_layout(tensor: Tensor, contents: dict[str, memoryview], reading: Reading) -> None:
    """Check what the layout demands of its payload."""
    from tensorark.codecs.layouts import judge

    judge(tensor, contents.__getitem__, reading)


def content_digest(
    file: File, algorithm: Algorithm = "xxh3", *, progress: Progress | None = None
) -> str:
    """Return the content digest (`.zt` §6.4) of any file, as ``<algorithm>:<hex>``.

    A `.zt` is digested from its manifest alone, which must give every part a digest. Other formats
    carry none: their parts are hashed with xxh3, so that the result equals that of the canonical
    `.zt` of the same tensors.

    Raises:
        Unsupported: when a part of a `.zt` carries no digest.
    """
    tensors = file.catalog.tensors
    if file.format.name == "zt":
        return digest_of(tensors.values(), algorithm)
    return digest_of(digested(file, progress), algorithm)


def digested(file: File, progress: Progress | None = None) -> list[Tensor]:
    """Return the tensors of `file`, with an xxh3 digest computed for each part that has none."""

    def digest(name: str) -> Tensor:
        tensor = file.catalog.tensors[name]
        parts = {}
        for role, part in tensor.parts.items():
            found = part.digest
            if found is None:
                data = file.payload(part, ("objects", name, "parts", role))
                found = "xxh3:" + xxhash.xxh3_64_hexdigest(data)
            parts[role] = replace(part, digest=found)
        if progress:
            progress(tensor.nbytes)
        return replace(tensor, parts=parts)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(digest, list(file)))


def file_digest(file: File, algorithm: Algorithm, progress: Progress | None = None) -> str:
    """Return the whole-file digest of the opened file: the identity of an artifact (§6.1)."""
    from tensorark.model import Span

    state = xxhash.xxh3_64() if algorithm == "xxh3" else hashlib.sha256()
    size = file.source.size()
    for start in range(0, size, _BLOCK):
        (data,) = file.source.read([Span(start, min(_BLOCK, size - start))])
        state.update(data)
        if progress:
            progress(len(data))
    return f"{algorithm}:{state.hexdigest()}"


_BLOCK: Final = 8 << 20
