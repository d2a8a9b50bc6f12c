"""Verifying payload: digests and the rules that need bytes, part by part, on all cores.

Climbs the integrity ladder of `.zt` (§6.1) and says which rungs were climbed. Also computes the
content digest of any file, hashing the parts that carry none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import xxhash

from tensorark import files
from tensorark.conversion.as_zt_model import model_of
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.model import Encoded, Part, Raw, Tensor
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, Reading, finding_of
from tensorark.core.types import RESTRICTED, TYPES
from tensorark.errors import InvalidInput, LimitExceeded, ReadFailed, Rejected, Unsupported
from tensorark.files import File, PathLike
from tensorark.files.hashes import HASHES, hash_pieces
from tensorark.files.shard_digests import check_shards
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, check_algorithm, hexdigest
from tensorark.formats.zt.digest import content_digest as digest_of
from tensorark.formats.zt.part_digest import PartDigest, digest
from tensorark.integrity.digests import span_digest, whole
from tensorark.layouts.ninfer.geometry import PREFIX
from tensorark.layouts.nm.rules import ID as NM
from tensorark.layouts.payload import Passing, Reader

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
    `.ninfer`, blobs of a `.tbm` without an entry). `missing` are the shards that are not there,
    with the tensors that lie in them, which are not judged and not counted.
    """

    __repr__ = brief

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
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing that was looked at is wrong."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether every part was checked against a digest, none being missing."""
        return self.ok and not self.missing and self.checked == self.parts


@dataclass(slots=True)
class _Tally:
    """What is known of a batch of tensors so far; `verify` adds the batches up."""

    parts: int = 0
    checked: int = 0
    undigested: int = 0
    nbytes: int = 0
    protected: int = 0
    judged: int = 0
    refused: list[Unsupported | LimitExceeded] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    reading: Reading = field(init=False)

    def __post_init__(self) -> None:
        self.reading = Reading(gathered=self.findings)

    def refuse(self, error: Unsupported | LimitExceeded) -> None:
        """Note an error without the calls that raised it: each of very many tensors may."""
        self.refused.append(error.with_traceback(None))

    def add(self, other: _Tally) -> None:
        """Add what was found elsewhere."""
        self.parts += other.parts
        self.checked += other.checked
        self.undigested += other.undigested
        self.nbytes += other.nbytes
        self.protected += other.protected
        self.judged += other.judged
        self.refused += other.refused
        self.findings += other.findings
        self.notes += other.notes


def verify(
    model: PathLike,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    deep: bool = False,
) -> Verification:
    """Read every payload byte of a model and judge it: digests, types, layouts.

    Uses `threads` (all cores by default); memory stays near 8 MiB or a few frames for each thread,
    but for index arrays of sparse tensors and objects of NInfer, which are held whole. Shards of a
    `.zt` whose parts carry no digests are read whole as well and compared with the digests that the
    file gives for them (§7.3), with `deep` all of them; when one is another file, it stops there.
    Shards that are not there are told as `missing`, and the rest is judged all the same.

    Raises:
        ReadFailed: when payload cannot be read.
        InvalidInput: when `threads` is negative.
    """
    workers, report = threads or os.cpu_count() or 1, progress or (lambda _done: None)
    if workers < 1:
        raise InvalidInput("at least one thread must read", code="threads", found=threads)
    with files.open(model) as file:
        return _verified(file, workers, report, deep=deep)


def _verified(file: File, workers: int, report: Progress, *, deep: bool) -> Verification:
    missing = _missing(file)
    labels = {*file.catalog.files} if deep else file.unproven()
    shards = check_shards(file, threads=workers, progress=report, labels=labels - missing.keys())
    total = _Tally(nbytes=shards.nbytes)
    total.refused += shards.refused
    total.findings += shards.findings
    # Parts in a shard that is another file would only repeat that it is.
    if not shards.findings:
        gone = {name for names in missing.values() for name in names}
        for batch in _batches(file, gone, workers, report):
            total.add(batch)
        if not missing:
            _judge_others(file, total)
    return Verification(
        parts=total.parts,
        checked=total.checked,
        undigested=total.undigested,
        nbytes=total.nbytes,
        refused=tuple(total.refused),
        findings=tuple(total.findings),
        shards=shards.checked,
        protected=total.protected,
        judged=total.judged,
        notes=tuple(total.notes),
        missing=missing,
    )


def _missing(file: File) -> dict[str, tuple[str, ...]]:
    """Return the shards that are not there; one that is another file is a fault and not missing."""
    if not file.catalog.files:
        return {}

    def is_gone(label: str) -> bool:
        try:
            file.source.size(label)
        except ReadFailed as error:
            return error.code == "missing-shard"
        except Rejected:
            pass
        return False

    missing = file.missing()
    absent = file.source.absent(missing)
    return {label: missing[label] for label in missing if label in absent or is_gone(label)}


