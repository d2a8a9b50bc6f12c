"""The n-gram table (component `ngram`) and its NFNGHOT1 profile of the rows used most (§9.1).

Owns the config of the table, its fingerprint, and the bytes of the profile. A table stands beside
a text model or alone in an artifact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct, iter_unpack, pack
from typing import Any, Final

from tensorark.core.conversation import Steps
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import InvalidInput, LimitExceeded
from tensorark.formats.ninfer.architecture.fields import Fields, Problem
from tensorark.formats.ninfer.architecture.parameter import Parameter
from tensorark.formats.ninfer.directory import Directory

TABLE: Final = "ngram/table"
ROLE: Final = "hot_profile"
"""Role of the profile among the resources of the component."""

MAGIC: Final = b"NFNGHOT1"
_HEAD: Final = Struct("<8s4Q")
_LISTS: Final = ("multipliers", "head_vocab", "head_offset")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_U64: Final = 1 << 64
_MOST_WORDS: Final = 1 << 16
"""Numbers in a list of a config: a table has a handful of heads."""


def problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the config of a table."""
    fields = Fields(config)
    for key in ("rows", "row_width", "ngram_size", "heads_per_ngram"):
        yield from fields.positive(key)
    for key in _LISTS:
        found = config.get(key)
        if not isinstance(found, list) or not all(_is_u64(each) for each in found):
            yield Problem((key,), "not a list of integers", "integers below 2^64")
        elif len(found) > _MOST_WORDS:
            yield Problem((key,), "a list without end", f"at most {_MOST_WORDS} integers")
    if not isinstance(config.get("format"), str):
        yield Problem(("format",), "not a format", "the format of the table")
    digest = config.get("table_sha256")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        yield Problem(("table_sha256",), "not a digest", "64 hexadecimal digits")


def _is_u64(value: object) -> bool:
    return type(value) is int and 0 <= value < _U64


def parameters(config: Mapping[str, Any]) -> Iterator[Parameter]:
    """Yield the one parameter of a table; config problems come first."""
    shape = (config["rows"], config["row_width"])
    yield Parameter(name=TABLE, shape=shape, source=None, words=config["format"])


