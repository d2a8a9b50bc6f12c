"""Comparing a model with its seal: what is damaged, and where.

Owns what damage looks like. Must never turn a name found in a seal into a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorark import files
from tensorark.conversion.as_zt_model import normalize
from tensorark.core.brief import brief
from tensorark.core.model import Part, Raw, Span, Tensor, cut
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, difference
from tensorark.errors import Error, ReadFailed, Rejected
from tensorark.files import File, PathLike
from tensorark.integrity.digests import (
    block_digests,
    label_digest,
    part_digests,
    rest_spans,
    segments,
    span_digest,
    workers,
)
from tensorark.integrity.seal import content_digests, hash_attributes, seal_path
from tensorark.integrity.seal_document import Seal, SealedFile, SealedPart, SealedTensor, read_seal


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
        return SealCheck(findings=(_describe_refusal(name, sealed, error),))
    with file:
        return _check_model(file, sealed, threads, progress, deep=deep)


def _check_model(
    file: File, sealed: Seal, threads: int | None, progress: Progress, *, deep: bool
) -> SealCheck:
    file, labels = normalize(file), file.labels
    names = tuple(each.name for each in sealed.files)
    if names[None in labels :] != file.catalog.files:
        return SealCheck(findings=(_describe_files(file, names),))
    usable, findings = _find_files(file, dict(zip(labels, sealed.files, strict=True)))
    known, structure = _match_tensors(file, sealed)
    findings += structure or _check_content(file, sealed)
    rest = rest_spans(file, tuple(usable))
    with workers(threads) as pool:
        jobs: list[Future[SealCheck]] = []
        if deep:
            jobs += [pool.submit(_check_sha256, file, each, usable[each]) for each in usable]
        jobs += [pool.submit(_check_rest, file, rest[each], usable[each]) for each in usable]
        jobs += [
            pool.submit(_check_parts, file, sealed.block, group)
            for group in _divide(file, known, {*labels} - {*usable}, sealed.block)
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


def _check_content(file: File, sealed: Seal) -> list[Finding]:
    """Compare the content digests of a seal with those over the digests that it gives for parts."""
    over_parts = content_digests(file, sealed.tensors, sealed.algorithms)
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


def _divide(
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
                bad = _find_damage(file, part, where, sealed, block)
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
        findings += [_describe_block(file, part, where, at, block) for at in bad]
    return SealCheck(parts=parts, nbytes=nbytes, findings=tuple(findings))


def _find_damage(
    file: File, part: Part, where: tuple[str | int, ...], sealed: SealedPart, block: int
) -> list[int]:
    """Return the blocks of a part that differ; the one block of a small part is 0."""
    found = part_digests(file, part, where, tuple(sealed.digests.whole), block)
    if found == sealed.digests:
        return []
    pairs = enumerate(zip(found.blocks, sealed.digests.blocks, strict=True))
    return [at for at, (new, old) in pairs if new != old] or [0]


def _describe_block(
    file: File, part: Part, where: tuple[str | int, ...], at: int, block: int
) -> Finding:
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


def _find_files(
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
    found = label_digest(file, label, "sha256")
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


def _match_tensors(file: File, sealed: Seal) -> tuple[dict[str, SealedTensor], list[Finding]]:
    """Return the tensors whose parts can be compared, and what differs besides payload."""
    findings = []
    known: dict[str, SealedTensor] = {}
    for each in sealed.tensors:
        tensor = file.catalog.tensors.get(each.name)
        fault = "the tensor is missing" if tensor is None else _compare_structure(tensor, each)
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


def _compare_structure(tensor: Tensor, sealed: SealedTensor) -> str:
    """Say how a tensor differs from the sealed one in anything but payload; "" where it does not.

    Sizes count as payload only where types and shape agree, so they are compared here as well.
    """
    facts = {
        "shape": (tensor.shape, sealed.shape),
        "layout": (tensor.layout, sealed.layout),
        "attributes": (hash_attributes(tensor), sealed.attributes),
        "parts": (
            [(role, p.dtype, p.type, p.nbytes) for role, p in tensor.parts.items()],
            [(each.role, each.dtype, each.type, each.nbytes) for each in sealed.parts],
        ),
    }
    differing = [name for name, (found, expected) in facts.items() if found != expected]
    return f"differs from the seal in {' and '.join(differing)}" if differing else ""


def _describe_files(file: File, names: Sequence[str]) -> Finding:
    return difference(
        "seal-file",
        ("files",),
        "the model is made of other files",
        expected=", ".join(names[1:]) or "a single file",
        found=", ".join(file.catalog.files) or "a single file",
    )


def _describe_refusal(path: str, sealed: Seal, error: Error) -> Finding:
    size = Path(path).stat().st_size if Path(path).is_file() else None
    wanted = sealed.files[0].size
    detail = f"the file does not open any more: {error.message}"
    if size is not None and size != wanted:
        detail = f"the file has {size} bytes and {wanted} when it was sealed; {error.message}"
    return difference("seal-file", ("files", sealed.files[0].name), detail, offset=error.offset)
