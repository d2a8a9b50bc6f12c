"""Seals: digests for files that carry none, in a document beside them, and the check against it.

Owns what a seal holds and what damage looks like. A seal is no signature: whoever can change the
file can write another seal. Must never turn a name found in a seal into a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import xxhash

from tensorark import files
from tensorark.conversion.as_zt_model import model_of
from tensorark.core.brief import brief
from tensorark.core.model import Part, Raw, Span, Tensor, cut
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, difference
from tensorark.errors import Error, InvalidInput, ReadFailed, Rejected
from tensorark.files import File, PathLike
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, content_digest
from tensorark.integrity.digests import (
    BLOCK,
    PartDigests,
    block_digests,
    part_digests,
    rests,
    segments,
    span_digest,
    whole,
    workers,
)
from tensorark.integrity.json_documents import Fields, read_document, rendered
from tensorark.io.inputs import operation
from tensorark.io.publish import publish
from tensorark.wire.cbor import Unencodable, encode

SCHEMA: Final = "tensorark.seal/1"
SUFFIX: Final = ".seal.json"

_XXH3: Final = "[0-9a-f]{16}"
_SHA256: Final = "[0-9a-f]{64}"
_HEX: Final = {"xxh3": _XXH3, "sha256": _SHA256}
_BLOCKS: Final = (1 << 12, 1 << 30)  # sizes of blocks that a seal may ask us to hash


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFile:
    """A file of the model: its size, its sha256, and the xxh3 of what lies in no raw blob.

    `name` is the label by which the model names it; for the opened file, the name it had.
    """

    __repr__ = brief

    name: str
    size: int
    sha256: str
    rest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPart:
    """A part: its ids, its decoded size and its digests."""

    __repr__ = brief

    role: str
    dtype: str
    type: str | None
    nbytes: int
    digests: PartDigests


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedTensor:
    """A tensor; `attributes` is the xxh3 of their deterministic CBOR, None where it has none."""

    __repr__ = brief

    name: str
    shape: tuple[int, ...]
    layout: str
    attributes: str | None
    parts: tuple[SealedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """What a model was when it was sealed; `content` are its content digests by algorithm."""

    __repr__ = brief

    format: str
    block: int
    algorithms: tuple[Algorithm, ...]
    content: Mapping[str, str]
    files: tuple[SealedFile, ...]
    tensors: tuple[SealedTensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealCheck:
    """What comparing a model with its seal has shown.

    `parts` were compared; `files` are those whose sha256 was, which only a deep check does;
    `nbytes` were read.
    """

    __repr__ = brief

    parts: int = 0
    files: int = 0
    nbytes: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing differs from the seal."""
        return not self.findings


# ------------------------------------------------------------------------------------------ sealing