def fingerprint(config: Mapping[str, Any]) -> int:
    """Return the 64-bit FNV-1a hash of how n-grams become rows: what a profile belongs to."""
    words = [config["ngram_size"], config["heads_per_ngram"]]
    for key in _LISTS:
        words += [len(config[key]), *config[key]]
    words.append(config["rows"])
    state = 0xCBF29CE484222325
    for octet in pack(f"<{len(words)}Q", *words):
        state = (state ^ octet) * 0x100000001B3 % _U64
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile: the rows of a table of `rows` rows that a corpus of `tokens` used, most first."""

    rows: int
    fingerprint: int
    tokens: int
    ids: Sequence[int]

    def encode(self) -> bytes:
        """Return the bytes of the resource."""
        head = _HEAD.pack(MAGIC, self.rows, self.fingerprint, self.tokens, len(self.ids))
        return head + pack(f"<{len(self.ids)}I", *self.ids)


@dataclass(frozen=True, slots=True)
class HotProfile:
    """The bytes of a resource that is meant to be a profile, and the config of its table."""

    where: tuple[str | int, ...]
    data: bytes
    config: Mapping[str, Any]


@rule("ninfer.hot-profile-frame", section="9.1", stage="content")
def hot_profile_frame(doc: HotProfile) -> Iterator[Fault]:
    """A profile begins with NFNGHOT1 and has 40 bytes and four for each row."""
    if len(doc.data) < _HEAD.size or doc.data[:8] != MAGIC:
        yield Fault(doc.where, "not a profile", "NFNGHOT1 and a head of 40 bytes", len(doc.data))
        return
    expected = _HEAD.size + 4 * _HEAD.unpack_from(doc.data)[4]
    if len(doc.data) != expected:
        yield Fault(doc.where, "the profile has another size", f"{expected} bytes", len(doc.data))


@rule("ninfer.hot-profile-table", section="9.1", stage="content")
def hot_profile_table(doc: HotProfile) -> Iterator[Fault]:
    """A profile states the rows and the fingerprint of the table it belongs to."""
    _, rows, found, _, _ = _HEAD.unpack_from(doc.data)
    if rows != doc.config["rows"]:
        yield Fault(doc.where, "the profile of another table", doc.config["rows"], rows)
    expected = fingerprint(doc.config)
    if found != expected:
        detail = "the profile of another table"
        yield Fault(doc.where, detail, f"fingerprint {expected:016x}", f"{found:016x}")


@rule("ninfer.hot-profile-rows", section="9.1", stage="content")
def hot_profile_rows(doc: HotProfile) -> Iterator[Fault]:
    """The rows of a profile exist, and none is named twice."""
    seen = set()
    for index, (row,) in enumerate(iter_unpack("<I", doc.data[_HEAD.size :])):
        if row >= doc.config["rows"] or row in seen:
            detail = f"entry {index} names a row {'twice' if row in seen else 'past the table'}"
            yield Fault(doc.where, detail, f"a new row below {doc.config['rows']}", row)
            return
        seen.add(row)


@dataclass(frozen=True, slots=True)
class Table:
    """The SHA-256 of the encoded bytes of a table, as hexadecimal digits, and its config."""

    where: tuple[str | int, ...]
    digest: str
    config: Mapping[str, Any]


@rule("ninfer.ngram-digest", section="9.1", stage="content")
def ngram_digest(doc: Table) -> Iterator[Fault]:
    """`table_sha256` is the SHA-256 of the encoded bytes of the table."""
    if doc.digest != doc.config["table_sha256"]:
        detail = "the table is not the one that the config means"
        yield Fault(doc.where, detail, doc.config["table_sha256"], doc.digest)


PROFILE_FRAME_RULES: Final[tuple[Rule[HotProfile], ...]] = (hot_profile_frame,)
PROFILE_RULES: Final[tuple[Rule[HotProfile], ...]] = (hot_profile_table, hot_profile_rows)
TABLE_RULES: Final[tuple[Rule[Table], ...]] = (ngram_digest,)

_CHUNK: Final = 8 << 20
_PROFILE_MOST: Final = 64 << 20


def judge_payload(directory: Directory, reading: Reading) -> Steps[None]:
    """Judge the table of an artifact by its digest, and its profile, if there are any.

    Configs that are not in order are another check's matter: nothing is read for them.

    Raises:
        Rejected: when a rule is broken.
        LimitExceeded: when the profile is too large to be one.
    """
    component = directory.components.get("ngram")
    if component is None or any(problems(component.config)):
        return
    config = component.config
    binding = directory.bindings.get(TABLE)
    if binding is not None and binding.whole:
        stored = directory.object(binding.ranges[0].object)
        state = sha256()
        for start in range(0, stored.nbytes, _CHUNK):
            length = min(_CHUNK, stored.nbytes - start)
            for piece in (yield directory.address.spans(stored.offset + start, length)):
                state.update(piece)
        place = ("objects", stored.id)
        reading.require(TABLE_RULES, Table(place, state.hexdigest(), config))
    if ROLE in component.resources:
        stored = directory.object(component.resources[ROLE])
        if stored.nbytes > _PROFILE_MOST:
            raise LimitExceeded("the profile is too large", expected=_PROFILE_MOST)
        pieces = yield directory.address.spans(stored.offset, stored.nbytes)
        where = ("components", "ngram", "resources", ROLE)
        profile = HotProfile(where, b"".join(pieces), config)
        reading.require(PROFILE_FRAME_RULES, profile)
        reading.require(PROFILE_RULES, profile)


def parse_profile(data: bytes) -> Profile:
    """Return the profile that the rules passed.

    Raises:
        InvalidInput: when the bytes are too few to be one.
    """
    if len(data) < _HEAD.size or data[:8] != MAGIC or len(data) % 4:
        raise InvalidInput("not a profile", code="hot-profile", found=f"{len(data)} bytes")
    _, rows, found, tokens, _ = _HEAD.unpack_from(data)
    ids = tuple(each for (each,) in iter_unpack("<I", data[_HEAD.size :]))
    return Profile(rows=rows, fingerprint=found, tokens=tokens, ids=ids)
