"""Tensorbit (`.tb`, `.tbm`, directory mode): blobs of weights with N:M masks, and their index.

Reads what the public tools write, by the rules of the specification and of what it leaves open
(`frame`, `syntax`, `index`, `rules`, `read`), plans files whose bytes are the same every time
(`write`), finds the blobs of a container whose index is wrong (`walk`), and says what the public
runtime makes of a model (`runtime`). Knows no other format and touches no file.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tensorark.core.conversation import Steps
from tensorark.core.ledger import BY_MODEL, Keeps
from tensorark.core.model import Catalog, Span
from tensorark.core.rules import Reading, Rule
from tensorark.formats.format import Format
from tensorark.formats.tensorbit import read, rules, write
from tensorark.formats.tensorbit.frame import TAIL_RULES, blob_size, container_size
from tensorark.formats.tensorbit.index import INDEX_RULES
from tensorark.formats.tensorbit.read import models_of
from tensorark.formats.tensorbit.syntax import JSON_RULES

_BLOB_RULES: Final[tuple[Rule[Any], ...]] = tuple(
    one for phase in rules.BLOB_PHASES for one in phase
)
_INDEX_RULES: Final[tuple[Rule[Any], ...]] = (*JSON_RULES, *INDEX_RULES, *rules.ENTRY_RULES)


def _survey(catalog: Catalog, reading: Reading) -> Steps[None]:
    from tensorark.formats.tensorbit.survey import survey

    return survey(catalog.native, reading)


def _gaps(origin: Catalog, _now: Catalog) -> Iterator[tuple[str, Sequence[Span]]]:
    from tensorark.formats.tensorbit.survey import gaps

    for gap in gaps(origin.native):
        yield f"bytes {gap.offset} to {gap.end}", (gap,)


TENSORBIT_FOLDER: Final = Format(
    name=read.FOLDER,
    title="Tensorbit, folder of blobs",
    suffixes=(),
    sniff=lambda _head, _tail, _size: False,
    read=read.read_folder,
    rules=(*rules.ENTRY_RULES, *_BLOB_RULES),
    has_root=False,
    holds=read.holds,
)
TENSORBIT_BLOB: Final = Format(
    name=read.BLOB,
    title="Tensorbit blob",
    suffixes=(read.SUFFIX,),
    sniff=read.sniff_blob,
    read=read.read_blob,
    rules=(blob_size, *_BLOB_RULES),
    folder=TENSORBIT_FOLDER,
    write=write.write_blob,
    keeps=Keeps(some=write.keeps),
    refusals=write.refusals,
    holder="Tensorbit",
    holds_masks=True,
    holds=read.holds,
)
TENSORBIT: Final = Format(
    name=read.CONTAINER,
    title="Tensorbit container",
    suffixes=(".tbm",),
    sniff=read.sniff_container,
    read=read.read_container,
    rules=(container_size, *TAIL_RULES, *_INDEX_RULES, *_BLOB_RULES),
    survey=_survey,
    holds=read.holds,
    gaps=_gaps,
    write=write.write_container,
    options=frozenset({"align"}),
    keeps=Keeps(BY_MODEL),
    refusals=write.refusals,
    holder="Tensorbit",
    holds_masks=True,
)
TENSORBIT_DIRECTORY: Final = Format(
    name=read.DIRECTORY,
    title="Tensorbit, directory with a manifest",
    suffixes=("manifest.json",),
    sniff=read.sniff_directory,
    read=read.read_directory,
    rules=(*_INDEX_RULES, *_BLOB_RULES),
    holds=read.holds,
    write=write.write_directory,
    keeps=Keeps(BY_MODEL),
    refusals=write.refusals,
    holder="Tensorbit",
    holds_masks=True,
)
BLOB_SUFFIX: Final = read.SUFFIX

FORMATS: Final[tuple[Format, ...]] = (
    TENSORBIT_BLOB,
    TENSORBIT,
    TENSORBIT_DIRECTORY,
    TENSORBIT_FOLDER,
)

__all__ = [
    "BLOB_SUFFIX",
    "FORMATS",
    "TENSORBIT",
    "TENSORBIT_BLOB",
    "TENSORBIT_DIRECTORY",
    "TENSORBIT_FOLDER",
    "models_of",
]
