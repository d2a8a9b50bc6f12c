"""What a file is, by its content: one of our formats, or something else, named for what it is.

The most repeated report of the field is a cryptic parse error on a file that never was a model:
a Git-LFS pointer, a login page, an empty file, another format under the wrong name. Total: looks at
the first and the last bytes only and never raises anything but our errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from tensorark.errors import Error, Hint, Rejected, Unsupported
from tensorark.formats import FORMATS
from tensorark.formats.format import Format

HEAD: Final = 4096
"""Bytes from the beginning that recognition looks at."""
TAIL: Final = 64
"""Bytes from the end."""


def identify(head: bytes, tail: bytes, size: int, name: str = "") -> Format:
    """Return the format of a file with these first and last bytes, this size and this name.

    Content decides; the name is only used to word the error.

    Raises:
        Rejected: when the file is no tensor file; the message says what it is instead.
        Unsupported: when it is a tensor file of a format that is not read.
    """
    for format_ in FORMATS:
        if format_.sniff(head[: format_.head], tail[-64:], size):
            return format_
    for stranger in _STRANGERS:
        if head and stranger.matches(head):
            raise stranger.error(head, size, name)
    for format_ in FORMATS:
        if name.endswith(format_.suffixes):
            return format_  # its rules say what is wrong with a file of this name
    if not head:
        raise Rejected("the file is empty", code="file.empty", found="0 bytes")
    raise Rejected(
        "the file is of no format that we know",
        code="file.unknown",
        found=f"{size} bytes beginning {head[:8].hex(' ')}",
        expected="the beginning of a tensor file",
        hint=Hint(
            "tensorark.formats.FORMATS lists what is read",
            tark="`tark formats` lists what is read",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Stranger:
    """Something that is met under the name of a tensor file: how to tell it, and what to say.

    `tensors` says whether it does carry tensors, so that we understand it and lack a reader.
    """

    code: str
    title: str
    matches: Callable[[bytes], bool]
    hint: str = ""
    tensors: bool = False

    def error(self, head: bytes, size: int, name: str) -> Error:
        kind = Unsupported if self.tensors else Rejected
        detail = f"this is {self.title}"
        if name and any(PurePath(name).suffix in each.suffixes for each in FORMATS):
            detail += f", not what the suffix {PurePath(name).suffix} says"
        hint = self.hint
        if self.code == "file.git-lfs-pointer":
            detail += _lfs_object(head)
        return kind(detail, code=self.code, hint=hint or None, found=f"{size} bytes")


def _lfs_object(head: bytes) -> str:
    found = re.search(rb"\nsize (\d{1,18})\n", head)
    if found is None:
        return ""
    return f"; the object of {int(found[1]) / 1e9:.2f} GB was not downloaded"


def _starts(*prefixes: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(prefixes)


def _text(*prefixes: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(prefixes)


def _zip(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(b"PK\x03\x04") and any(mark in head for mark in marks)


_LEGACY_TORCH: Final = bytes.fromhex("8a0a6cfc9c46f9206aa85019")
_STRANGERS: Final = (
    _Stranger(
        "file.zeros",
        "a file of zeros: a download or a copy that was not finished",
        lambda head: len(head) >= 48 and not head.strip(b"\0"),
    ),
    _Stranger(
        "file.git-lfs-pointer",
        "a Git-LFS pointer",
        _starts(b"version https://git-lfs.github.com/spec/"),
        "run `git lfs pull`",
    ),
    _Stranger(
        "file.html",
        "an HTML page",
        _text(b"<!doctype html", b"<html", b"<head"),
        "the download got a web page, perhaps for logging in",
    ),
    _Stranger("file.xml", "an XML document", _text(b"<?xml"), "perhaps an error of a store"),
    _Stranger(
        "file.ztensor-old", "a zTensor file of version 0 or 1", _starts(b"ZTEN"), tensors=True
    ),
    _Stranger("file.gguf", "a GGUF file", _starts(b"GGUF"), tensors=True),
    _Stranger("file.hdf5", "an HDF5 file", _starts(b"\x89HDF\r\n\x1a\n"), tensors=True),
    _Stranger("file.npy", "a numpy array file", _starts(b"\x93NUMPY"), tensors=True),
    _Stranger(
        "file.torch", "a torch checkpoint", _zip(b"data.pkl", b"/.format_version"), tensors=True
    ),
    _Stranger(
        "file.torch-legacy",
        "a torch checkpoint of the old stream format",
        lambda head: head[2:14] == _LEGACY_TORCH,
        tensors=True,
    ),
    _Stranger("file.zip", "a zip archive", _starts(b"PK\x03\x04"), "unpack it first"),
    _Stranger(
        "file.pickle",
        "a Python pickle, which may run code when it is loaded",
        lambda head: head[:1] == b"\x80" and head[1:2] in {b"\2", b"\3", b"\4", b"\5"},
        "convert it where you trust it",
    ),
    _Stranger("file.gzip", "a gzip archive", _starts(b"\x1f\x8b"), "decompress it first"),
    _Stranger("file.zstd", "a zstd stream", _starts(b"\x28\xb5\x2f\xfd"), "decompress it first"),
    _Stranger("file.xz", "an xz archive", _starts(b"\xfd7zXZ\0"), "decompress it first"),
    _Stranger(
        "file.tar", "a tar archive", lambda head: head[257:262] == b"ustar", "unpack it first"
    ),
    _Stranger("file.json", "a JSON document", _text(b"{", b"["), "perhaps an error of a server"),
)