def _judge_others(file: File, tally: _Tally) -> None:
    """Judge what a file holds beside tensors: resources, and payload that its format has rules of.

    Then it tells what lies in nothing.
    """
    first = len(tally.findings)
    for where, part in file.format.resources(file.catalog):
        try:
            nbytes = len(file.payload(part, where))
        except Rejected as error:
            _keep(tally.findings, error, first)
            continue
        tally.parts += 1
        tally.undigested += 1
        tally.judged += 1
        tally.nbytes += nbytes
    if file.format.payload_rules is not None:
        tally.refused += drive(file.format.payload_rules(file.catalog, tally.reading), file.source)
    try:
        tally.notes += files.survey(file)
    except Rejected as error:  # of a file that is another one
        _keep(tally.findings, error, first)


def _keep(gathered: list[Finding], error: Rejected, first: int) -> None:
    """Gather a rejection that was raised where faults are not gathered, such as at a shard.

    Of one rule it is the only finding from the index `first` on.
    """
    if any(each.rule == error.code for each in gathered[first:]):
        return
    gathered.append(finding_of(error, "content"))


def _batches(
    file: File, gone: Container[str], threads: int, progress: Progress
) -> Iterator[_Tally]:
    """Judge all tensors but those that are `gone`."""

    def judge(names: list[str]) -> _Tally:
        tally = _Tally()
        for name in names:
            tensor = file.catalog.tensors[name]
            if name in gone:
                progress(tensor.nbytes)
                continue
            before = tally.nbytes
            _judge(file, tensor, tally)
            nbytes = tally.nbytes - before
            if nbytes:  # else it lies in a file that cannot be used
                file.evict(tensor)
            progress(nbytes)
        return tally

    batches = file.batches() if file.describes_tensors else []
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(judge, batches)


def _judge(file: File, tensor: Tensor, tally: _Tally) -> None:
    """Judge the parts of one tensor, then its layout."""
    contents: dict[str, memoryview] = {}
    tally.reading = Reading(
        gathered=tally.findings
    )  # so many faults of a rule may each tensor have
    findings, refused, checked = len(tally.findings), len(tally.refused), tally.checked
    if file.format.judge is not None:
        with suppress(Rejected):  # gathered
            file.format.judge(file.catalog, tensor.name, tally.reading)
    for role in tensor.parts:
        try:
            _judge_part(file, tensor, role, tally, contents)
        except Rejected as error:
            _keep(tally.findings, error, findings)
        except (Unsupported, LimitExceeded) as error:
            tally.refuse(error)
    tally.parts += len(tensor.parts)

    def is_sound() -> bool:
        return len(tally.findings) == findings and len(tally.refused) == refused

    if tensor.layout != "dense" and is_sound():
        try:
            _judge_layout(file, tensor, contents, tally.reading, Reading(gathered=tally.notes))
        except Rejected:
            pass
        except (Unsupported, LimitExceeded) as error:
            if tally.checked - checked < len(tensor.parts):  # digests tell of any content
                tally.refuse(error)
    if _has_rules(file, tensor) and is_sound():
        tally.judged += len(tensor.parts)


def _judge_part(
    file: File, tensor: Tensor, role: str, tally: _Tally, contents: dict[str, memoryview]
) -> None:
    """Judge one part: CRC or encoding, digest, type; keep a small one for its layout."""
    part, where = tensor.parts[role], ("objects", tensor.name, "parts", role)
    computed: Callable[[Algorithm], str]
    if _is_streamed(file, part):
        computed = _streamed(file, tensor, part, where, tally)
    else:
        if isinstance(part.blob, Encoded):
            decoder = file.decoder(part, where, tally.reading)
            data = contents[role] = decoder.read(0, part.nbytes)
            tally.protected += decoder.is_checked
        else:
            data = contents[role] = file.payload(part, where)
            tally.protected += _judge_crc(file, part, data, tally.reading, where)
        computed = partial(hexdigest, data)
    tally.nbytes += part.nbytes
    tally.undigested += part.digest is None
    try:
        tally.checked += _judge_digest(part, computed, where, tally.reading)
    except Unsupported as error:  # its bytes are judged all the same
        tally.refuse(error)
    _require_type(tensor, part, where)
    if role in contents and part.type in RESTRICTED:
        _passing(tensor, part, where).judge(contents[role], tally.reading)


def _passing(tensor: Tensor, part: Part, where: tuple[str | int, ...]) -> Passing:
    elements = tensor.elements if tensor.layout == "dense" else None
    return Passing(part.dtype, part.type, where, elements)


_WHOLE: Final = 8 << 20
"""Bytes of a part that are judged in one piece."""


