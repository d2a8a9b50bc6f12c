"""Whatever is asked for or opened, only our errors leave the library."""

from __future__ import annotations

import pickle
import warnings

import ml_dtypes
import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
import tensorark.torch as torch_ark
from conformance import run
from tensorark.formats.zt.frame import FOOTER, FOOTER_SIZE
from tensorark.integrity.identity import file_digest
from tensorark.wire.cbor import decode, encode
from tests.conformance.corpus_files import CORPUS
from tests.property.test_mutations import rehash

ONE = np.zeros(1, "u1")


@pytest.mark.parametrize("suffix", [".zt", ".safetensors"])
@pytest.mark.parametrize(
    ("arrays", "metadata"),
    [
        ({"\ud800": ONE}, None),
        ({1: ONE}, None),
        ({b"x": ONE}, None),
        ({1: ONE, "a": ONE}, None),
        ({"a": [[1], [1, 2]]}, None),
        ({"a": np.array(["text"])}, None),
        ({"a": np.zeros(2, [("x", "f4")])}, None),
        ({"a": np.zeros(2, "M8[s]")}, None),
        ({"a": object()}, None),
        ({"a": ONE}, {"k": 2**64}),
        ({"a": ONE}, {"k": object()}),
        ({"a": ONE}, {"k": {10**5000: 1}}),
        ({"a": ONE}, {"k": np.float32(1)}),
        ({"a": ONE}, {"k": "\ud800"}),
        ({"a": ONE}, {"\ud800": "k"}),
        ({"a": ONE}, {1: "k"}),
        ({"a": ONE}, {1: 2}),
    ],
)
def test_what_cannot_be_saved_is_refused_and_nothing_appears(tmp_path, suffix, arrays, metadata):
    path = tmp_path / f"m{suffix}"
    with pytest.raises((tensorark.InvalidInput, tensorark.Unsupported)) as caught:
        ark.save_file(arrays, path, metadata)
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("shape", "layout", "role", "ids", "data"),
    [
        ((2**64,), "x/1", "p", ("u8", None), b""),
        ((-1,), "x/1", "p", ("u8", None), b""),
        (("a",), "x/1", "p", ("u8", None), b""),
        ((1.5,), "x/1", "p", ("u8", None), b""),
        (5, "x/1", "p", ("u8", None), b""),
        ((1,), "\ud800", "p", ("u8", None), b""),
        ((1,), "x/1", "\ud800", ("u8", None), b""),
        ((1,), "x/1", "", ("u8", None), b""),
        ((1,), "x/1", "p", ("u9", None), b""),
        ((1,), "x/1", "p", ("u8", "\ud800"), b""),
        ((1,), "x/1", "p", ("u8", "complex64"), b""),
        ((1,), "x/1", "p", ("u8", None), np.arange(9)[::2]),
        ((1,), "x/1", "p", ("u8", None), np.zeros(3, ml_dtypes.bfloat16)),
        ((1,), "x/1", "p", ("u8", None), "text"),
        ((1,), "x/1", "p", ("u8", None), 5),
    ],
)
def test_parts_that_no_file_holds_are_refused(tmp_path, shape, layout, role, ids, data):
    with (
        pytest.raises(tensorark.InvalidInput),
        tensorark.Writer(tmp_path / "m.zt") as writer,
    ):
        writer.add_parts("t", shape, layout, {role: (ids, [data])})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "x" * 300, "/dev/null/x", ""])
def test_a_path_that_is_none_is_refused(tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ark.save_file({"a": ONE}, "m.zt")
    for act in (
        lambda: tensorark.open(path),
        lambda: tensorark.validate(path),
        lambda: ark.save_file({"a": ONE}, path + ".zt" if path else "no/such/folder.zt"),
        lambda: tensorark.convert("m.zt", path + ".zt" if path else "no/such/folder.zt"),
    ):
        with pytest.raises(tensorark.Error):
            act()
    assert [each.name for each in tmp_path.iterdir()] == ["m.zt"]


@pytest.mark.parametrize("name", ["shape-zero-first", "shape-zero-last"])
def test_a_shape_that_no_array_has_is_refused_by_every_road(name):
    """[0, 2^63, 4] is a valid shape, of no elements."""
    path = CORPUS / f"zt/either/{name}.zt"
    with run.image(path) as image:
        if tensorark.validate(image):
            return  # the corpus lets a reader choose
        with tensorark.open(image) as file:
            (view,) = file.values()
            for act in (
                view.numpy,
                view.torch,
                view.__dlpack__,
                view.tobytes,
                lambda: view[...],
                lambda: ark.load_file(image),
                lambda: torch_ark.load_file(image),
            ):
                with pytest.raises(tensorark.Unsupported):
                    act()
            assert tensorark.verify(file).ok


def edited(path, change):
    """Change the manifest of a file."""
    data = path.read_bytes()
    offset, length, *_ = FOOTER.unpack(data[-FOOTER_SIZE:])
    root = decode(data[offset : offset + length])
    change(root)
    text = encode(root)
    footer = FOOTER.pack(offset, len(text), 0, *FOOTER.unpack(data[-FOOTER_SIZE:])[3:])
    path.write_bytes(rehash(bytearray(data[:offset] + text + footer)))


def test_a_file_opened_structurally_is_verified_without_a_crash(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"t": np.zeros(3, ml_dtypes.float4_e2m1fn), "u": np.zeros(3, "f4")}, path)

    def shorten(root):
        root["objects"]["t"]["parts"]["data"]["blob"][1] = 0
        root["objects"]["u"]["parts"]["data"]["blob"][1] = 7
        for each in root["objects"].values():
            del each["parts"]["data"]["digest"]

    edited(path, shorten)
    with tensorark.open(path, structural=True) as file, tensorark.open(path, structural=True) as b:
        tensorark.verify(file)
        assert tensorark.diff(file, b).is_equal
        for view in file.values():
            with pytest.raises(tensorark.Rejected):
                view.numpy()


