"""The ledger of a conversion: what a source holds, less what its target keeps, is lost.

Every format states what its files hold, by kind and name, and what it keeps; the rest is refused,
or allowed kind by kind and listed. Nothing is written but through `settle`.

Silent by nature, because every file has its own: where bytes lie, in what order and under which
encoding, digests, older generations and bytes that nothing refers to in a `.zt`, the id of an
artifact and its table of files, and entries by which we carry attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tensorark.core.ledger import BY_LENIENCE, BY_MODEL, KINDS, Keeps, Loss, Names
from tensorark.core.model import Part, Raw
from tensorark.core.writing import Options
from tensorark.errors import Hint, InvalidInput, Unsupported, quoted
from tensorark.files import File
from tensorark.formats.format import Format
from tensorark.layouts.ninfer.geometry import PREFIX
from tensorark.writing import planned

_SHOWN: Final = 8


def among(keeps: Keeps, attributes: Collection[str]) -> Keeps:
    """Return what is kept of one model beside others, of whose attributes these have a place.

    Tensors and their attributes are those of the model that is made of all: settled with that.
    """
    kinds = (keeps.kinds | BY_MODEL) - {"attributes"}
    return Keeps(
        kinds, lambda _catalog, _stem, kind, name: kind == "attributes" and name in attributes
    )


def settle(file: File, into: Format, path: Path, options: Options) -> Settlement:
    """Settle what `file` holds with what is kept of it as `into` at `path`.

    Raises:
        InvalidInput: when a kind in `options.drop` is none.
        Unsupported: when something is lost that is of no kind in `options.drop`.
    """
    odd = file.format.holds(file.origin, file.catalog).get("objects", tuple)
    kept = without(file, [*odd()] if "objects" in options.drop else ())
    unheld = into.refusals(kept.catalog, options) if "tensors" in options.drop else ()
    gone = [name for name, _reason in unheld]
    kept = without(kept, gone)
    lost = losses(kept, into.keeps, into.name, path, options.drop)
    return Settlement(into, kept, path, options, (*(Loss("tensors", each) for each in gone), *lost))


def losses(
    file: File, keeps: Keeps, holder: str, path: Path, drop: Collection[str] = ()
) -> tuple[Loss, ...]:
    """Return what is lost when `file` is written to `path`, all of it of the kinds in `drop`.

    Raises:
        InvalidInput: when a kind is none.
        Unsupported: when something of another kind would be lost; it is listed.
    """
    check_kinds(drop)
    lost = [
        Loss(kind, name)
        for kind, names in holdings(file).items()
        if kind not in keeps.kinds
        for name in names()
        if not keeps.some(file.catalog, path.stem, kind, name)
    ]
    return allow(lost, holder, file.path, drop)


@dataclass(frozen=True, slots=True)
class Settlement:
    """A model that may be written: `dropped` is what is lost of it, all of which is allowed.

    Whatever writes one model from another writes the `file` of one of these.
    """

    into: Format
    file: File
    path: Path
    options: Options
    dropped: tuple[Loss, ...]

    def require(self) -> None:
        """Make the refusals that `write` makes before its first byte.

        Raises:
            Unsupported: when the format cannot hold a tensor.
        """
        require_held(self.file, self.into, self.options)
        planned.require(self.file, self.path, self.into, self.options)

    def write(self) -> list[str]:
        """Write the model and return the files made.

        Raises:
            Unsupported: when the format cannot hold a tensor.
        """
        require_held(self.file, self.into, self.options)
        return planned.write(self.file, self.path, self.into, self.options)


def without(file: File, names: Collection[str]) -> File:
    """Return `file` without some of its tensors."""
    if not names:
        return file
    gone = {*names}
    tensors = {name: each for name, each in file.catalog.tensors.items() if name not in gone}
    return file.with_catalog(replace(file.catalog, tensors=tensors))


def require_held(file: File, into: Format, options: Options) -> None:
    """Require a format to be able to hold every tensor of a model.

    Raises:
        Unsupported: saying which tensors it cannot hold, the first eight with the reason.
    """
    refusals = [*into.refusals(file.catalog, options)]
    if refusals:
        is_packed = any(each.startswith(PREFIX) for each in file.catalog.layouts)
        hint = _UNPACK if is_packed and not into.holds_resources else _LEAVE_OUT
        raise refusal_of(refusals, len(file.catalog.tensors), into.holder, file.path, hint)


def refusal_of(
    refusals: Sequence[tuple[str, str]],
    total: int,
    holder: str,
    path: str | None = None,
    hint: str | None = None,
) -> Unsupported:
    """Describe tensors that a format cannot hold, the first eight with the reason."""
    reasons = "; ".join(f"{quoted(name)}: {reason}" for name, reason in refusals[:_SHOWN])
    more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
    return Unsupported(
        f"{holder} cannot hold {len(refusals)} of {total} tensors: {reasons}{more}",
        code="refused",
        path=path,
        where=("objects", refusals[0][0]),
        hint=hint,
    )


_LEAVE_OUT: Final = Hint(
    'drop=["tensors"] leaves them out and lists them',
    tark="--drop tensors leaves them out and lists them",
)
_UNPACK: Final = Hint(
    "tensorark.ninfer.unpack.export_parameters() decodes an artifact",
    tark="`tark unpack` decodes an artifact",
)


def check_kinds(drop: Collection[str]) -> None:
    """Require what may be lost to be kinds.

    Raises:
        InvalidInput: when one is none.
    """
    odd = sorted({*drop} - KINDS)
    if odd:
        expected = " ".join(sorted(KINDS - BY_LENIENCE))
        raise InvalidInput("no such kind", code="option", expected=expected, found=odd[0])


def allow(lost: Sequence[Loss], holder: str, path: str, drop: Collection[str]) -> tuple[Loss, ...]:
    """Return what is lost, all of it of the kinds in `drop`.

    Raises:
        Unsupported: when something of another kind would be lost; it is listed.
    """
    refused = [each for each in lost if each.kind not in BY_LENIENCE and each.kind not in drop]
    if refused:
        raise _refusal(refused, holder, path)
    return tuple(lost)


def _refusal(refused: list[Loss], holder: str, path: str) -> Unsupported:
    kinds = list(dict.fromkeys(each.kind for each in refused))
    shown = [f"{each.kind} {quoted(each.name)}" for each in refused[:_SHOWN]]
    more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
    words = ", ".join(map(quoted, kinds))
    flags = " ".join(f"--drop {kind}" for kind in kinds)
    return Unsupported(
        f"{holder} keeps not all of it: " + "; ".join(shown) + more,
        code="refused",
        path=path,
        hint=Hint(
            f"drop=[{words}] leaves it out and lists it",
            tark=f"{flags} leaves it out and lists it",
        ),
    )


# ---------------------------------------------------------------------------------------- holdings


def holdings(file: File) -> Mapping[str, Names]:
    """Return everything that a model holds beside the values of tensors, by kind.

    What a step made of it counts where it has one: names and attributes are those to be written.
    """
    held = file.format.holds(file.origin, file.catalog)
    return {**_of_any(file), **held, "gaps": lambda: gaps_of(file)}


def _of_any(file: File) -> dict[str, Names]:
    tensors = file.catalog.tensors
    return {
        "names": lambda: tensors,
        "shapes": lambda: tensors,
        "attributes": lambda: file.catalog.attributes or (),
        "tensor-attributes": lambda: [
            f"{name}: {key}"
            for name, held in file.catalog.tensor_attributes.items()
            for key in held
        ],
    }


def gaps_of(file: File, named: str = "") -> Iterator[str]:
    """Yield the ranges that no entry speaks of and that hold more than zeros, by name.

    `named` chooses those whose names begin so.
    """
    for name, spans in file.format.gaps(file.origin, file.catalog):
        if name.startswith(named):
            pieces = file.chunks(Part(Raw(tuple(spans)), "u8"))
            if any(bytes(piece).strip(b"\0") for piece in pieces):
                yield name