def _is_streamed(file: File, part: Part) -> bool:
    """Tell whether a part is judged piece by piece: it would take memory of its own, and much."""
    if part.nbytes <= _WHOLE:
        return False
    return not (file.is_mapped and isinstance(part.blob, Raw) and len(part.blob.spans) == 1)


def _streamed(
    file: File, tensor: Tensor, part: Part, where: tuple[str | int, ...], tally: _Tally
) -> Callable[[Algorithm], str]:
    """Judge a large part by CRC or encoding, and by its type; return what gives its digest."""
    decoder = None
    if isinstance(part.blob, Encoded):
        decoder = file.decoder(part, where, tally.reading)
    algorithm = (part.digest or "").partition(":")[0]
    state = HASHES[algorithm]() if algorithm in HASHES else xxhash.xxh3_64()
    passing: Passing | None = _passing(tensor, part, where)
    for piece in file.pieces(part, where, tally.reading) if decoder is None else decoder.pieces():
        state.update(piece)
        try:
            if passing is not None:
                passing.judge(piece, tally.reading)
        except Rejected:  # gathered, and one of a kind is enough
            passing = None
    tally.protected += (
        file.checksum_of(part, where) is not None if decoder is None else decoder.is_checked
    )
    return lambda _known: state.hexdigest()


def _has_rules(file: File, tensor: Tensor) -> bool:
    """Tell whether rules of its format judged the payload of a tensor: codes, masks, or a CRC."""
    return file.format.judge is not None or file.format.checksum is not None or tensor.layout == NM


def _judge_crc(
    file: File, part: Part, data: memoryview, reading: Reading, where: tuple[str | int, ...]
) -> bool:
    """Check the CRC that the format of the file keeps of a part; tell whether there is one."""
    running = file.checksum_of(part, where)
    if running is None:
        return False
    running.after(data).require(reading)
    return True


def _judge_digest(
    part: Part,
    computed: Callable[[Algorithm], str],
    where: tuple[str | int, ...],
    reading: Reading,
) -> bool:
    """Check the digest of a part, if it carries one; tell whether it was checked."""
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
    found = computed(known)
    if found != stored:
        reading.require((digest,), PartDigest(where, stored, found, part.blob.spans))
    return True


def _require_type(tensor: Tensor, part: Part, where: tuple[str | int, ...]) -> None:
    """Require that the logical type of a part is known, so that its bytes can be judged."""
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


def _judge_layout(
    file: File,
    tensor: Tensor,
    contents: dict[str, memoryview],
    reading: Reading,
    notes: Reading,
) -> None:
    """Check what the layout demands of its payload; what is only worth a note goes to `notes`."""
    from tensorark.layouts.gate import judge, remark

    def read(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return contents[role][start:stop] if role in contents else large(role, start, stop)

    large = Reader(file, tensor)
    judge(tensor, read, reading)
    remark(tensor, read, notes)


def content_digest(
    model: PathLike, algorithm: Algorithm = "xxh3", *, progress: Progress | None = None
) -> str:
    """Return the content digest (`.zt` §6.4) of any file, as ``<algorithm>:<hex>``.

    That is the identity of the `.zt` which the file converts to (`conversion.as_zt_model`). A `.zt`
    is digested from its manifest alone, which must give every part a digest; the digests go in as
    they stand. Other formats carry none: their parts are hashed with xxh3.

    Raises:
        Unsupported: when a part of a `.zt` carries no digest, or the file is a data shard.
    """
    with files.open(model) as file:
        if file.format.name == "zt":
            return digest_of(file.catalog.tensors.values(), algorithm)
        return digest_of(digested(model_of(file), progress), algorithm)


def digested(file: File, progress: Progress | None = None) -> list[Tensor]:
    """Return the tensors of `file`, with an xxh3 digest computed for each part that has none."""

    def digest(name: str) -> Tensor:
        tensor = file.catalog.tensors[name]
        parts = {}
        for role, part in tensor.parts.items():
            found = part.digest
            if found is None:
                where = ("objects", name, "parts", role)
                in_pieces = _is_streamed(file, part)
                pieces = file.pieces(part, where) if in_pieces else (file.payload(part, where),)
                found = "xxh3:" + hash_pieces(pieces, "xxh3")
            parts[role] = replace(part, digest=found)
        if progress:
            progress(tensor.nbytes)
        file.evict(tensor)
        return replace(tensor, parts=parts)

    def digest_all(names: list[str]) -> list[Tensor]:
        return [digest(name) for name in names]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [each for batch in pool.map(digest_all, file.batches()) for each in batch]


def file_digest(file: File, algorithm: Algorithm, progress: Progress = lambda _done: None) -> str:
    """Return the whole-file digest of the opened file: the identity of an artifact (§6.1).

    Raises:
        InvalidInput: when there is no such algorithm.
    """
    digest = span_digest(file, whole(file, None), check_algorithm(algorithm), progress)
    return f"{algorithm}:{digest}"
