"""Writing any model as a `.zt`."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Final

from tensorark.api import File
from tensorark.conversion.ledger import BY_MODEL, Keeps
from tensorark.conversion.target import Options, Target, require_none
from tensorark.formats.zt.rules import MAX_NAME
from tensorark.hub import hub
from tensorark.io.publish import publish
from tensorark.writer import check_choice, compression_of, rewrite


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one `.zt`, canonical unless something else is asked for."""
    file = hub(file)
    digest = None if options.digest is None else check_choice(options.digest)
    plain = options.align is None and options.encoding is None
    hold(file, canonical=plain and digest in {None, "xxh3"})
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


def hold(file: File, *, canonical: bool = False) -> None:
    """Require a `.zt` to be able to hold the names of all tensors, before the first byte.

    Raises:
        Unsupported: naming every tensor that it cannot hold.
    """
    names = file.catalog.tensors
    refusals = [
        (name, reason)
        for name in names
        if not (name.isascii() and 0 < len(name) <= MAX_NAME and "\0" not in name)
        and (reason := _unnamable(name, canonical=canonical))
    ]
    require_none(refusals, len(names), holder="a .zt", path=file.path)


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
)
