"""What a file is, from its first and last bytes."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.errors import Error, Rejected, Unsupported
from tensorark.formats import FORMATS
from tensorark.identify import _STRANGERS, HEAD, TAIL, identify

MAGIC = b"\x89ZT2\r\n\x1a\n"


def told(data: bytes, name: str = "model.bin") -> Error:
    """The error for a file of these bytes."""
    with pytest.raises(Error) as caught:
        identify(data[:HEAD], data[-TAIL:], len(data), name)
    return caught.value


def found(data: bytes, name: str = "model.bin") -> str:
    return identify(data[:HEAD], data[-TAIL:], len(data), name).name


LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345678900\n"
)
ZIP = b"PK\x03\x04" + bytes(26)

BYTES = {
    "file.zeros": (bytes(48), Rejected),
    "file.git-lfs-pointer": (LFS, Rejected),
    "file.html": (b"<!DOCTYPE html>", Rejected),
    "file.xml": (b"<?xml", Rejected),
    "file.ztensor-old": (b"ZTEN1000", Unsupported),
    "file.gguf": (b"GGUF", Unsupported),
    "file.hdf5": (b"\x89HDF\r\n\x1a\n", Unsupported),
    "file.npy": (b"\x93NUMPY", Unsupported),
    "file.torch": (ZIP + b"archive/data.pkl", Unsupported),
    "file.torch-legacy": (b"\x80\x02" + bytes.fromhex("8a0a6cfc9c46f9206aa85019"), Unsupported),
    "file.zip": (b"PK\x03\x04", Rejected),
    "file.pickle": (b"\x80\x04", Rejected),
    "file.gzip": (b"\x1f\x8b", Rejected),
    "file.zstd": (b"\x28\xb5\x2f\xfd", Rejected),
    "file.xz": (b"\xfd7zXZ\0", Rejected),
    "file.tar": (b"a" + bytes(256) + b"ustar", Rejected),
    "file.json": (b"[", Rejected),
}
NOTHING = {
    "file.unknown": (b"\x00\x01\x02", Rejected),
    "file.empty": (b"", Rejected),
}
# What gets a reader of its own is a stranger no more; a new stranger needs its bytes above.
STRANGERS = {each.code: BYTES[each.code] for each in _STRANGERS} | NOTHING


@pytest.mark.parametrize(("code", "case"), STRANGERS.items())
def test_a_stranger_is_named_from_its_least_bytes(code, case):
    data, kind = case
    error = told(data)
    assert (error.code, type(error)) == (code, kind)
    assert str(error).isprintable()
    if len(data) > 1:
        assert told(data + bytes(100)).code == code


@pytest.mark.parametrize("code", [code for code in STRANGERS if code != "file.empty"])
def test_a_stranger_under_the_name_of_a_model_is_told_apart_from_it(code):
    data, _ = STRANGERS[code]
    for suffix in (".zt", ".safetensors", ".ninfer"):
        if code == "file.unknown":
            assert found(data, "m" + suffix) in {each.name for each in FORMATS}
        else:
            error = told(data, "m" + suffix)
            assert error.code == code
            assert f"not what the suffix {suffix} says" in error.detail


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"\xef\xbb\xbf  \r\n<HTML>", "file.html"),
        (b"\n\t<head>", "file.html"),
        (b" \n{}", "file.json"),
        (b'{"error": "not found"}', "file.json"),
        (b"\x00" * 47, "file.unknown"),
        (b"\x00" * 5000, "file.zeros"),
        (b"\x80\x01", "file.unknown"),
        (b"PK\x05\x06", "file.unknown"),
    ],
)
def test_the_edges_of_recognition(text, code):
    assert told(text).code == code


def test_a_pointer_says_how_large_its_object_is():
    error = told(LFS)
    assert "12.35 GB" in error.detail
    assert error.hint == "run `git lfs pull`"
    assert "GB" not in told(LFS.replace(b"size 12345678900", b"size " + b"9" * 40)).detail


OURS = {
    "zt": MAGIC + bytes(40),
    "safetensors": struct.pack("<Q", 8) + b"{}      ",
    "ninfer": b"NINFER\0\x03" + bytes(4088),
    "npz": ZIP[:26] + struct.pack("<2H", 2004, 20) + b"a" * 2000 + b".npy",
}


@pytest.mark.parametrize("name", ["model", "m.pt", "m.gguf", "m.json", "m.zt", "m.safetensors"])
def test_our_formats_are_found_whatever_the_name(name):
    for format_, data in OURS.items():
        assert found(data, name) == format_
    index = json.dumps({"metadata": {}, "weight_map": {"a": "m-00001-of-00001.safetensors"}})
    assert found(index.encode(), name) == "safetensors-index"


def test_either_magic_makes_a_zt_so_that_a_cut_file_is_called_cut():
    assert found(MAGIC) == "zt"
    assert found(bytes(100) + MAGIC) == "zt"
    assert found(b"<html>" + bytes(100) + MAGIC) == "zt"
    assert told(MAGIC[:7]).code == "file.unknown"


def test_the_name_decides_only_who_words_the_error():
    assert found(b"", "m.zt") == "zt"
    assert found(b"\x00", "m.zt") == "zt"
    assert found(b"\x00", "m.safetensors") == "safetensors"
    assert told(b"\x00", "m.zip").code == "file.unknown"


@given(
    head=st.one_of(
        st.binary(max_size=80),
        st.sampled_from([data for data, _ in STRANGERS.values()]),
        st.sampled_from(list(OURS.values())),
    ),
    tail=st.binary(max_size=80),
    size=st.one_of(st.none(), st.integers(0, 2**63)),
    name=st.text(max_size=12).flatmap(
        lambda stem: st.sampled_from([stem, *(stem + s for f in FORMATS for s in f.suffixes)])
    ),
)
def test_recognition_is_total_and_its_words_are_printable(head, tail, size, name):
    data = head + tail
    answer: object
    try:
        answer = identify(data[:HEAD], data[-TAIL:], len(data) if size is None else size, name)
    except Error as error:
        answer = error
    if isinstance(answer, Error):
        assert answer.code.startswith("file.")
        assert str(answer.located(name)).isprintable()
    else:
        assert answer in FORMATS
