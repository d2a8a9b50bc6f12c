"""Writing any model as a `.zt`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tensorark.conversion.as_zt_model import hub
from tensorark.conversion.ledger import BY_MODEL, Keeps
from tensorark.conversion.target import LEAVE_OUT, Options, Target, require_none
from tensorark.files import File
from tensorark.formats.zt.rules import MAX_NAME
from tensorark.io.publish import publish
from tensorark.writing.writer import check_choice, compression_of, rewrite


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one `.zt`, canonical unless something else is asked for."""
    file = hub(file)
    digest = None if options.digest is None else check_choice(options.digest)
    hold(file, options)
    compression = compression_of(
        options.encoding, level=options.level, frame_size=options.frame_size
    )
    with publish(target, overwrite=options.overwrite) as sink:
        rewrite(
            file,
            sink,
            align=options.align,
            compression=compression,
            digest=digest,
            progress=options.progress,
        )
    return [str(target)]


def hold(file: File, options: Options) -> None:
    """Require a `.zt` to be able to hold the names of all tensors, before the first byte.

    Raises:
        Unsupported: naming every tensor that it cannot hold.
    """
    refusals, total = [*_refusals(file, options)], len(file.catalog.tensors)
    require_none(refusals, total, holder="a .zt", path=file.path, hint=LEAVE_OUT)


def _refusals(file: File, options: Options) -> Iterator[tuple[str, str]]:
    plain = options.align is None and options.encoding is None
    return _unnamed(file, canonical=plain and options.digest in {None, "xxh3"})


def _unnamed(file: File, *, canonical: bool) -> Iterator[tuple[str, str]]:
    """Yield the tensors of whose name a `.zt` has none, and why."""
    for name in file.catalog.tensors:
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


ZT: Final = Target(
    name="zt",
    suffixes=(".zt",),
    options=frozenset({"align", "encoding", "level", "frame_size", "digest"}),
    put=write,
    keeps=Keeps(BY_MODEL),
    require=hold,
    refuses=_refusals,
)
