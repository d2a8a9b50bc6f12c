"""What a seal holds, and the document that it is written as; a name in a seal is text, no path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorark.core.brief import brief
from tensorark.files import PathLike
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm
from tensorark.integrity.digests import PartDigests
from tensorark.integrity.json_documents import Fields, read_document, render

SCHEMA: Final = "tensorark.seal/1"
BLOCKS: Final = (1 << 12, 1 << 30)
"""The least and the largest size of a block that a seal may ask us to hash."""

_XXH3: Final = "[0-9a-f]{16}"
_SHA256: Final = "[0-9a-f]{64}"
_HEX: Final = {"xxh3": _XXH3, "sha256": _SHA256}


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


def encode_seal(made: Seal) -> bytes:
    """Return the bytes of a seal; the same seal gives the same bytes."""
    return render(
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
    if not BLOCKS[0] <= block <= BLOCKS[1]:
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
