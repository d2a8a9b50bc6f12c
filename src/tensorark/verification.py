"""Verifying payload: digests and the rules that need bytes, part by part, on all cores.

Climbs the integrity ladder of `.zt` (§6.1) and says which rungs were climbed. Also computes the
content digest of any file, hashing the parts that carry none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import xxhash

from tensorark.api import File
from tensorark.errors import InvalidInput, LimitExceeded, Rejected, Unsupported
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, check_algorithm, hexdigest
from tensorark.formats.zt.digest import content_digest as digest_of
from tensorark.hub import model_of
from tensorark.model import Encoded, Part, Tensor
from tensorark.rules import Finding, Reading
from tensorark.shards import check_shards
from tensorark.steps import drive
from tensorark.vocab import TYPES
from tensorark.vocab.layouts.ninfer import is_ninfer
from tensorark.vocab.layouts.nm import ID as NM
from tensorark.vocab.ninfer import PREFIX

if TYPE_CHECKING:
    from tensorark.formats.ninfer.directory import Directory

Progress = Callable[[int], None]
"""Called with the number of bytes that were just done; may be called from several threads."""

_HEX: Final = {"xxh3": 16, "sha256": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying found.

    `parts` were looked at, `checked` of them against a digest; `undigested` carry none; `refused`
    could not be judged, each with the reason: something is unknown, or decodes to more than is
    allowed. `findings` are the faults; `nbytes` were read.
    `shards` are the files whose whole-file digest was checked, which only a deep verify does.
    `protected` are the encoded parts that hold under the checksums of their encoding, the transport
    rung. `judged` are the parts whose payload passed the content rules of a format that carries no
    digests (`.ninfer`, masks of Tensorbit, CRCs of npz): not proof, but more than nothing. `notes`
    are about what no rule forbids and is still worth telling (gaps, slack, negative scales of a
    `.ninfer`).
    """

    parts: int
    checked: int
    undigested: int
    nbytes: int
    refused: tuple[Unsupported | LimitExceeded, ...] = field(default=())
    findings: tuple[Finding, ...] = field(default=())
    shards: int = 0
    protected: int = 0
    judged: int = 0
    notes: tuple[Finding, ...] = field(default=())

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
    refused: tuple[Unsupported | LimitExceeded, ...] = ()
    findings: tuple[Finding, ...] = ()
    protected: int = 0
    notes: tuple[Finding, ...] = ()
    judged: int = 0


def verify(
    file: File,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    deep: bool = False,
) -> Verification:
    """Read every payload byte of `file` and judge it: digests, types, layouts.

    Uses `threads` (all cores by default); memory stays near the largest part for each thread, or
    near nothing where the file is mapped. Shards of a `.zt` whose parts carry no digests are read
    whole as well and compared with the digests that the file gives for them (§7.3), with `deep` all
    of them; when one is another file, it stops there.

    Raises:
        ReadFailed: when payload cannot be read.
        InvalidInput: when `threads` is negative.
    """
    workers, report = threads or os.cpu_count() or 1, progress or (lambda _done: None)
    if workers < 1:
        raise InvalidInput("at least one thread must read", code="threads", found=threads)
    labels = None if deep else file.unproven()
    if labels:
        labels -= file.missing().keys()
    shards = check_shards(file, threads=workers, progress=report, labels=labels)
    # Parts in a shard that is another file would only repeat that it is.
    outcomes = [] if shards.findings else [*_outcomes(file, workers, report), _artifact(file)]
    return Verification(
        parts=sum(each.parts for each in outcomes),
        checked=sum(each.checked for each in outcomes),
        undigested=sum(each.undigested for each in outcomes),
        nbytes=shards.nbytes + sum(each.nbytes for each in outcomes),
        refused=shards.refused + tuple(error for each in outcomes for error in each.refused),
        findings=shards.findings + tuple(found for each in outcomes for found in each.findings),
        shards=shards.checked,
        protected=sum(each.protected for each in outcomes),
        judged=sum(each.judged for each in outcomes),
        notes=tuple(note for each in outcomes for note in each.notes),
    )