@operation()
def seal(
    path: PathLike,
    target: PathLike | None = None,
    *,
    algorithms: Sequence[Algorithm] = ("xxh3",),
    block: int = BLOCK,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> Seal:
    """Write digests of the model at `path` to `target`: by default ``<name>.seal.json`` beside it.

    Parts get a digest by each of `algorithms`, large ones an xxh3 for every `block` bytes as well,
    so that damage can be told where it is; files get sizes and sha256. The same model gives the
    same bytes. Reads everything twice, once for parts and once for files.

    Raises:
        InvalidInput: when the target exists and `overwrite` is false.
        ReadFailed: when the model, or one of its shards, cannot be read.
        Unsupported: when a part is stored under an unknown encoding.
    """
    _check_options(algorithms, block)
    with files.open(path) as file:
        goal = Path(target) if target is not None else seal_path(file.path)
        if goal.exists() and not overwrite:
            with publish(goal, overwrite=False):  # says so before an hour of hashing
                pass
        made = seal_of(file, algorithms, block, threads=threads, progress=progress)
    with publish(goal, overwrite=overwrite) as sink:
        sink.write(encode_seal(made))
    return made


def seal_path(path: PathLike) -> Path:
    """Return where the seal of the model at `path` is looked for."""
    return Path(path).with_name(Path(path).name + SUFFIX)


def seal_of(
    file: File,
    algorithms: Sequence[Algorithm] = ("xxh3",),
    block: int = BLOCK,
    *,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> Seal:
    """Return the seal of an opened model (see `seal`)."""
    file, labels = model_of(file), file.labels
    rest = rests(file, labels)

    def sealed(names: list[str]) -> list[SealedTensor]:
        return [_sealed(file, name, algorithms, block, progress) for name in names]

    def whole_file(label: str | None) -> SealedFile:
        return SealedFile(
            name=file.source.path_of().name if label is None else label,
            size=file.source.size(label),
            sha256=span_digest(file, whole(file, label), "sha256", progress),
            rest=span_digest(file, rest[label], "xxh3"),
        )

    with workers(threads) as pool:
        files = [pool.submit(whole_file, label) for label in labels]
        parts = [pool.submit(sealed, names) for names in file.batches()]
        tensors = tuple(each for batch in parts for each in batch.result())
        return Seal(
            format=file.format.name,
            block=block,
            algorithms=tuple(algorithms),
            content=_content(file, tensors, algorithms),
            files=tuple(each.result() for each in files),
            tensors=tensors,
        )


def _check_options(algorithms: Sequence[str], block: int) -> None:
    if not algorithms or len(set(algorithms)) < len(algorithms) or set(algorithms) - {*ALGORITHMS}:
        raise InvalidInput(
            "the digests of a seal are xxh3, sha256 or both",
            code="option",
            found=", ".join(algorithms) or "none",
        )
    if not _BLOCKS[0] <= block <= _BLOCKS[1]:
        raise InvalidInput(
            "no such size of a block",
            code="option",
            expected=f"{_BLOCKS[0]} to {_BLOCKS[1]} bytes",
            found=block,
        )


def _sealed(
    file: File, name: str, algorithms: Sequence[Algorithm], block: int, progress: Progress
) -> SealedTensor:
    tensor = file.catalog.tensors[name]
    parts = []
    for role, part in tensor.parts.items():
        where = ("objects", name, "parts", role)
        digests = part_digests(file, part, where, algorithms, block)
        parts.append(
            SealedPart(
                role=role, dtype=part.dtype, type=part.type, nbytes=part.nbytes, digests=digests
            )
        )
        progress(part.nbytes)
    return SealedTensor(
        name=name,
        shape=tensor.shape,
        layout=tensor.layout,
        attributes=_attributes(tensor),
        parts=tuple(parts),
    )


def _attributes(tensor: Tensor) -> str | None:
    if tensor.attributes is None:
        return None
    try:
        return xxhash.xxh3_64_hexdigest(encode(tensor.attributes))
    except Unencodable as error:
        raise InvalidInput(
            f"an attribute has no digest: {error.detail}",
            code="attribute",
            where=("objects", tensor.name, "attributes", *error.where),
        ) from None


def _content(
    file: File, tensors: Sequence[SealedTensor], algorithms: Sequence[Algorithm]
) -> dict[str, str]:
    """Return the content digest by each algorithm, over part digests of the same algorithm."""
    return {
        algorithm: content_digest(
            (_digested(file.catalog.tensors[each.name], each, algorithm) for each in tensors),
            algorithm,
        ).partition(":")[2]
        for algorithm in algorithms
    }


def _digested(tensor: Tensor, sealed: SealedTensor, algorithm: str) -> Tensor:
    known = {each.role: f"{algorithm}:{each.digests.whole[algorithm]}" for each in sealed.parts}
    parts = {role: replace(part, digest=known[role]) for role, part in tensor.parts.items()}
    return replace(tensor, parts=parts)


# ------------------------------------------------------------------------------------- the document


def encode_seal(made: Seal) -> bytes:
    """Return the bytes of a seal; the same seal gives the same bytes."""
    return rendered(
        {
            "schema": SCHEMA,
            "format": made.format,
            "block": made.block,
            "algorithms": list(made.algorithms),
            "content": dict(made.content),
            "files": [
                {"name": each.name, "size": each.size, "sha256": each.sha256, "rest": each.rest}
                for each in made.files
            ],
            "tensors": [_tensor_document(each) for each in made.tensors],
        }
    )


def _tensor_document(tensor: SealedTensor) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "layout": tensor.layout,
    }
    if tensor.attributes is not None:
        value["attributes"] = tensor.attributes
    value["parts"] = [_part_document(each) for each in tensor.parts]
    return value


def _part_document(part: SealedPart) -> dict[str, Any]:
    value: dict[str, Any] = {"role": part.role, "dtype": part.dtype}
    if part.type is not None:
        value["type"] = part.type
    value |= {"nbytes": part.nbytes, **part.digests.whole}
    if part.digests.blocks:
        value["blocks"] = list(part.digests.blocks)
    return value


def read_seal(path: PathLike) -> Seal:
    """Read a seal.

    Raises:
        Rejected: when the file is anything but a seal.
        ReadFailed: when it cannot be read.
    """
    fields = read_document(path, SCHEMA)
    block = fields.count("block")
    if not _BLOCKS[0] <= block <= _BLOCKS[1]:
        raise fields.wrong("the blocks have no possible size", "block")
    algorithms = _algorithms(fields)
    content = fields.object("content")
    found = Seal(
        format=fields.text("format"),
        block=block,
        algorithms=algorithms,
        content={each: content.text(each, _HEX[each]) for each in algorithms},
        files=tuple(_read_file(each) for each in fields.objects("files")),
        tensors=tuple(_read_tensor(each, block, algorithms) for each in fields.objects("tensors")),
    )
    content.end()
    fields.end()
    if not found.files or _repeats([each.name for each in found.tensors]):
        raise fields.wrong("the seal names no file, or a tensor twice")
    return found


def _algorithms(fields: Fields) -> tuple[Algorithm, ...]:
    names = fields.texts("algorithms", "xxh3|sha256")
    found = tuple(each for name in names for each in ALGORITHMS if each == name)
    if not found or _repeats(found):
        raise fields.wrong("the algorithms are none, or given twice", "algorithms")
    return found


def _read_file(fields: Fields) -> SealedFile:
    found = SealedFile(
        name=fields.text("name"),
        size=fields.count("size"),
        sha256=fields.text("sha256", _SHA256),
        rest=fields.text("rest", _XXH3),
    )
    fields.end()
    return found


def _read_tensor(fields: Fields, block: int, algorithms: Sequence[Algorithm]) -> SealedTensor:
    found = SealedTensor(
        name=fields.text("name"),
        shape=fields.counts("shape"),
        layout=fields.text("layout"),
        attributes=fields.text("attributes", _XXH3) if fields.has("attributes") else None,
        parts=tuple(_read_part(each, block, algorithms) for each in fields.objects("parts")),
    )
    fields.end()
    if _repeats([each.role for each in found.parts]):
        raise fields.wrong("a part is given twice", "parts")
    return found


def _read_part(fields: Fields, block: int, algorithms: Sequence[Algorithm]) -> SealedPart:
    nbytes = fields.count("nbytes")
    blocks = fields.texts("blocks", _XXH3) if fields.has("blocks") else ()
    if len(blocks) != (-(-nbytes // block) if nbytes > block else 0):
        raise fields.wrong("the blocks do not make up the part", "blocks")
    known: dict[str, str] = {each: fields.text(each, _HEX[each]) for each in algorithms}
    found = SealedPart(
        role=fields.text("role"),
        dtype=fields.text("dtype"),
        type=fields.text("type") if fields.has("type") else None,
        nbytes=nbytes,
        digests=PartDigests(whole=known, blocks=blocks),
    )
    fields.end()
    return found


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


# ----------------------------------------------------------------------------------------- checking


def check_seal(
    path: PathLike,
    seal_file: PathLike | None = None,
    *,
    deep: bool = False,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> SealCheck:
    """Compare the model at `path` with its seal: by default the one beside it.

    Finds damage in any byte of any file: payload by the digests of parts, told by the blocks that
    differ, everything else by the digest of what lies between them. `deep` compares the sha256 of
    the files as well. A file that no longer opens is a finding too.

    Raises:
        Rejected: when the seal is none.
        ReadFailed: when the model or the seal is missing or cannot be read.
    """
    name = os.fspath(path)
    if Path(name).is_dir() and seal_file is None:
        with files.open(name) as file:
            name = file.path
    sealed = read_seal(seal_path(name) if seal_file is None else seal_file)
    try:
        file = files.open(name)
    except Error as error:
        if isinstance(error, ReadFailed) and error.code in {
            "missing-file",
            "read-failed",
            "forbidden",
        }:
            raise
        return SealCheck(findings=(_unopened(name, sealed, error),))
    with file:
        return check_file(file, sealed, deep=deep, threads=threads, progress=progress)


def check_file(
    model: PathLike,
    sealed: Seal,
    *,
    deep: bool = False,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> SealCheck:
    """Compare a model with a seal that was read (see `check_seal`)."""
    with files.open(model) as file:
        return _check_file(file, sealed, threads, progress, deep=deep)


def _check_file(
    file: File, sealed: Seal, threads: int | None, progress: Progress, *, deep: bool
) -> SealCheck:
    file, labels = model_of(file), file.labels
    names = tuple(each.name for each in sealed.files)
    if names[None in labels :] != file.catalog.files:
        return SealCheck(findings=(_other_files(file, names),))
    usable, findings = _present(file, dict(zip(labels, sealed.files, strict=True)))
    known, structure = _matched(file, sealed)
    findings += structure or _contradiction(file, sealed)
    rest = rests(file, tuple(usable))
    with workers(threads) as pool:
        jobs: list[Future[SealCheck]] = []
        if deep:
            jobs += [pool.submit(_check_sha256, file, each, usable[each]) for each in usable]
        jobs += [pool.submit(_check_rest, file, rest[each], usable[each]) for each in usable]
        jobs += [
            pool.submit(_check_parts, file, sealed.block, group)
            for group in _work(file, known, {*labels} - {*usable}, sealed.block)
        ]
        done = []
        for job in jobs:
            done.append(job.result())
            progress(done[-1].nbytes)
    found = [*findings, *(one for each in done for one in each.findings)]
    return SealCheck(
        parts=sum(each.parts for each in done),
        files=sum(each.files for each in done),
        nbytes=sum(each.nbytes for each in done),
        findings=tuple(sorted(found, key=lambda each: (str(each.where), each.offset or 0))),
    )


def _contradiction(file: File, sealed: Seal) -> list[Finding]:
    """Compare the content digests of a seal with those over the digests that it gives for parts."""
    over_parts = _content(file, sealed.tensors, sealed.algorithms)
    return [
        difference(
            "seal-content",
            ("content", algorithm),
            "the seal contradicts itself: this is not the content digest over its parts",
            expected=over_parts[algorithm],
            found=sealed.content[algorithm],
        )
        for algorithm in sealed.algorithms
        if over_parts[algorithm] != sealed.content[algorithm]
    ]


_Unit = tuple[str, SealedPart, range | None]
"""A part to compare: a tensor's name, the sealed part, and the blocks of it, or None for all."""


def _work(
    file: File,
    known: Mapping[str, SealedTensor],
    lost: set[str | None],
    block: int,
) -> Iterator[list[_Unit]]:
    """Yield groups of parts, or of blocks of a large one, each worth a thread's while.

    Parts with bytes in one of the files `lost` are left out.
    """
    for names in file.batches():
        group: list[_Unit] = []
        for name in names:
            for sealed in known[name].parts if name in known else ():
                part = file.catalog.tensors[name].parts[sealed.role]
                if any(span.file in lost for span in part.blob.spans):
                    continue
                pieces = [] if "sha256" in sealed.digests.whole else segments(part, block)
                for piece in pieces:
                    yield [(name, sealed, piece)]
                if not pieces:
                    group.append((name, sealed, None))
        if group:
            yield group


def _check_parts(file: File, block: int, group: Sequence[_Unit]) -> SealCheck:
    parts, nbytes = 0, 0
    findings: list[Finding] = []
    for name, sealed, blocks in group:
        part = file.catalog.tensors[name].parts[sealed.role]
        where = ("objects", name, "parts", sealed.role)
        parts += blocks is None or blocks.start == 0
        try:
            if blocks is None:
                bad = _damaged(file, part, where, sealed, block)
                nbytes += part.nbytes
            else:
                digests = block_digests(file, part, where, blocks, block)
                bad = [
                    at
                    for at, found in zip(blocks, digests, strict=True)
                    if found != sealed.digests.blocks[at]
                ]
                nbytes += min(blocks.stop * block, part.nbytes) - blocks.start * block
        except Rejected as error:  # the bytes break their encoding, so they are others
            findings.append(difference("seal-payload", where, error.message))
            continue
        findings += [_payload(file, part, where, at, block) for at in bad]
    return SealCheck(parts=parts, nbytes=nbytes, findings=tuple(findings))


def _damaged(
    file: File, part: Part, where: tuple[str | int, ...], sealed: SealedPart, block: int
) -> list[int]:
    """Return the blocks of a part that differ; the one block of a small part is 0."""
    found = part_digests(file, part, where, tuple(sealed.digests.whole), block)
    if found == sealed.digests:
        return []
    pairs = enumerate(zip(found.blocks, sealed.digests.blocks, strict=True))
    return [at for at, (new, old) in pairs if new != old] or [0]


def _payload(file: File, part: Part, where: tuple[str | int, ...], at: int, block: int) -> Finding:
    """Describe a block that differs, by its place in the file where it has one."""
    start, stop = at * block, min((at + 1) * block, part.nbytes)
    detail = f"bytes {start} to {stop} of {part.nbytes} of the part differ"
    offset = None
    labels = {span.file for span in part.blob.spans}
    if isinstance(part.blob, Raw) and labels.issubset(file.labels):
        spans = cut(part.blob.spans, start, stop - start)
        detail = "payload differs in " + " and ".join(_span_text(file, each) for each in spans)
        offset = spans[0].offset
    return difference("seal-payload", where, detail, offset=offset)


def _span_text(file: File, span: Span) -> str:
    return f"{file.source.path_of(span.file).name} bytes {span.offset} to {span.end}"


def _present(
    file: File, sealed: Mapping[str | None, SealedFile]
) -> tuple[dict[str | None, SealedFile], list[Finding]]:
    """Return the files that can be compared, and what is wrong with the others."""
    usable, findings = {}, []
    for label, each in sealed.items():
        where = ("files", each.name)
        try:
            size = file.source.size(label)
        except (ReadFailed, Rejected) as error:
            findings.append(difference("seal-file", where, error.message))
            continue
        usable[label] = each
        if size != each.size:
            findings.append(
                difference(
                    "seal-file",
                    where,
                    "the file has another size",
                    expected=f"{each.size} bytes",
                    found=size,
                )
            )
    return usable, findings


def _check_sha256(file: File, label: str | None, sealed: SealedFile) -> SealCheck:
    found = span_digest(file, whole(file, label), "sha256")
    findings: list[Finding] = []
    if found != sealed.sha256:
        findings.append(
            difference(
                "seal-file",
                ("files", sealed.name),
                "the file has another sha256",
                expected=sealed.sha256,
                found=found,
            )
        )
    return SealCheck(files=1, nbytes=file.source.size(label), findings=tuple(findings))


def _check_rest(file: File, spans: Sequence[Span], sealed: SealedFile) -> SealCheck:
    nbytes = sum(span.length for span in spans)
    if span_digest(file, spans, "xxh3") == sealed.rest:
        return SealCheck(nbytes=nbytes)
    shown = ", ".join(f"{each.offset} to {each.end}" for each in spans[:_SHOWN])
    more = f" and {len(spans) - _SHOWN} more" if len(spans) > _SHOWN else ""
    detail = f"bytes that belong to no plain tensor differ, somewhere in {shown}{more}"
    where = ("files", sealed.name)
    found = difference("seal-rest", where, detail, offset=spans[0].offset)
    return SealCheck(nbytes=nbytes, findings=(found,))


_SHOWN: Final = 4


def _matched(file: File, sealed: Seal) -> tuple[dict[str, SealedTensor], list[Finding]]:
    """Return the tensors whose parts can be compared, and what differs besides payload."""
    findings = []
    known: dict[str, SealedTensor] = {}
    for each in sealed.tensors:
        tensor = file.catalog.tensors.get(each.name)
        fault = "the tensor is missing" if tensor is None else _structure(tensor, each)
        if fault:
            where = ("objects", each.name)
            findings.append(difference("seal-tensor", where, fault))
        else:
            known[each.name] = each
    names = {each.name for each in sealed.tensors}
    findings += [
        difference("seal-tensor", ("objects", name), "the tensor is not sealed")
        for name in file.catalog.tensors
        if name not in names
    ]
    if file.format.name != sealed.format:
        detail = f"the seal is of a model in format {sealed.format}, this is {file.format.name}"
        findings.append(difference("seal-tensor", (), detail))
    return known, findings


def _structure(tensor: Tensor, sealed: SealedTensor) -> str:
    """Say how a tensor differs from the sealed one in anything but payload; "" where it does not.

    Sizes count as payload only where types and shape agree, so they are compared here as well.
    """
    facts = {
        "shape": (tensor.shape, sealed.shape),
        "layout": (tensor.layout, sealed.layout),
        "attributes": (_attributes(tensor), sealed.attributes),
        "parts": (
            [(role, p.dtype, p.type, p.nbytes) for role, p in tensor.parts.items()],
            [(each.role, each.dtype, each.type, each.nbytes) for each in sealed.parts],
        ),
    }
    differing = [name for name, (found, expected) in facts.items() if found != expected]
    return f"differs from the seal in {' and '.join(differing)}" if differing else ""


def _other_files(file: File, names: Sequence[str]) -> Finding:
    return difference(
        "seal-file",
        ("files",),
        "the model is made of other files",
        expected=", ".join(names[1:]) or "a single file",
        found=", ".join(file.catalog.files) or "a single file",
    )


def _unopened(path: str, sealed: Seal, error: Error) -> Finding:
    size = Path(path).stat().st_size if Path(path).is_file() else None
    wanted = sealed.files[0].size
    detail = f"the file does not open any more: {error.message}"
    if size is not None and size != wanted:
        detail = f"the file has {size} bytes and {wanted} when it was sealed; {error.message}"
    return difference("seal-file", ("files", sealed.files[0].name), detail, offset=error.offset)
