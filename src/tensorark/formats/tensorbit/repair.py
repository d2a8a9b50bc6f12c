"""Makes the record of a model right whose index is wrong, and says every change that this is.

Pure: works on what was read, and on the blobs that walking found. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tensorark.core.conversation import Steps
from tensorark.core.rules import Reading
from tensorark.errors import Hint, Rejected, Unsupported, place, quoted
from tensorark.formats.tensorbit import rules
from tensorark.formats.tensorbit.frame import PRECISIONS, VERSION, Header
from tensorark.formats.tensorbit.index import Claim, Index
from tensorark.formats.tensorbit.layouts import Blob
from tensorark.formats.tensorbit.read import Record
from tensorark.formats.tensorbit.runtime import layers_of
from tensorark.formats.tensorbit.walk import FoundBlob, match, walk


def blobs_of(record: Record) -> Steps[list[FoundBlob]]:
    """Return the blobs of a container, found by walking; of other models, none."""
    return (yield from walk(record.text.offset)) if record.kind == "tbm" else []


def names_of(index: Index) -> list[str]:
    """Return the names of all entries, in their order; one may stand there twice."""
    return [claim.name for claim in index.claims]


def repair(
    record: Record, found: Sequence[FoundBlob], chosen: Collection[str]
) -> tuple[Record, list[str]]:
    """Return the record with the chosen tensors where their blobs are, and every change of that.

    `found` are the blobs of a container. What is not chosen is not judged, and stops nothing.

    Raises:
        Rejected: when a blob is broken itself.
        Unsupported: when there is no telling which blob belongs to which entry.
    """
    names = names_of(record.index)
    unchosen = [name for name in dict.fromkeys(names) if name not in chosen]
    changes = [f"{name}: left out" for name in unchosen]
    forgiven = [each for each in record.forgiven if _name_at(record, each.where) in chosen]
    if record.kind == "tbm":
        rows = [row for row, name in enumerate(names) if name in chosen]
        record, more = _repair_container(record, found, rows)
        forgiven = [each for each in forgiven if each.rule == "tb.entry-dtype"]
        changes += more
        changes += [
            f"{place(each.where)}: {each.found} → the type of the header" for each in forgiven
        ]
    else:
        left_out = tuple(name for name in record.left_out if name in chosen)
        blobs = tuple(blob for blob in record.blobs if blob.claim.name in chosen)
        record = replace(record, blobs=blobs, left_out=left_out)
        changes += [f"{each.detail} ({each.rule})" for each in forgiven]
    return record, changes + _twice(record.blobs)


def _repair_container(
    record: Record, found: Sequence[FoundBlob], rows: Sequence[int]
) -> tuple[Record, list[str]]:
    """Put the blobs of some entries where they are, not where they were said to be."""
    matched = match(record.index.claims, found, rows)
    if matched is None:
        raise Unsupported(
            "there is no telling which blob belongs to which entry of the index",
            code="unmatched",
            expected=f"{len({claim.offset for claim in record.index.claims})} blobs",
            found=len(found),
            hint=Hint(
                "diagnose() says where each blob lies, and exclude leaves entries out",
                tark="`tark doctor` says where each blob lies; `tark mend --exclude` "
                "leaves entries out",
            ),
        )
    changes = [*matched.changes]
    starts = {each.offset: each.header for each in found}
    blobs = [
        Blob(
            header=_repair_header(claim, starts[claim.offset], changes),
            claim=claim,
            limit=record.text.offset,
            row=row,
        )
        for row, claim in matched.claims.items()
    ]
    _require_sound(record, blobs)
    return replace(record, blobs=tuple(blobs), left_out=(), others=matched.others), changes


def _repair_header(claim: Claim, header: Header, changes: list[str]) -> Header:
    """Return a header of the version that exists, of a precision that does."""
    if header.version != VERSION:
        changes.append(f"{claim.name}: version {header.version} → {VERSION}")
        header = replace(header, version=VERSION)
    if header.precision >= len(PRECISIONS) and claim.dtype in PRECISIONS:
        changes.append(f"{claim.name}: precision {header.precision} → 0")
        header = replace(header, precision=0)
    return header


def _require_sound(record: Record, blobs: list[Blob]) -> None:
    """Judge blobs by the rules of blobs; the refusal says how the other tensors are saved."""
    try:
        for phase in rules.BLOB_PHASES:
            Reading().require(phase, blobs)
    except Rejected as error:
        if len(blobs) > 1 and error.where[:1] == ("tensors",):
            name = quoted(_name_at(record, error.where))
            error.hint = Hint(
                f"exclude=[{name}] mends the others",
                tark=f"`tark mend --exclude {name}` mends the others",
            )
        raise


def _name_at(record: Record, where: tuple[str | int, ...]) -> str:
    """Return the name of the entry that a place is in; of a blob alone, its own."""
    inside = where[:1] == ("tensors",) and len(where) > 1 and isinstance(where[1], int)
    return record.index.claims[int(where[1]) if inside else 0].name


def _twice(blobs: Sequence[Blob]) -> list[str]:
    names = [blob.claim.name for blob in blobs]
    first = {name: at for at, name in reversed([*enumerate(names)])}
    return [
        f"{quoted(name)} is named twice: the first is kept"
        for at, name in enumerate(names)
        if first[name] != at
    ]


def repair_facts(
    facts: Mapping[str, object], index: Index, *, layers: bool = True, from_index: bool = True
) -> tuple[dict[str, object], list[str]]:
    """Return what a model says of itself, as the public runtime needs it, and the changes.

    With `layers`, a ``num_layers`` that is missing becomes the number that names speak of, and
    where the facts are those of the index (`from_index`), one that counts the tensors too.
    """
    changes = []
    right = dict(facts)
    stated, count = facts.get("config"), layers_of(names_of(index))
    if layers and isinstance(stated, dict) and count:
        before = stated.get("num_layers")
        # A shard, or a model with layers that are not counted, states what names do not tell.
        counts = from_index and before == len(index.claims)
        if before != count and (before is None or counts):
            right["config"] = {**stated, "num_layers": count}
            changes.append(f"config.num_layers {before} → {count}")
    order = [name for name in index.members if name in {"config", "architecture"}]
    if order == ["architecture", "config"]:
        changes.append("config moved before architecture")
    return right, changes
