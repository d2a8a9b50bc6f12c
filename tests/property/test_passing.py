"""What passes through a writer is legal, or is refused and nothing appears.

Tensors of any layout and type, with legal payload or with a byte of it changed, go through every
writer. Whether they are legal is told by plain Python that uses nothing of the library.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy
import tensorark.torch
from tensorark.conversion.pipeline import convert
from tensorark.edit import split as splitting
from tensorark.edit.append import append
from tensorark.edit.merge import merge
from tensorark.edit.overlay import overlay
from tensorark.edit.repack import repack
from tensorark.integrity.verify import verify
from tensorark.layouts.parts import TensorParts
from tests.property import images
from tests.property.test_values import dense, masked, microscaled, of_ninfer, sparse
from tests.unit.layouts.test_grouped import schemes

SHAPES = {
    "dense": dense(),
    "sparse": sparse(),
    "n-m": masked(),
    "quant-group": schemes(),
    "mx": microscaled(),
    "ninfer": of_ninfer(),
}
CSR, COO, NM = "zt.sparse_csr/1", "zt.sparse_coo/1", "tensorbit.nm/1"
WORDS = {"u32": "I", "u64": "Q"}


# ------------------------------------------------------------------------------------ the reference


def data_of(laid, role):
    return b"".join(map(bytes, laid.parts[role][1]))


def words(laid, role):
    (dtype, _), data = laid.parts[role][0], data_of(laid, role)
    width = 4 if dtype == "u32" else 8
    return list(struct.unpack(f"<{len(data) // width}{WORDS[dtype]}", data))


def has_legal_types(laid):
    for role, ((_, type_), _) in laid.parts.items():
        data = data_of(laid, role)
        if type_ == "bool" and set(data) - {0, 1}:
            return False
        if type_ == "f4_e2m1" and data and count_of(laid, role) % 2 and data[-1] >> 4:
            return False
    return True


def count_of(laid, role):
    if role == "values":
        held = "indices" if laid.layout == CSR else "coords"
        return len(words(laid, held)) // (1 if laid.layout == CSR else len(laid.shape))
    return int(np.prod(laid.shape, dtype=object))


def is_legal_csr(laid):
    starts, columns = words(laid, "indptr"), words(laid, "indices")
    if starts[0] or starts[-1] != len(columns) or any(a > b for a, b in pairwise(starts)):
        return False
    rows = [columns[a:b] for a, b in pairwise(starts)]
    return all(a < b for row in rows for a, b in pairwise(row)) and all(
        column < laid.shape[1] for column in columns
    )


def is_legal_coo(laid):
    flat = words(laid, "coords")
    count = len(flat) // len(laid.shape)
    cells = [tuple(flat[at::count]) for at in range(count)]
    return len({*cells}) == len(cells) and all(
        place < extent for cell in cells for place, extent in zip(cell, laid.shape, strict=True)
    )


def is_legal_nm(laid):
    facts, mask = laid.attributes["tensorbit"], data_of(laid, "mask")
    n, m, count = facts["n"], facts["m"], int(np.prod(laid.shape))
    width = -(-m // 8)
    if count // m * width > len(mask):
        return False  # one byte a group, where more are due
    for group in range(-(-count // m)):
        size = min(m, count - group * m)
        octets = int.from_bytes(mask[group * width :][:width], "little")
        if (group + 1) * width > len(mask):
            continue  # no bit stands for the short last group
        kept = [octets >> place & 1 for place in range(size)]
        if sum(kept) != n if size == m else sum(kept) > n:
            return False
        weights = nonzero(laid, group * m, size)
        if any(live and not bit for live, bit in zip(weights, kept, strict=True)):
            return False
    return True


def nonzero(laid, start, count):
    (dtype, _), data = laid.parts["weights"][0], data_of(laid, "weights")
    if laid.attributes["tensorbit"].get("dtype") == "int4":
        return [data[at // 2] >> at % 2 * 4 & 15 for at in range(start, start + count)]
    width = {"f64": 8, "f32": 4}.get(dtype, 1 if dtype == "i8" else 2)
    cells = [data[at * width : (at + 1) * width] for at in range(start, start + count)]
    if dtype == "i8":
        return [any(cell) for cell in cells]
    return [any(cell[:-1]) or cell[-1] & 0x7F for cell in cells]  # minus zero is zero


def is_legal(laid):
    rules = {CSR: is_legal_csr, COO: is_legal_coo, NM: is_legal_nm}
    return has_legal_types(laid) and rules.get(laid.layout, lambda _laid: True)(laid)


def test_the_reference_knows_what_is_legal():
    plain = TensorParts(shape=(1, 4), layout=CSR, parts={
        "values": (("f32", None), [bytes(8)]),
        "indices": (("u32", None), [struct.pack("<2I", 1, 3)]),
        "indptr": (("u32", None), [struct.pack("<2I", 0, 2)]),
    })  # fmt: skip
    assert is_legal(plain)
    assert not is_legal(changed(plain, "indices", struct.pack("<2I", 3, 1)))
    assert not is_legal(changed(plain, "indices", struct.pack("<2I", 3, 4)))
    assert not is_legal(changed(plain, "indptr", struct.pack("<2I", 0, 1)))


# -------------------------------------------------------------------------------------- the tensors


def changed(laid, role, data):
    parts = {**laid.parts, role: (laid.parts[role][0], [data])}
    return TensorParts(
        shape=laid.shape, layout=laid.layout, parts=parts, attributes=laid.attributes
    )


def tidied(laid):
    """Set weights under clear bits of a mask to zero, so that many masks are legal."""
    if laid.layout != NM or laid.attributes["tensorbit"].get("dtype") == "int4":
        return laid
    facts, mask = laid.attributes["tensorbit"], data_of(laid, "mask")
    m, data = facts["m"], bytearray(data_of(laid, "weights"))
    count, width = int(np.prod(laid.shape)), -(-m // 8)
    size = len(data) // max(count, 1)
    for at in range(count):
        group, place = divmod(at, m)
        octet = group * width + place // 8
        if octet < len(mask) and not mask[octet] >> place % 8 & 1:
            data[at * size : (at + 1) * size] = bytes(size)
    return changed(laid, "weights", bytes(data))


@st.composite
def tensors(draw, layout):
    made = draw(SHAPES[layout])
    laid = made[0] if isinstance(made, tuple) else made
    laid = tidied(laid) if draw(st.booleans()) else laid
    if layout == "ninfer" or draw(st.booleans()):
        return laid
    role = draw(st.sampled_from(sorted(laid.parts)))
    data = bytearray(data_of(laid, role))
    if data:
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.integers(0, 255))
    return changed(laid, role, bytes(data))


# -------------------------------------------------------------------------------------- the writers


def by_writer(laid, _source, folder):
    with tensorark.Writer(folder / "out.zt") as writer:
        writer.add_laid("t", laid)
    return "out.zt"


def by_encoding_writer(laid, _source, folder):
    with tensorark.Writer(folder / "out.zt", encoding="zstd") as writer:
        writer.add_laid("t", laid)
    return "out.zt"


def by_appending_writer(laid, _source, folder):
    tensorark.numpy.save_file({"z": np.zeros(1)}, folder / "out.zt")
    with tensorark.Writer(folder / "out.zt", append=True) as writer:
        writer.add_laid("t", laid)
    return "out.zt"


def by_converting(**options):
    def write(_laid, source, folder):
        convert(source, folder / "out.zt", **options)
        return "out.zt"

    return write


def by_repacking(_laid, source, folder):
    repack(source, folder / "out.zt")
    return "out.zt"


def by_appending(_laid, source, folder):
    tensorark.numpy.save_file({"z": np.zeros(1)}, folder / "out.zt")
    append(folder / "out.zt", source)
    return "out.zt"


def by_splitting(_laid, source, folder):
    splitting.split(source, folder / "out.zt", max_size=1 << 20)
    return "out.zt"


def by_merging(_laid, source, folder):
    merge(source, folder / "out.zt", align=4096)
    return "out.zt"


def by_overlaying(_laid, source, folder):
    tensorark.numpy.save_file({"z": np.zeros(1)}, folder / "base.zt")
    overlay(folder / "base.zt", source, folder / "out.zt")
    return "out.zt"


def to_format(name):
    def write(_laid, source, folder):
        convert(source, folder / name)
        return name

    return write


WRITERS = {
    "Writer": by_writer,
    "Writer-zstd": by_encoding_writer,
    "Writer-append": by_appending_writer,
    "convert": by_converting(),
    "convert-align": by_converting(align=4096),
    "convert-zstd": by_converting(encoding="zstd"),
    "repack": by_repacking,
    "append": by_appending,
    "split": by_splitting,
    "merge-align": by_merging,
    "overlay": by_overlaying,
    "safetensors": to_format("out.safetensors"),
    "npz": to_format("out.npz"),
    "tbm": to_format("out.tbm"),
}
BEFORE = {"append": {"out.zt"}, "Writer-append": {"out.zt"}, "overlay": {"base.zt"}}


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return tmp_path_factory.mktemp("passing")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("layout", SHAPES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_passes_is_legal_and_equal_or_nothing_appears(parent, layout, writer, data):
    laid = data.draw(tensors(layout))
    encoding = data.draw(st.sampled_from([None, "zstd"]))
    folder = parent / f"{layout}-{writer}"
    for each in [*folder.glob("*")]:
        each.unlink()
    folder.mkdir(exist_ok=True)
    source = parent / f"{layout}-{writer}.zt"
    source.write_bytes(images.image({"t": laid}, encoding=encoding))
    legal = is_legal(laid)
    event("legal" if legal else "illegal")
    try:
        name = WRITERS[writer](laid, source, folder)
    except tensorark.Unsupported:
        assert writer in {"safetensors", "npz", "tbm"}  # they hold no such layout
        assert not [*folder.iterdir()]
        return
    except (tensorark.Rejected, tensorark.InvalidInput) as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert not legal, refused
        assert refused.where[:2] == ("objects", "t")
        assert refused.code.startswith(("zt.", "tb."))
        assert {each.name for each in folder.iterdir()} == BEFORE.get(writer, set())
        if "append" in writer:
            with tensorark.open(folder / "out.zt") as file:
                assert [*file] == ["z"]
        return
    assert legal or (laid.layout == NM and writer in {"safetensors", "npz"})  # made dense, masked
    with tensorark.open(folder / name) as file:
        assert verify(file).findings == ()
        assert tensorark.validate(folder / name) == []
        if file["t"].layout == laid.layout:
            for role in laid.parts:
                assert bytes(file["t"].decoded(role)) == data_of(laid, role)


# ------------------------------------------------------------------------------------- and by name

ODD = np.array([0, 1, 2], "u1")


@pytest.mark.parametrize("name", ["out.zt", "out.safetensors"])
def test_a_bool_that_is_neither_is_refused_by_every_saver(tmp_path, name):
    values = {"a": np.zeros(2), "mask": ODD.view(bool)}
    with pytest.raises(tensorark.InvalidInput, match="mask") as refused:
        tensorark.numpy.save_file(values, tmp_path / name)
    assert refused.value.code == "zt.bool-byte"
    with pytest.raises(tensorark.InvalidInput, match="mask"):
        values = {"mask": torch.from_numpy(ODD).view(torch.bool)}
        tensorark.torch.save_file(values, tmp_path / name)
    assert not [*tmp_path.iterdir()]


def streamed(path, dtype, shape, pieces):
    with tensorark.Writer(path) as writer, writer.stream("b", shape, dtype) as out:
        for piece in pieces:
            out.write(piece)


@pytest.mark.parametrize("pieces", [[b"\0\1\2"], [b"\0", b"\1", b"\2"]])
def test_a_stream_is_judged_as_it_passes(tmp_path, pieces):
    with pytest.raises(tensorark.InvalidInput, match="byte 2 of a bool"):
        streamed(tmp_path / "a.zt", "bool", (3,), pieces)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("pieces", [[b"\x21\xf3"], [b"\x21", b"\xf3"]])
def test_the_last_nibble_of_a_stream_is_judged(tmp_path, pieces):
    with pytest.raises(tensorark.InvalidInput) as refused:
        streamed(tmp_path / "a.zt", "f4_e2m1", (3,), pieces)
    assert refused.value.code == "zt.f4-padding"
    streamed(tmp_path / "a.zt", "f4_e2m1", (4,), pieces)


def test_after_a_tensor_was_refused_nothing_is_published(tmp_path):
    with (
        pytest.raises(tensorark.InvalidInput, match="not ended"),
        tensorark.Writer(tmp_path / "a.zt") as writer,
        pytest.raises(tensorark.InvalidInput, match="neither 0 nor 1"),
    ):
        writer.add("b", ODD.view(bool))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("layout", ["", "foo", "DENSE", "zt.mine/1", "pie.x", "pie.x/0", "pie/1"])
def test_a_new_layout_id_is_registered_or_somebodys_own(tmp_path, layout):
    parts = {"data": (("u8", None), [b"abc"])}
    writer = tensorark.Writer(tmp_path / "a.zt")
    with pytest.raises(tensorark.InvalidInput) as refused, writer:
        writer.add_parts("a", (3,), layout, parts)
    assert refused.value.code == "layout"
    with tensorark.Writer(tmp_path / "a.zt") as writer:
        writer.add_parts("a", (3,), "pie.paged_kv/1", parts)
        writer.add_parts("b", (32,), "gguf.q8_0/1", {"data": (("u8", None), [bytes(34)])},
                         attributes={"elems_per_block": 32, "block_bytes": 34})  # fmt: skip


@pytest.mark.parametrize("ids", [("u8", "f32"), ("u8", "mine"), ("u8", "zt.q"), ("f128", None)])
def test_a_new_type_is_registered_or_somebodys_own(tmp_path, ids):
    with pytest.raises(tensorark.InvalidInput), tensorark.Writer(tmp_path / "a.zt") as writer:
        writer.add_parts("a", (3,), "dense", {"data": (ids, [b"abc"])})
    with tensorark.Writer(tmp_path / "a.zt") as writer:
        writer.add_parts("a", (3,), "dense", {"data": (("u8", "pie.q3"), [b"abc"])})


def test_a_type_without_a_zero_is_never_sparse(tmp_path):
    parts = {
        "values": (("u8", "f8_e8m0"), [b"\x80"]),
        "indices": (("u32", None), [struct.pack("<I", 1)]),
        "indptr": (("u32", None), [struct.pack("<2I", 0, 1)]),
    }
    writer = tensorark.Writer(tmp_path / "a.zt")
    with pytest.raises(tensorark.InvalidInput, match="no zero"), writer:
        writer.add_parts("a", (1, 3), CSR, parts)


def test_parts_that_share_a_blob_are_judged_each(tmp_path):
    """One says what the bytes are not allowed to be, the other allows all."""
    from conformance.zt.build import image as build

    part = {"dtype": "u8", "blob": [4096, 3]}
    objects = {
        "a": {"shape": [3], "layout": "dense", "parts": {"data": part}},
        "b": {"shape": [3], "layout": "dense", "parts": {"data": part | {"type": "bool"}}},
    }
    source = tmp_path / "in.zt"
    source.write_bytes(build.image({"objects": objects}, {4096: b"\0\1\2"}))
    (tmp_path / "out").mkdir()
    for writer in ("convert", "split", "merge-align", "append"):
        with pytest.raises(tensorark.Rejected) as refused:
            WRITERS[writer](None, source, tmp_path / "out")
        assert refused.value.where[:2] == ("objects", "b"), writer


@pytest.mark.parametrize("writer", ["split", "merge-align", "append", "convert", "overlay"])
def test_a_damaged_frame_is_not_passed_on(tmp_path, writer):
    laid = TensorParts(shape=(6,), layout="dense", parts={"data": (("u8", None), [b"abcdef"])})
    damaged = bytearray(images.image({"t": laid}, encoding="zstd"))
    at = damaged.index(b"abcdef")
    damaged[at] ^= 1
    (tmp_path / "in.zt").write_bytes(damaged)
    (tmp_path / "out").mkdir()
    with pytest.raises(tensorark.Rejected) as refused:
        WRITERS[writer](None, tmp_path / "in.zt", tmp_path / "out")
    assert refused.value.code == "zt.zstd-checksum"
