"""The encodings that are read, by id. Unknown ones are refused, not guessed (§5.3).

In the folder of an encoding `rules` judges its structure, and `codec` exports its `ENCODINGS`,
loaded when a part needs one: some take numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from tensorark.encodings.encoding import Encoder, Encoding
from tensorark.encodings.zstd.rules import MOST_CONTENT
from tensorark.errors import Hint, InvalidInput, Unsupported, Where

_FOLDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "zt.zstd-seekable/1": "zstd",
        "npy.array/1": "npy",
        "npy.deflate/1": "npy",
        "npy.file/1": "npy",
    }
)
"""The folder of each encoding."""

WRITTEN: Final[Mapping[str, str]] = MappingProxyType({"zt.zstd-seekable/1": "zstd"})
"""The encodings that are written too, and the names that users type for them."""

RAW: Final = "raw"
"""The name of no encoding at all."""

LEVEL: Final = 3
"""More gains nothing on weights and costs much time."""

FRAME_SIZE: Final = 1 << 20
"""Decoded bytes of a frame: what a range read decompresses at least; it stays in the cache."""

_LEVELS: Final = range(-50, 23)


def find(id_: str, where: Where = ()) -> Encoding:
    """Return the encoding with this id.

    Raises:
        Unsupported: when it is unknown.
    """
    if id_ not in _FOLDERS:
        raise Unsupported(
            "the encoding is unknown, so the part is not decoded",
            code="unknown-encoding",
            section="5.3",
            where=where,
            expected="one of " + " ".join(WRITTEN),
            found=id_,
            hint=Hint(
                "raw() gives the stored bytes",
                tark="`tark cat --as stored` gives the stored bytes",
            ),
        )
    return _load(id_)


@lru_cache(len(_FOLDERS))
def _load(id_: str) -> Encoding:
    known = import_module(f"{__name__}.{_FOLDERS[id_]}.codec").ENCODINGS
    found: Encoding = next(each for each in known if each.id == id_)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """How parts are encoded on their way into a file; made by `compression`."""

    encoding: Encoding
    level: int
    frame_size: int

    def encoder(self) -> Encoder:
        """Return an encoder for one part."""
        return self.encoding.encode(self.level, self.frame_size)


def compression(
    name: str | None, *, level: int | None = None, frame_size: int | None = None
) -> Compression | None:
    """Return the compression that a user asked for: an encoding by name or id; None for ``raw``.

    `level` is zstd's, 3 unless given; `frame_size` the decoded bytes of a frame, 1 MiB unless
    given, 16 MiB at most.

    Raises:
        InvalidInput: when there is no such encoding, or the numbers do not fit it.
    """
    if name is None or name == RAW:
        if level is not None or frame_size is not None:
            detail = "level and frame size are those of an encoding, and none is asked for"
            raise InvalidInput(detail, code="encoding", found=name)
        return None
    found = next((id_ for id_, typed in WRITTEN.items() if name in {id_, typed}), None)
    if found is None:
        known = " ".join([RAW, *WRITTEN.values()])
        raise InvalidInput(
            "no such encoding is written", code="encoding", expected=f"one of {known}", found=name
        )
    level = LEVEL if level is None else level
    frame_size = FRAME_SIZE if frame_size is None else frame_size
    if level not in _LEVELS:
        expected = f"{_LEVELS[0]} to {_LEVELS[-1]}"
        raise InvalidInput("no such level", code="level", expected=expected, found=level)
    if not 1 <= frame_size <= MOST_CONTENT:
        expected = f"1 to {MOST_CONTENT} bytes"
        raise InvalidInput(
            "no such frame size", code="frame-size", expected=expected, found=frame_size
        )
    return Compression(encoding=_load(found), level=level, frame_size=frame_size)
