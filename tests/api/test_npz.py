"""npz both ways: beside numpy, through the hub, and with what no numpy should meet."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
import zlib
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorark
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.encodings.npy import codec as npy
from tensorark.formats import npz
from tensorark.numpy import save_file

SAVES = {"stored": np.savez, "deflated": np.savez_compressed}


def saved(save, arrays) -> bytes:
    held = io.BytesIO()
    save(held, **arrays)
    return held.getvalue()


_SWAPPED = ("i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
ELEMENTS = st.sampled_from(
    [*"?bBhHiIlL", "<f2", "<f4", "<f8", "<c8", "<c16", *(f">{each}" for each in _SWAPPED)]
)
ARRAYS = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
        lambda name: name not in ("file", "allow_pickle") and not name.endswith(".npy")
    ),
    hnp.arrays(ELEMENTS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)).flatmap(
        lambda array: st.sampled_from([array, np.asfortranarray(array)])
    ),
    max_size=4,
)


def same(a, b) -> bool:
    return a.shape == b.shape and a.astype(a.dtype.newbyteorder("<")).tobytes() == b.tobytes()


@given(arrays=ARRAYS, how=st.sampled_from(sorted(SAVES)))
def test_what_numpy_saves_is_read_and_written_as_it_was(tmp_path_factory, arrays, how):
    folder = tmp_path_factory.getbasetemp()
    path, target = folder / "numpy.npz", folder / "ours.npz"
    path.write_bytes(saved(SAVES[how], arrays))
    with tensorark.open(path) as file:
        assert set(file) == set(arrays)
        for name, array in arrays.items():
            values = file[name].numpy()
            assert same(array, values)
            assert values.dtype.str[0] != ">"
            if array.size > 2:
                assert same(array.reshape(-1)[1:-1], file[name].elements(1, array.size - 1))
        found = tensorark.verify(file)
        assert (found.ok, found.protected) == (True, len(arrays))
    tensorark.convert(path, target, overwrite=True)
    with np.load(target) as loaded:
        assert set(loaded.files) == set(arrays)
        assert all(same(array, loaded[name]) for name, array in arrays.items())
    assert zipfile.ZipFile(target).testzip() is None


CONTENT = {
    "zeros": lambda n, _rng: np.zeros(n),
    "ones": lambda n, _rng: np.ones(n),
    "eye": lambda n, _rng: np.arange(n) % (int(n**0.5) + 1) == 0,
    "steps": lambda n, _rng: np.arange(n) // 7,
    "noise": lambda n, rng: rng.integers(0, 255, n),
    "both": lambda n, rng: np.where(np.arange(n) < n // 2, 0, rng.integers(0, 99, n)),
}


MATRICES = st.builds(
    lambda content, dtype, shape, order, seed: np.asarray(
        CONTENT[content](shape[0] * shape[1], np.random.default_rng(seed))
        .astype(dtype)
        .reshape(shape),
        order=order,
    ),
    content=st.sampled_from(sorted(CONTENT)),
    dtype=st.sampled_from(["?", "<i1", "<f2", "<f4", ">f4", "<f8"]),
    shape=st.tuples(*[st.one_of(st.integers(1, 40), st.sampled_from([64, 128, 256, 512]))] * 2),
    order=st.sampled_from("CF"),
    seed=st.integers(0, 99),
)


@given(array=MATRICES, chunk=st.one_of(st.integers(1, 300), st.sampled_from([512, 4096, 65536])))
def test_whatever_numpy_deflates_is_read(tmp_path_factory, array, chunk):
    """zlib may hold output behind the last byte of input, for any content and any size of piece."""
    path = tmp_path_factory.getbasetemp() / "deflated.npz"
    np.savez_compressed(path, w=array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npy, "_CHUNK", chunk)
        with tensorark.open(path) as file:
            assert same(np.load(path)["w"], file["w"].numpy())
            assert tensorark.verify(file).ok


@pytest.mark.parametrize("excess", [-200, -128, -1, 0, 1, 64, 100])
@pytest.mark.parametrize("mib", [1, 2])
def test_zeros_of_about_a_piece_are_read(tmp_path, excess, mib):
    np.savez_compressed(tmp_path / "z.npz", w=np.zeros((mib << 20) + excess, "u1"))
    with tensorark.open(tmp_path / "z.npz") as file:
        assert not file["w"].numpy().any()


MEMBERS = st.lists(
    st.sampled_from(["a", "a.npy", "a.npy.npy", "b.npy", "b", "a/.npy", "a/", ".npy", ".npy.npy"]),
    unique=True,
)


@given(members=MEMBERS)
def test_a_name_means_to_us_what_it_means_to_numpy(tmp_path_factory, members):
    path = tmp_path_factory.getbasetemp() / "names.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for number, member in enumerate(members):
            held = io.BytesIO()
            np.save(held, np.int64(number))
            archive.writestr(member, b"" if member.endswith("/") else held.getvalue())
    ours = {each.removesuffix(".npy"): at for at, each in enumerate(members) if each[-4:] == ".npy"}
    with np.load(path) as loaded:
        agrees = all(loaded[name] == number for name, number in ours.items())
    if members and not ours:
        with pytest.raises(tensorark.Rejected, match="without arrays"):
            tensorark.open(path)
    elif not agrees:
        with pytest.raises(tensorark.Rejected, match=r"npz\.ambiguous-name"):
            tensorark.open(path)
    else:
        with tensorark.open(path) as file:
            assert {name: file[name].numpy() for name in file} == ours


def test_a_name_that_numpy_reads_otherwise_is_not_written(tmp_path):
    source = tmp_path / "m.zt"
    with tensorark.Writer(source) as writer:
        for name in ("a", "a.npy", "b.npy"):
            writer.add(name, np.zeros(1, "u1"))
    with pytest.raises(tensorark.Error) as caught:
        tensorark.convert(source, tmp_path / "m.npz")
    assert "a.npy" in str(caught.value) + str(caught.value.hint)
    assert "b.npy" not in str(caught.value)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(5)
    arrays = {
        "plain": rng.standard_normal((4, 5)).astype("f4"),
        "order": np.asfortranarray(rng.integers(0, 9, (3, 4)).astype(">i4")),
        "flags": np.asfortranarray(rng.integers(0, 2, (3, 3)).astype(bool)),
    }
    return [saved(save, arrays) for save in SAVES.values()]


edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
)


@given(edits=edits, which=st.integers(0, 1), at_end=st.booleans(), cut=st.integers(0, 60))
def test_a_mutated_archive_is_accepted_or_refused_by_our_errors(
    images, tmp_path_factory, edits, which, at_end, cut
):
    data = bytearray(images[which])
    first = data.rindex(b"PK\1\2") - 120 if at_end else 0
    for place, value in edits:
        data[first + int(place * (len(data) - first))] = value
    path = tmp_path_factory.getbasetemp() / "mutated.npz"
    path.write_bytes(data[: len(data) - (cut if cut > 50 else 0)])
    try:
        with tensorark.open(path) as file:
            for name in file:
                with contextlib.suppress(tensorark.Error):
                    file[name].numpy()
            tensorark.verify(file)
    except tensorark.Unsupported:
        return  # it became something else
    except tensorark.Error:
        assert tensorark.validate(path)


def test_the_way_through_the_hub_and_back_loses_nothing(tmp_path):
    source, first = tmp_path / "a.zt", tmp_path / "b.npz"
    attributes = {"text": "a", "typed": [1, 2.5, None, {"b": b"x"}]}
    with tensorark.Writer(source, attributes=attributes) as writer:
        values = np.arange(6).reshape(2, 3)
        writer.add("brain", values.astype(ml_dtypes.bfloat16), attributes={"k": True})
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz"):
            writer.add(name, np.arange(4).astype(getattr(ml_dtypes, name)))
        writer.add("scalar", np.float64(0.5))
    tensorark.convert(source, first)
    tensorark.convert(first, tmp_path / "c.zt")
    assert (tmp_path / "c.zt").read_bytes() == source.read_bytes()
    tensorark.convert(tmp_path / "c.zt", tmp_path / "d.npz")
    assert (tmp_path / "d.npz").read_bytes() == first.read_bytes()
    with np.load(first) as loaded:
        assert loaded["brain"].dtype == np.dtype("V2")
        assert (loaded["brain"].view(ml_dtypes.bfloat16) == values).all()
        note = json.loads(bytes(loaded["__tensorark__"]))
        assert note["types"]["brain"] == "bf16"
        assert note["metadata"]["text"] == "a"
        # Saved once more by numpy the note is still there, deflated or not.
        for save in SAVES.values():
            save(tmp_path / "e.npz", **loaded)
            with tensorark.open(tmp_path / "e.npz") as file:
                assert (file["brain"].dtype, file.attributes["text"]) == ("bf16", "a")
                assert "__tensorark__" not in file


@pytest.mark.parametrize(
    ("note", "dtype"),
    [
        (b"{}", "npy.void"),
        (b"not json", "npy.void"),
        (b'{"types":{"v":"bf16"},"more":{}}', "npy.void"),
        (b'{"types":{"v":"bf16"}}', "bf16"),
    ],
)
def test_a_void_is_what_a_note_of_ours_says_or_nothing(tmp_path, note, dtype):
    path = tmp_path / "m.npz"
    arrays = {"v": np.zeros(3, "V2"), "__tensorark__": np.frombuffer(note, "u1")}
    np.savez(path, **arrays)
    with tensorark.open(path) as file:
        assert file["v"].dtype == dtype
        assert ("__tensorark__" in file) == (dtype == "npy.void")


def test_members_that_mean_nothing_elsewhere_are_listed_and_never_carried(tmp_path):
    path = tmp_path / "m.npz"
    strange = {
        "o": np.array([{}, print], object),
        "s": np.array(["text"]),
        "r": np.zeros(2, [("a", "f4"), ("b", "i8")]),
        "d": np.array(["2020-01-01"], "M8[D]"),
        "l": np.zeros(2, np.longdouble),
    }
    np.savez(path, x=np.arange(3), **strange)
    with tensorark.open(path) as file:
        assert set(file) == {"x", *strange}
        assert file["x"].numpy().tolist() == [0, 1, 2]
        for name in strange:
            with pytest.raises(tensorark.Unsupported):
                file[name].numpy()
    for target in ("m.zt", "m.safetensors", "n.npz"):
        with pytest.raises(tensorark.Unsupported, match=r"objects \"o\""):
            tensorark.convert(path, tmp_path / target)
        assert not (tmp_path / target).exists()
    # Who leaves them out by name has said enough.
    done = tensorark.convert(path, tmp_path / "m.zt", exclude=[*strange])
    assert {(each.kind, each.name) for each in done.dropped} == {("tensors", n) for n in strange}
    done = tensorark.convert(path, tmp_path / "n.zt", exclude=["o"], drop=["objects"])
    assert {each.name for each in done.dropped if each.kind == "objects"} == {*strange} - {"o"}
    assert list(tensorark.open(tmp_path / "n.zt")) == ["x"]
    with tensorark.Writer(tmp_path / "base.zt"):
        pass
    for array, code in ((strange["s"], "refused"), (np.zeros((2, 2), ">f4"), "npz-only")):
        np.savez(path, y=array)
        with pytest.raises(tensorark.Unsupported) as caught:
            tensorark.append(tmp_path / "base.zt", path)
        assert caught.value.code == code
        assert list(tensorark.open(tmp_path / "base.zt")) == []


def test_data_are_aligned_and_mapped(tmp_path):
    path = tmp_path / "m.npz"
    arrays = {f"{n:03}" + "x" * n: np.arange(n, dtype="u1") for n in range(70)}
    save_file(arrays, tmp_path / "m.zt")
    tensorark.convert(tmp_path / "m.zt", path)
    with tensorark.open(path) as file:
        for name in arrays:
            (span,) = file[name].parts["data"].blob.spans
            assert span.offset % 64 == 0
            values = file[name].numpy()
            assert not values.flags.writeable
            assert not values.flags.owndata
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(("first", "method"), [(2, 0), (2, 8), (0, 0)])
def test_more_dimensions_than_numpy_has_are_refused(tmp_path, first, method):
    shape = (first, 2, *[1] * 80, *[1 << 62] * (4 - 2 * first))
    head = f"{{'descr': '<f4', 'fortran_order': True, 'shape': {shape}}}".encode()
    data = b"\x93NUMPY\x01\0" + len(head).to_bytes(2, "little") + head + bytes(8 * first)
    with zipfile.ZipFile(tmp_path / "m.npz", "w", method) as archive:
        archive.writestr("a.npy", data)
    with tensorark.open(tmp_path / "m.npz") as file:
        assert file["a"].shape == shape
        with pytest.raises(tensorark.Unsupported) as caught:
            file["a"].numpy()
        assert caught.value.code == "numpy-shape"


def test_an_archive_of_nothing(tmp_path):
    np.savez(tmp_path / "a.npz")
    with tensorark.Writer(tmp_path / "b.zt"):
        pass
    tensorark.convert(tmp_path / "b.zt", tmp_path / "b.npz")
    for name in ("a.npz", "b.npz"):
        assert list(tensorark.open(tmp_path / name)) == []
    assert np.load(tmp_path / "b.npz").files == []


def test_many_members_need_the_records_of_zip64(tmp_path):
    path = tmp_path / "m.npz"
    part = Part(Raw((Span(0, 1),)), "u8")
    planned = npz.plan(Tensor("0", (), "dense", {"data": part}))
    file, entries = bytearray(), bytearray()
    crc = zlib.crc32(planned.head + b"\x07")
    for index in range(65_535):
        member = replace(planned, name=b"%d.npy" % index)
        entries += member.entry(len(file), crc)
        local = member.local(len(file))
        file += local[: npz.CRC_AT] + crc.to_bytes(4, "little") + local[npz.CRC_AT + 4 :]
        file += member.head + b"\x07"
    path.write_bytes(file + entries + npz.end_records(len(file), len(entries), 65_535))
    with tensorark.open(path) as opened:
        assert len(opened) == 65_535
        assert opened["65534"].numpy() == 7
    assert len(zipfile.ZipFile(path).namelist()) == 65_535


def test_records_of_zip64_may_stand_where_none_are_needed(tmp_path):
    """As torch writes them in any archive; they have to say the same as the short one."""
    path = tmp_path / "m.npz"
    np.savez(path, a=np.arange(3))
    image = path.read_bytes()
    count, length, offset = struct.unpack_from("<H2L", image, len(image) - 12)
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, length, offset)
    wide += struct.pack("<4sLQL", b"PK\6\7", 0, len(image) - 22, 1)
    path.write_bytes(image[:-22] + wide + image[-22:])
    with tensorark.open(path) as file:
        assert file["a"].numpy().tolist() == [0, 1, 2]
    path.write_bytes(image[:-22] + wide + image[-22:-14] + b"\2\0\2\0" + image[-10:])
    assert [each.rule for each in tensorark.validate(path)] == ["npz.directory"]


def test_a_bomb_is_refused_before_its_memory_is_taken(tmp_path):
    path = tmp_path / "m.npz"
    head = b"{'descr': '<f8', 'fortran_order': True, 'shape': (1048576, 8)}"
    data = b"\x93NUMPY\x01\0" + len(head).to_bytes(2, "little") + head + bytes(1 << 26)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data)
    small = tensorark.Limits(decoded=1 << 24)
    with tensorark.open(path, limits=small) as file, pytest.raises(tensorark.LimitExceeded):
        file["a"].numpy()
    # Claiming a terabyte costs nothing either: no stream of this length could give it.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data[:1000])
    image = bytearray(path.read_bytes())
    for at in (22, image.index(b"PK\1\2") + 24):
        image[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(image)
    assert [each.rule for each in tensorark.validate(path)] == ["npz.stored-size"]


def test_tensors_that_numpy_cannot_say_are_refused_by_name(tmp_path):
    with tensorark.Writer(tmp_path / "m.zt") as writer:
        writer.add("four", np.zeros(4, ml_dtypes.float4_e2m1fn))
        writer.add("__tensorark__", np.zeros(1))
        writer.add("fine", np.zeros(1))
    with pytest.raises(tensorark.Unsupported, match="cannot hold 2 of 3") as caught:
        tensorark.convert(tmp_path / "m.zt", tmp_path / "m.npz")
    assert "four" in str(caught.value)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("name", ["zero\0byte", "\ud800", "long" * 20000])
def test_names_that_no_zip_holds_are_refused(name):
    part = Part(Raw((Span(0, 4),)), "f32")
    found = dict(npz.refusals([Tensor(name, (1,), "dense", {"data": part})]))
    assert list(found) == [name]


def test_large_arrays_pass_in_pieces(tmp_path):
    """Longer than every buffer, so that each way of reading crosses its edges."""
    rng = np.random.default_rng(1)
    arrays = {
        "fortran": np.asfortranarray(rng.integers(0, 99, (700, 900)).astype(">f4")),
        "swapped": rng.integers(0, 99, (3, 500, 301)).astype(">f8"),
        "plain": rng.integers(0, 99, 400_001).astype("f8"),
    }
    for how, save in SAVES.items():
        path, target = tmp_path / f"{how}.npz", tmp_path / f"{how}.zt"
        save(path, **arrays)
        tensorark.convert(path, target)
        with tensorark.open(target) as file, tensorark.open(path) as source:
            assert tensorark.diff(file, source).equal == 3
            for name, array in arrays.items():
                assert same(array, file[name].numpy())
                assert same(array, source[name].numpy())
                assert same(array.reshape(-1)[9:300_000], source[name].elements(9, 300_000))
    assert zlib.crc32((tmp_path / "stored.zt").read_bytes()) == zlib.crc32(
        (tmp_path / "deflated.zt").read_bytes()
    )
