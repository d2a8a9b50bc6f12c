"""What a file is, from its first and last bytes."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tensorark.errors import Error, Rejected, Unsupported
from tensorark.files.identify import _STRANGERS, HEAD, TAIL, identify
from tensorark.formats import FORMATS

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
    "file.ggml": (b"tjgg", Unsupported),
    "file.tflite": (b"\x1c\0\0\0TFL3", Unsupported),
    "file.onnx": (b"\x08\x0a:\x10", Unsupported),
    "file.torch-index": (b'{"weight_map": {"a": "pytorch_model-1.bin"', Unsupported),
    "file.torch-legacy": (b"\x80\x02" + bytes.fromhex("8a0a6cfc9c46f9206aa85019"), Unsupported),
    "file.7z": (b"7z\xbc\xaf\x27\x1c", Rejected),
    "file.rar": (b"Rar!\x1a\x07", Rejected),
    "file.bzip2": (b"BZh91AY&SY", Rejected),
    "file.lz4": (b"\x04\x22\x4d\x18", Rejected),
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
        (b"\x80\x01", "file.pickle"),
        (b"\x80\x06", "file.unknown"),
        (b"<Error><Code>NoSuchKey</Code>", "file.xml"),
        (bytes(512) + b"\x89HDF\r\n\x1a\n", "file.hdf5"),
        (pickle.dumps({"a": [1]}, 0), "file.pickle"),
        (pickle.dumps({"a": [1]}, 1), "file.pickle"),
        (pickle.dumps([1, 2], 0), "file.pickle"),
        (pickle.dumps([], 1), "file.pickle"),
        (pickle.dumps(OrderedDict(a=1), 0), "file.pickle"),
        (pickle.dumps(OrderedDict(a=1), 1), "file.pickle"),
        (pickle.dumps(0x1950A86A20F9469CFC6C, 0), "file.torch-legacy"),
        (pickle.dumps(0x1950A86A20F9469CFC6C, 4), "file.torch-legacy"),
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
    "npz": ZIP[:26] + struct.pack("<2H", 2004, 20) + b"a" * 2000,
}


@pytest.mark.parametrize("name", ["model", "m.pt", "m.gguf", "m.json", "m.zt", "m.safetensors"])
def test_our_formats_are_found_whatever_the_name(name):
    for format_, data in OURS.items():
        assert found(data, name) == format_
    index = json.dumps({"metadata": {}, "weight_map": {"a": "m-00001-of-00001.safetensors"}})
    assert found(index.encode(), name) == "safetensors-index"
    noted = json.dumps({"metadata": {"a": "b" * 1000}, "weight_map": {"a": "b"}, "c": "d" * 99})
    assert found(noted.encode(), name) == "safetensors-index"


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


@pytest.mark.parametrize(
    ("members", "code"),
    [
        (["m/data.pkl", "m/byteorder", "m/data/0", "m/version"], "file.torch"),
        (["m/data/0", "m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"], "file.torchscript"),
        (["m/data/weights/weight_0", "m/archive_format"], "file.torch-export"),
        (["metadata.json", "config.json", "model.weights.h5"], "file.keras"),
        (["a.txt"], "file.zip"),
    ],
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_zip_archive_is_what_its_members_make_it(tmp_path, members, code, is_cut):
    path = tmp_path / "m.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        for name in members:
            archive.writestr(name, b"")
    if is_cut:
        path.write_bytes(path.read_bytes()[:-1])
        code = "npz.directory" if code == "file.zip" else code
    with pytest.raises(Error) as caught:
        tensorark.open(path)
    assert caught.value.code == code


def test_an_archive_is_one_of_arrays_wherever_they_stand(tmp_path):
    path = tmp_path / "m.bin"
    held = io.BytesIO()
    np.save(held, np.arange(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", bytes(5000))
        archive.writestr("notes/", b"")
        archive.writestr("a.npy", held.getvalue())
    with tensorark.open(path) as file:
        assert file["a"].numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("url", ["https://a/m.zt", "hf://a/b", "s3://b/m.safetensors"])
@pytest.mark.parametrize("ask", [tensorark.open, tensorark.validate, tensorark.diagnose])
def test_a_url_is_called_one(url, ask):
    with pytest.raises(tensorark.ReadFailed) as caught:
        ask(url)
    assert (caught.value.code, caught.value.path) == ("url", url)


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


def test_a_payload_that_ends_like_another_format_changes_nothing(tmp_path):
    """Eight bytes of the magic of `.zt` are a float as well."""
    data = bytes.fromhex("895a54320d0a1a0a")
    header = b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}'
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    with tensorark.open(path) as file:
        assert file.format.name == "safetensors"
        assert file["a"].numpy().tobytes() == data
