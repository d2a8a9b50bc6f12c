"""The ledger of a conversion: what a source holds, less what its target keeps, is lost.

Every format states what its files hold, by kind and name, and every target what it keeps; the rest
is refused, or allowed kind by kind and listed. Nothing is written but through `settle`.

Tensors that a target cannot hold are refused by the target itself, or left out (`Target.fitted`).
Silent by nature, because every file has its own: where bytes lie, in what order and under which
encoding, digests, older generations and bytes that nothing refers to in a `.zt`, the id of an
artifact and its table of files, and entries by which we carry attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorark.conversion.as_zt_model import description_of, payload_of
from tensorark.core.model import Part, Raw, Span
from tensorark.errors import Hint, InvalidInput, Unsupported, quoted
from tensorark.files.attributes import brought_home
from tensorark.files.file import File
from tensorark.formats import npz
from tensorark.formats.ninfer.describe import describe, parse_description, statements
from tensorark.formats.ninfer.directory import Directory
from tensorark.formats.ninfer.frame import HEADER_SIZE as ENTRY_SIZE
from tensorark.formats.ninfer.survey import gaps
from tensorark.formats.safetensors.header import Header
from tensorark.formats.safetensors.index import ShardIndex
from tensorark.formats.tensorbit.read import Record
from tensorark.formats.tensorbit.survey import gaps as unspoken
from tensorark.formats.zt.manifest import Manifest
from tensorark.formats.zt.read import unknown_fields

_SHOWN: Final = 8

Names = Callable[[], Iterable[str]]
"""Gives the names of what is held of a kind."""

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
    return {**_of_any(file), **_OF_FORMAT[file.origin.format](file)}


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


def _of_manifest(file: File) -> dict[str, Names]:
    native = file.origin.native
    return {"fields": lambda: unknown_fields(native)} if isinstance(native, Manifest) else {}


def _of_header(file: File) -> dict[str, Names]:
    native = file.origin.native
    return {"fields": lambda: native.strange} if isinstance(native, Header) else {}


def _of_index(file: File) -> dict[str, Names]:
    """State what is no attribute: what shards and index say apart is one by now."""
    native = file.origin.native
    if not isinstance(native, ShardIndex):
        return {}
    headers = native.headers.values()
    return {
        "fields": lambda: [*native.others, *(name for each in headers for name in each.strange)]
    }


_PLURAL: Final[Mapping[str, str]] = {
    "binding": "bindings",
    "component": "components",
    "config": "configs",
    "encoding": "encodings",
    "provenance": "provenance",
    "role": "roles",
    "use": "uses",
}


def _of_artifact(file: File) -> dict[str, Names]:
    directory = file.origin.native
    if not isinstance(directory, Directory) or description_of(file.catalog) is not None:
        return {}  # in the terms of a `.zt`, all of it is objects
    said = statements(parse_description(describe(directory)) or {})
    found: dict[str, list[str]] = {kind: [] for kind in sorted(BY_ARTIFACT)}
    for what, name in said:
        if what in _PLURAL:
            found[_PLURAL[what]].append(name)
    found["resources"] = [each for each in directory.ids if each not in directory.elements]
    kinds: dict[str, Names] = {kind: names.copy for kind, names in found.items()}
    return {**kinds, "gaps": lambda: [*stray_header(file), *stray_payload(file)]}


def stray_header(file: File) -> Iterator[str]:
    """Yield the range between directory and payload of an artifact, if not all of it is zero."""
    directory = file.origin.native
    assert isinstance(directory, Directory)  # noqa: S101 - it is asked of artifacts
    start, stop = ENTRY_SIZE + directory.frame.json_bytes, directory.frame.payload_start
    if _says_something(_bytes(file, start, stop)):
        yield f"bytes {start} to {stop} of the entry"


def stray_payload(file: File) -> Iterator[str]:
    """Yield the ranges of payload of an artifact that no object holds, and that are not zero."""
    directory = file.origin.native
    assert isinstance(directory, Directory)  # noqa: S101 - it is asked of artifacts
    for offset, length in gaps(directory):
        if _says_something(payload_of(file, directory, offset, length)):
            yield f"{PAYLOAD} {offset} to {offset + length}"


PAYLOAD: Final = "payload bytes"
"""How ranges between objects are called, which an artifact that is written anew keeps."""


def _of_archive(file: File) -> dict[str, Names]:
    native = file.origin.native
    if not isinstance(native, npz.Archive):
        return {}
    folders = [label for label in native.members if label.endswith("/")]
    return {"members": lambda: [*native.others, *folders], "objects": lambda: strange(file)}


def strange(file: File) -> list[str]:
    """Return the arrays of an archive that mean nothing outside of numpy."""
    return [
        name
        for name, tensor in file.origin.tensors.items()
        for part in tensor.parts.values()
        if part.type is not None and part.type.startswith(npz.PREFIX)
    ]


def _of_tensorbit(file: File) -> dict[str, Names]:
    native = file.origin.native
    if not isinstance(native, Record):
        return {}
    held: dict[str, Names] = {
        "unusable": lambda: native.left_out,
        "gaps": lambda: _gaps(file, native),
    }
    if native.kind == "tb":  # which has no name beside that of its file
        held["names"] = lambda: file.catalog.tensors.keys() - file.origin.tensors.keys()
    return held


def _gaps(file: File, record: Record) -> Iterator[str]:
    """Yield the ranges of a container that hold more than zeros, and that no entry speaks of."""
    for gap in unspoken(record):
        if _says_something(_bytes(file, gap.offset, gap.end)):
            yield f"bytes {gap.offset} to {gap.end}"


def _bytes(file: File, start: int, stop: int) -> Iterator[memoryview]:
    return file.chunks(Part(Raw((Span(start, stop - start),)), "u8"))


def _says_something(pieces: Iterable[memoryview]) -> bool:
    """Whether a byte is not zero."""
    return any(bytes(piece).strip(b"\0") for piece in pieces)


_OF_FORMAT: Final[Mapping[str, Callable[[File], dict[str, Names]]]] = {
    "zt": _of_manifest,
    "safetensors": _of_header,
    "safetensors-index": _of_index,
    "ninfer": _of_artifact,
    "npz": _of_archive,
    "tbm": _of_tensorbit,
    "tb": _of_tensorbit,
    "tensorbit-directory": _of_tensorbit,
    "tensorbit-folder": _of_tensorbit,
}