def test_an_attribute_that_looks_like_an_object_stays_an_attribute(tmp_path):
    held = {
        "x": {
            "parts": {"data": {"blob": [65536, 8], "dtype": "u8"}},
            "shape": [8],
            "layout": "dense",
        }
    }
    path = tmp_path / "m.zt"
    ark.save_file({"t": ONE}, path, held)
    with tensorark.open(path) as file:
        assert file.attributes == held
    assert tensorark.validate(path, canonical=True) == []
    tensorark.convert(path, tmp_path / "again.zt")
    assert (tmp_path / "again.zt").read_bytes() == path.read_bytes()


def test_a_difference_of_packed_elements_counts_elements(tmp_path):
    codes = np.array([0, 1, 2, 3, 4, 5, 6], np.uint8)
    other = codes.copy()
    other[3], other[6] = 7, 14  # 1.5 becomes 6, 4 becomes −4
    for name, values in (("a", codes), ("b", other)):
        ark.save_file({"t": values.view(ml_dtypes.float4_e2m1fn)}, tmp_path / f"{name}.zt")
    with tensorark.open(tmp_path / "a.zt") as a, tensorark.open(tmp_path / "b.zt") as b:
        (change,) = tensorark.diff(a, b).changes
    assert (change.elements, change.first, change.largest) == (2, 3, 8.0)


@pytest.mark.parametrize(
    ("target", "options"),
    [("again.zt", {"digest": "xxh3"}), ("again.zt", {"align": 4096}), ("again.safetensors", {})],
)
def test_a_damaged_part_with_a_sha256_digest_is_not_passed_on(tmp_path, target, options):
    path = tmp_path / "m.zt"
    ark.save_file({"t": np.zeros(100, "u1")}, path)

    def redigest(root):
        digest = "sha256:cd00e292c5970d3c5e2f0ffa5171e555bc46bfc4faddfb4a418b6840b86e79a3"
        root["objects"]["t"]["parts"]["data"]["digest"] = digest

    edited(path, redigest)
    tensorark.convert(path, tmp_path / target, **options)  # that is of a hundred zeros
    (tmp_path / target).unlink()
    data = bytearray(path.read_bytes())
    data[65536] = 1
    path.write_bytes(data)
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.convert(path, tmp_path / target, **options)
    assert caught.value.code == "zt.digest"
    assert [each.name for each in tmp_path.iterdir()] == ["m.zt"]


def test_an_unknown_digest_does_not_hide_a_forbidden_byte(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"t": np.array([True, False])}, path)
    edited(path, lambda root: root["objects"]["t"]["parts"]["data"].update(digest="blake3:00"))
    data = bytearray(path.read_bytes())
    data[65536] = 2
    path.write_bytes(data)
    with tensorark.open(path) as file:
        found = tensorark.verify(file)
    assert [each.rule for each in found.findings] == ["zt.bool-byte"]
    assert [each.code for each in found.refused] == ["unknown-algorithm"]


def test_the_cap_on_decoded_bytes_counts_bytes(tmp_path):
    def words(*values):
        return (("u32", None), [np.array(values, "<u4").tobytes()])

    path = tmp_path / "m.zt"
    parts = {
        "indptr": words(*[0] * 1001),
        "indices": words(),
        "values": (("f64", None), [b""]),
    }
    with tensorark.Writer(path) as writer:
        writer.add_parts("t", (1000, 1000), "zt.sparse_csr/1", parts)
    for cap, enough in ((8_000_000, True), (7_999_999, False)):
        with tensorark.open(path, limits=tensorark.Limits(decoded=cap)) as file:
            if enough:
                assert not file["t"].numpy().any()
                continue
            with pytest.raises(tensorark.LimitExceeded):
                file["t"].numpy()


def test_a_pickled_file_finds_its_store_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ark.save_file({"t": ONE}, "m.zt")
    with tensorark.open("m.zt", store="store") as file:
        data = pickle.dumps(file)
    monkeypatch.chdir("/")
    with pickle.loads(data) as again:
        assert again._store == str(tmp_path / "store")


@pytest.mark.parametrize(("name", "offset"), [("a", 131072), ("m", 65536), ("z", 65536)])
def test_a_part_without_bytes_has_one_canonical_place(tmp_path, name, offset):
    """The next free place in the order of names; else one model would have many canonical files."""
    path = tmp_path / "m.zt"
    ark.save_file({"b": ONE, "n": np.ones(1), name: np.zeros(0)}, path)
    assert tensorark.validate(path, canonical=True) == []
    edited(path, lambda root: root["objects"][name]["parts"]["data"].update(blob=[offset, 0]))
    assert tensorark.validate(path) == []
    found = tensorark.validate(path, canonical=True)
    assert [each.rule for each in found] == ["zt.canonical-placement"]


def test_a_digest_is_that_of_its_algorithm_or_none(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"t": ONE}, path)
    with tensorark.open(path) as file:
        for act in (tensorark.content_digest, file_digest):
            with pytest.raises(tensorark.InvalidInput):
                act(file, "md5")
        with pytest.raises(tensorark.InvalidInput):
            tensorark.verify(file, threads=-1)


def test_no_warning_of_numpy_escapes_either(tmp_path):
    path = tmp_path / "m.zt"
    with np.errstate(all="ignore"):
        values = np.array([np.nan, np.inf, -np.inf, 65504], "f2")
    ark.save_file({"t": values, "u": values[::-1]}, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tensorark.open(path) as file:
            assert tensorark.diff(file, file).is_equal
            assert np.isnan(file["t"][0])
