"""What a signature says: the statement, its one encoding, and the document that carries both.

Owns the fields of each kind of statement and the bytes that are signed. Knows no key and reads no
model; a name in a statement is text, never a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from tensorark.core.brief import brief
from tensorark.integrity.json_documents import (
    Fields,
    read_object,
    render,
    render_compact,
    require_schema,
)

Kind = Literal["file", "root", "content"]
"""What is signed: the bytes of files, a root with sha256 shards, or tensors."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

STATEMENT: Final = "tensorark.statement/1"
DOCUMENT: Final = "tensorark.signature/1"
DOMAIN: Final = STATEMENT.encode() + b"\0"
"""What comes before the statement in the signed bytes, so that they are those of nothing else."""

COVERS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "file": "every byte of each file of the model, and their names, sizes and order",
        "root": "every byte of the root and, by the digests in it, of every shard",
        "content": "names, shapes, layouts, types, attributes and bytes of all tensors, and of a"
        " NInfer artifact its resources, components, bindings, uses, metadata and provenance",
    }
)
"""What a statement of each kind is about, in words; they stand in it."""

OMITS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "file": "whatever else lies beside these files",
        "root": "what the files of shards are called, and whatever else lies beside them",
        "content": "attributes of files, and in which files, where and how the bytes are stored",
    }
)
"""What a statement of each kind says nothing about."""

_SHA256: Final = "[0-9a-f]{64}"
_KEY: Final = "ed25519:[0-9a-f]{64}"
_SIGNATURE: Final = "[0-9a-f]{128}"
_NAME: Final = r"(?s).+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A thing that a statement lists: its name, its size in bytes and its sha256.

    A file or shard is hashed whole. A tensor's size is that of its decoded parts, its sha256 that
    of the `objects` map of a content digest (`.zt` §6.4) that holds this tensor alone, with sha256
    digests of parts.
    """

    __repr__ = brief

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a signature says.

    `key` is the id of the signing key. `files` are those of the model in its order, the opened one
    first; for a root, only itself, its `shards` being those of its table, in order. `content` is
    the sha256 content digest over sha256 digests of parts, `tensors` each of them, by name.
    `uncovered` are the names that lay beside the files and are not signed.
    """

    __repr__ = brief

    kind: Kind
    key: str
    format: str | None = None
    files: tuple[Signed, ...] = ()
    shards: tuple[Signed, ...] = ()
    content: str | None = None
    tensors: tuple[Signed, ...] = ()
    uncovered: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Return the bytes that are signed: the domain, then the statement as compact JSON."""
        return DOMAIN + render_compact(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return the statement as a JSON-able value: the fields of its kind and no others."""
        value: dict[str, Any] = {
            "schema": STATEMENT,
            "kind": self.kind,
            "algorithm": "sha256",
            "key": self.key,
            "covers": COVERS[self.kind],
            "omits": OMITS[self.kind],
        }
        if self.kind == "content":
            value |= {"content": self.content, "tensors": _entries(self.tensors)}
            return value
        value |= {"format": self.format, "files": _entries(self.files)}
        if self.kind == "root":
            value["shards"] = _entries(self.shards)
        value["uncovered"] = list(self.uncovered)
        return value


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement and the signature over its encoding: what a ``.sig.json`` holds."""

    __repr__ = brief

    statement: Statement
    signature: bytes

    def encode(self) -> bytes:
        """Return the bytes of the document."""
        value = {
            "schema": DOCUMENT,
            "statement": self.statement.as_json(),
            "signature": self.signature.hex(),
        }
        return render(value)


def parse_document(data: bytes, path: str) -> SignedStatement:
    """Read a ``.sig.json``.

    Raises:
        Rejected: when it is anything but a document in its one spelling.
    """
    fields = read_object(data, path)
    require_schema(fields, DOCUMENT)
    inner = fields.object("statement")
    found = SignedStatement(
        _parse_statement(inner), bytes.fromhex(fields.text("signature", _SIGNATURE))
    )
    fields.end()
    # One statement, one spelling: no byte of a signature can be changed without being seen.
    if found.encode() != data:
        raise fields.wrong("the document was written anew by something else, or changed")
    return found


def _parse_statement(fields: Fields) -> Statement:
    require_schema(fields, STATEMENT)
    named = fields.text("kind")
    kind = next((each for each in KINDS if each == named), None)
    if kind is None:
        raise fields.wrong("there is no such kind of statement", "kind")
    fields.text("algorithm", "sha256")
    key = fields.text("key", _KEY)
    fields.text("covers", re.escape(COVERS[kind]))
    fields.text("omits", re.escape(OMITS[kind]))
    if kind == "content":
        found = Statement(
            kind=kind,
            key=key,
            content=fields.text("content", _SHA256),
            tensors=_parse_list(fields, "tensors"),
        )
        fields.end()
        return found
    found = Statement(
        kind=kind,
        key=key,
        format=fields.text("format", _NAME),
        files=_parse_list(fields, "files"),
        shards=_parse_list(fields, "shards") if kind == "root" else (),
        uncovered=fields.texts("uncovered", _NAME),
    )
    fields.end()
    if not found.files or (kind == "root" and len(found.files) != 1):
        raise fields.wrong("the statement is about no file, or about too many", "files")
    return found


def _parse_list(fields: Fields, name: str) -> tuple[Signed, ...]:
    found = []
    for each in fields.objects(name):
        found.append(
            Signed(
                name=each.text("name", _NAME if name != "tensors" else r"(?s).*"),
                size=each.count("size"),
                sha256=each.text("sha256", _SHA256),
            )
        )
        each.end()
    if len({each.name for each in found}) < len(found):
        raise fields.wrong("a name is given twice", name)
    return tuple(found)


def _entries(entries: Sequence[Signed]) -> list[Mapping[str, object]]:
    return [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in entries]