def _artifact(file: File) -> _Outcome:
    """Judge what a `.ninfer` holds beside tensors: auxiliaries, and what lies in no object."""
    from tensorark.formats.ninfer.directory import Directory

    directory = file.catalog.native
    if file.format.name != "ninfer" or not isinstance(directory, Directory):
        return _Outcome()
    from tensorark.formats.ninfer.architecture import judge_payload
    from tensorark.formats.ninfer.survey import survey
    from tensorark.parameters import judge_uses

    gathered: list[Finding] = []
    notes: list[Finding] = []
    resources = _resources(file, directory, gathered)
    refused = tuple(judge_uses(file, directory, Reading(gathered=gathered)))
    with suppress(Rejected):  # gathered
        drive(judge_payload(directory, Reading(gathered=gathered)), file.source)
    try:
        drive(survey(directory, Reading(gathered=notes)), file.source)
    except Rejected as error:
        _keep(gathered if error.code.startswith("ninfer.part-") else notes, error)
    return _Outcome(
        parts=len(resources),
        undigested=len(resources),
        nbytes=sum(resources),
        refused=refused,
        findings=tuple(gathered),
        notes=tuple(notes),
        judged=len(resources),
    )


def _resources(file: File, directory: Directory, gathered: list[Finding]) -> list[int]:
    """Read the resources, whatever continuations hold them, and return their sizes."""
    from tensorark.formats.ninfer.directory import StoredResource

    sizes = []
    for stored in map(directory.stored, range(len(directory.ids))):
        if not isinstance(stored, StoredResource):
            continue
        try:
            sizes.append(
                len(file.payload(Part(directory.blob(stored), "u8"), ("objects", stored.id)))
            )
        except Rejected as error:
            _keep(gathered, error)
    return sizes


def _keep(gathered: list[Finding], error: Rejected) -> None:
    """Gather a rejection that was raised where faults are not gathered, such as at a shard."""
    if not any(each.rule == error.code for each in gathered):
        gathered.append(
            Finding(
                rule=error.code,
                section=error.section or "",
                stage="content",
                where=error.where,
                detail=error.detail,
                offset=error.offset,
                expected=error.expected,
                found=error.found,
            )
        )


def _outcomes(file: File, threads: int, progress: Progress) -> Iterator[_Outcome]:
    def judge(names: list[str]) -> list[_Outcome]:
        outcomes = []
        for name in names:
            tensor = file.catalog.tensors[name]
            outcomes.append(_judge(file, tensor))
            if outcomes[-1].nbytes:  # else it lies in a file that cannot be used
                file.evict(tensor)
            progress(outcomes[-1].nbytes)
        return outcomes

    batches = file.batches() if file.describes_tensors else []
    with ThreadPoolExecutor(threads) as pool:
        for outcomes in pool.map(judge, batches):
            yield from outcomes


def _judge(file: File, tensor: Tensor) -> _Outcome:
    """Judge the parts of one tensor, then its layout."""
    gathered: list[Finding] = []
    refused: list[Unsupported | LimitExceeded] = []
    reading = Reading(gathered=gathered)
    checked = nbytes = undigested = protected = 0
    contents: dict[str, memoryview] = {}
    notes: list[Finding] = []
    try:
        if file.format.judge is not None:
            file.format.judge(file.catalog, tensor.name, reading)
    except Rejected:
        pass  # gathered
    for role, part in tensor.parts.items():
        where = ("objects", tensor.name, "parts", role)
        try:
            if isinstance(part.blob, Encoded):
                decoder = file.decoder(part, where, reading)
                data = contents[role] = decoder.read(0, part.nbytes)
                protected += decoder.is_checked
            else:
                data = contents[role] = file.payload(part, where)
                protected += _judge_crc(file, part, data, reading, where)
            nbytes += part.nbytes
            undigested += part.digest is None
            try:
                checked += _judge_digest(part, data, where, reading)
            except Unsupported as error:  # its bytes are judged all the same
                refused.append(error)
            _judge_type(tensor, part, data, where, reading)
        except Rejected as error:
            _keep(gathered, error)
        except (Unsupported, LimitExceeded) as error:
            refused.append(error)
    if tensor.layout != "dense" and not gathered and not refused:
        try:
            _judge_layout(tensor, contents, reading, Reading(gathered=notes))
        except Rejected:
            pass
        except (Unsupported, LimitExceeded) as error:
            if checked < len(tensor.parts):  # digests tell of any content, understood or not
                refused.append(error)
    return _Outcome(
        len(tensor.parts),
        checked,
        undigested,
        nbytes,
        tuple(refused),
        tuple(gathered),
        protected,
        tuple(notes),
        len(tensor.parts) if not gathered and not refused and _has_rules(file, tensor) else 0,
    )


