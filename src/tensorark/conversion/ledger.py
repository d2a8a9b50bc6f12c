"""The ledger of a conversion: what a source holds, less what its target keeps, is lost.

Every format states what its files hold, by kind and name, and every target what it keeps; the rest
is refused, or allowed kind by kind and listed. Nothing is written but through `settle`.

Tensors that a target cannot hold are refused by the target itself, or left out (`Target.fitted`).
Silent by nature, because every file has its own: where bytes lie, in what order and under which
encoding, digests, older generations and bytes that nothing refers to in a `.zt`, the id of an
artifact and its table of files, and entries by which we carry attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorark.core.model import Part, Raw
from tensorark.errors import Hint, InvalidInput, Unsupported, quoted
from tensorark.files import File
from tensorark.files.attributes import brought_home
from tensorark.formats.format import Names

_SHOWN: Final = 8

BY_MODEL: Final = frozenset({"names", "shapes", "attributes", "tensor-attributes"})
"""Kinds that models of every format hold."""

BY_ARTIFACT: Final = frozenset(
    {
        "bindings",
        "components",
        "configs",
        "encodings",
        "provenance",
        "resources",
        "roles",
        "uses",
    }
)
"""Kinds that artifacts hold beside tensors; their metadata are attributes of the file."""

BY_LENIENCE: Final = frozenset({"unusable"})
"""Kinds that are left out because the source was opened leniently: listed, and never refused."""

KINDS: Final = (
    BY_MODEL | BY_ARTIFACT | BY_LENIENCE | {"fields", "gaps", "members", "objects", "tensors"}
)
"""Every kind: beside those above fields of a directory that its format does not define, bytes that
no entry speaks of, members of an archive that are no arrays, arrays that mean nothing outside of
numpy, and tensors that the target cannot hold."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """One thing that a source holds and its target does not."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a target keeps: `kinds` as a whole; of others what `some` says, by kind and name.

    `some` is asked with the file, the path to be written, the kind and the name.
    """

    kinds: frozenset[str]
    some: Callable[[File, Path, str, str], bool] = lambda _file, _path, _kind, _name: False


def among(keeps: Keeps, attributes: Collection[str]) -> Keeps:
    """Return what is kept of one model beside others, of whose attributes these have a place.

    Tensors and their attributes are those of the model that is made of all: settled with that.
    """
    kinds = (keeps.kinds | BY_MODEL) - {"attributes"}
    return Keeps(
        kinds, lambda _file, _path, kind, name: kind == "attributes" and name in attributes
    )


def settle(
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
        if not keeps.some(file, path, kind, name)
    ]
    return allowed(lost, holder, file.path, drop)


def check_kinds(drop: Collection[str]) -> None:
    """Require what may be lost to be kinds.

    Raises:
        InvalidInput: when one is none.
    """
    odd = sorted({*drop} - KINDS)
    if odd:
        expected = " ".join(sorted(KINDS - BY_LENIENCE))
        raise InvalidInput("no such kind", code="option", expected=expected, found=odd[0])


def allowed(
    lost: Sequence[Loss], holder: str, path: str, drop: Collection[str]
) -> tuple[Loss, ...]:
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
    home = brought_home(file.catalog)
    return {
        "names": lambda: tensors,
        "shapes": lambda: tensors,
        "attributes": lambda: home.file or (),
        "tensor-attributes": lambda: [
            f"{name}: {key}" for name, held in home.tensors.items() for key in held or ()
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
