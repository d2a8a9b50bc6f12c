"""What a file is, by its content: one of our formats, or something else, named for what it is.

The most repeated report of the field is a cryptic parse error on a file that never was a model:
a Git-LFS pointer, a login page, an empty file, another format under the wrong name. Total: looks at
the first and the last bytes only and never raises anything but our errors. What a zip archive holds
stands in its directory, so its reader says it (`formats.npz.strangers`).
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
    by_end = None  # a payload may end as a `.zt` does: who knows the beginning goes first
    for format_ in FORMATS:
        if format_.sniff(head[: format_.head], tail[-64:], size):
            if format_.sniff(head[: format_.head], b"", size):
                return format_
            by_end = by_end or format_
    if by_end is not None:
        return by_end
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


def _looks(pattern: bytes) -> Callable[[bytes], bool]:
    compiled = re.compile(pattern, re.DOTALL)
    return lambda head: compiled.match(head) is not None


def _is_hdf5(head: bytes) -> bool:
    """Whether the signature stands at the beginning, or behind a block of the user's."""
    signature = b"\x89HDF\r\n\x1a\n"
    return any(head[at:].startswith(signature) for at in (0, 512, 1024, 2048))


def _is_torch_stream(head: bytes) -> bool:
    """Whether the first pickle is torch's magic number, in any protocol."""
    number = bytes.fromhex("8a0a6cfc9c46f9206aa85019"), b"L119547037146038801333356L"
    return any(each in head[:40] for each in number)


# An object, a list or a global of the protocols that begin with no mark of their own.
_OLD_PICKLE: Final = rb"(?:\((?:S'|[dl]p?\d*\n|[dl]q)|c[A-Za-z_][\w.]*\n\w+\n|[}\])]q\0|[}\])]\()"
# The version of its format, then the producer, the graph or the operator sets.
_ONNX: Final = rb"\x08[\x01-\x1f](?:\x12[\x01-\x40][ -~]|[\x1a\x22\x32][\x00-\x7f]|\x28|[\x3a\x42])"
_CONVERT: Final = "load it where you trust it, then `tensorark.torch.save_file` (or safetensors)"
_STRANGERS: Final = (
    _Stranger(
        "file.zeros",
        "a file of zeros: a download or a copy that was not finished",
        lambda head: len(head) >= 48 and not head.strip(b"\0"),
        "fetch it again",
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
        "the download got a web page, perhaps for logging in: fetch it again",
    ),
    _Stranger(
        "file.xml", "an XML document", _text(b"<?xml", b"<error"), "perhaps the error of a store"
    ),
    _Stranger(
        "file.ztensor-old",
        "a zTensor file of version 0 or 1",
        _starts(b"ZTEN"),
        "convert it with the ztensor library that wrote it",
        tensors=True,
    ),
    _Stranger(
        "file.gguf",
        "a GGUF file",
        _starts(b"GGUF"),
        "take the safetensors checkpoint that it was made from, or unpack it with the gguf library",
        tensors=True,
    ),
    _Stranger(
        "file.ggml",
        "a GGML file from before GGUF",
        _starts(b"lmgg", b"fmgg", b"tjgg", b"algg"),
        "take the checkpoint that it was made from",
        tensors=True,
    ),
    _Stranger(
        "file.hdf5",
        "an HDF5 file, as Keras writes with the suffix .h5",
        _is_hdf5,
        "load it with Keras or h5py, and save its arrays with `numpy.savez`",
        tensors=True,
    ),
    _Stranger(
        "file.torch-legacy",
        "a torch checkpoint of the old stream format",
        _is_torch_stream,
        _CONVERT,
        tensors=True,
    ),
    _Stranger(
        "file.tflite",
        "a TensorFlow Lite model",
        lambda head: head[4:8] == b"TFL3",
        "export the weights from the model that it was made from",
        tensors=True,
    ),
    _Stranger(
        "file.pickle",
        "a Python pickle, which may run code when it is loaded",
        _looks(rb"\x80[\1-\5]|" + _OLD_PICKLE),
        _CONVERT,
    ),
    _Stranger("file.gzip", "a gzip archive", _starts(b"\x1f\x8b"), "decompress it first"),
    _Stranger("file.zstd", "a zstd stream", _starts(b"\x28\xb5\x2f\xfd"), "decompress it first"),
    _Stranger("file.xz", "an xz archive", _starts(b"\xfd7zXZ\0"), "decompress it first"),
    _Stranger("file.bzip2", "a bzip2 archive", _looks(rb"BZh[1-9]1AY&SY"), "decompress it first"),
    _Stranger("file.lz4", "an LZ4 stream", _starts(b"\x04\x22\x4d\x18"), "decompress it first"),
    _Stranger("file.7z", "a 7z archive", _starts(b"7z\xbc\xaf\x27\x1c"), "unpack it first"),
    _Stranger("file.rar", "a rar archive", _starts(b"Rar!\x1a\x07"), "unpack it first"),
    _Stranger(
        "file.tar", "a tar archive", lambda head: head[257:262] == b"ustar", "unpack it first"
    ),
    _Stranger(
        "file.torch-index",
        "the index of a torch checkpoint, whose shards are pickles",
        _looks(rb'\s*\{.*"weight_map".*\.bin"'),
        _CONVERT,
        tensors=True,
    ),
    _Stranger(
        "file.json",
        "a JSON document, and no index of shards",
        _text(b"{", b"["),
        "perhaps the configuration beside a model, or the error of a server",
    ),
    _Stranger(
        "file.onnx",
        "an ONNX model",
        _looks(_ONNX),
        "take the checkpoint that it was exported from, or save its initializers with the onnx "
        "library",
        tensors=True,
    ),
)