def _has_rules(file: File, tensor: Tensor) -> bool:
    """Tell whether rules of its format judged the payload of a tensor: codes, masks, or a CRC."""
    return file.format.judge is not None or file.format.crc is not None or tensor.layout == NM


def _judge_crc(
    file: File, part: Part, data: memoryview, reading: Reading, where: tuple[str | int, ...]
) -> bool:
    """Check the CRC that the format of the file keeps of a part; tell whether there is one."""
    running = file.crc_of(part, where)
    if running is None:
        return False
    running.after(data).require(reading)
    return True


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
    judged = Digested(where, stored, hexdigest(data, known), part.blob.spans)
    reading.require((digest,), judged)
    return True


def _judge_type(
    tensor: Tensor, part: Part, data: memoryview, where: tuple[str | int, ...], reading: Reading
) -> None:
    """Check the bytes that the logical type of a part forbids."""
    if part.type is None or tensor.layout.startswith(PREFIX):
        return  # a format of NInfer is judged with its layout
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


def _judge_layout(
    tensor: Tensor, contents: dict[str, memoryview], reading: Reading, notes: Reading
) -> None:
    """Check what the layout demands of its payload; what is only worth a note goes to `notes`."""
    from tensorark.codecs.layouts import judge

    def read(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return contents[role][start:stop]

    judge(tensor, read, reading)
    if is_ninfer(tensor.layout):
        from tensorark.codecs.ninfer.notes import remark

        remark(tensor, contents["data"], notes)


def content_digest(
    file: File, algorithm: Algorithm = "xxh3", *, progress: Progress | None = None
) -> str:
    """Return the content digest (`.zt` §6.4) of any file, as ``<algorithm>:<hex>``.

    That is the identity of the `.zt` which the file converts to (`tensorark.hub.model_of`). A `.zt`
    is digested from its manifest alone, which must give every part a digest; the digests go in as
    they stand. Other formats carry none: their parts are hashed with xxh3.

    Raises:
        Unsupported: when a part of a `.zt` carries no digest, or the file is a data shard.
    """
    tensors = file.catalog.tensors
    if file.format.name == "zt":
        return digest_of(tensors.values(), algorithm)
    return digest_of(digested(model_of(file), progress), algorithm)


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
        file.evict(tensor)
        return replace(tensor, parts=parts)

    def digest_all(names: list[str]) -> list[Tensor]:
        return [digest(name) for name in names]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [each for batch in pool.map(digest_all, file.batches()) for each in batch]


def file_digest(file: File, algorithm: Algorithm, progress: Progress | None = None) -> str:
    """Return the whole-file digest of the opened file: the identity of an artifact (§6.1).

    Raises:
        InvalidInput: when there is no such algorithm.
    """
    from tensorark.model import Span

    state = xxhash.xxh3_64() if check_algorithm(algorithm) == "xxh3" else hashlib.sha256()
    size = file.source.size()
    for start in range(0, size, _BLOCK):
        (data,) = file.source.read([Span(start, min(_BLOCK, size - start))])
        state.update(data)
        if progress:
            progress(len(data))
    return f"{algorithm}:{state.hexdigest()}"


_BLOCK: Final = 8 << 20
