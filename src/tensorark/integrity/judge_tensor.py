"""Judging the payload of one tensor: digests and checksums of its parts, its types, its layout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import xxhash

from tensorark.core.model import Encoded, Part, Tensor
from tensorark.core.rules import Finding, Reading, finding_of
from tensorark.core.types import RESTRICTED, TYPES
from tensorark.errors import LimitExceeded, Rejected, Unsupported
from tensorark.files import File
from tensorark.files.hashes import HASHES
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, hexdigest
from tensorark.formats.zt.part_digest import PartDigest, digest
from tensorark.integrity.digests import is_large
from tensorark.layouts.ninfer.geometry import PREFIX
from tensorark.layouts.nm.rules import ID as NM
from tensorark.layouts.payload import Passing, Reader


@dataclass(slots=True)
class Tally:
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

    def add(self, other: Tally) -> None:
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

    def keep(self, error: Rejected, first: int) -> None:
        """Gather a rejection that was raised where faults are not gathered, such as at a shard.

        Of one rule it is the only finding from the index `first` on.
        """
        if all(each.rule != error.code for each in self.findings[first:]):
            self.findings.append(finding_of(error, "content"))


def judge_tensor(file: File, tensor: Tensor, tally: Tally) -> None:
    """Judge the parts of one tensor, then its layout."""
    contents: dict[str, memoryview] = {}
    # Anew for each tensor: so many faults of a rule may each of them have.
    tally.reading = Reading(gathered=tally.findings)
    findings, refused, checked = len(tally.findings), len(tally.refused), tally.checked
    if file.format.judge is not None:
        with suppress(Rejected):  # gathered
            file.format.judge(file.catalog, tensor.name, tally.reading)
    for role in tensor.parts:
        try:
            _judge_part(file, tensor, role, tally, contents)
        except Rejected as error:
            tally.keep(error, findings)
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
    file: File, tensor: Tensor, role: str, tally: Tally, contents: dict[str, memoryview]
) -> None:
    """Judge one part: CRC or encoding, digest, type; keep a small one for its layout."""
    part, where = tensor.parts[role], ("objects", tensor.name, "parts", role)
    computed: Callable[[Algorithm], str]
    if is_large(file, part):
        computed = _judge_pieces(file, tensor, part, where, tally)
    else:
        if isinstance(part.blob, Encoded):
            decoder = file.decoder(part, where, tally.reading)
            data = contents[role] = decoder.read(0, part.nbytes)
            tally.protected += decoder.is_checked
        else:
            data = contents[role] = file.payload(part, where)
            checksum = file.checksum_of(part, where)
            if checksum is not None:
                checksum.after(data).require(tally.reading)
                tally.protected += 1
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


def _judge_pieces(
    file: File, tensor: Tensor, part: Part, where: tuple[str | int, ...], tally: Tally
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
            expected="one of " + " ".join(ALGORITHMS),
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
