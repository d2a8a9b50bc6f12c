"""One truth for every way to numbers: any layout and type, any slice, any access, any storage.

Each case is made beside a reference that uses nothing of the library: numpy where elements lie as
they are, plain Python where they do not.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorark
import tensorark.numpy
import tensorark.torch
from conformance.zt.build import image as build
from tensorark import sparse as sparse_of
from tensorark.integrity.verify import verify
from tensorark.layouts.parts import TensorParts
from tests.property import images
from tests.property.strategies import DTYPES, plain_arrays
from tests.unit.layouts import scalar
from tests.unit.layouts.test_grouped import schemes

IDS = {
    np.dtype(ml_dtypes.bfloat16): ("bf16", None),
    np.dtype(ml_dtypes.float8_e4m3fn): ("u8", "f8_e4m3fn"),
    np.dtype(ml_dtypes.float8_e5m2): ("u8", "f8_e5m2"),
    np.dtype(ml_dtypes.float8_e4m3fnuz): ("u8", "f8_e4m3fnuz"),
    np.dtype(ml_dtypes.float8_e5m2fnuz): ("u8", "f8_e5m2fnuz"),
    np.dtype(ml_dtypes.float8_e8m0fnu): ("u8", "f8_e8m0"),
    np.dtype(ml_dtypes.float4_e2m1fn): ("u8", "f4_e2m1"),
    np.dtype("?"): ("u8", "bool"),
    np.dtype("c8"): ("f32", "complex64"),
    np.dtype("c16"): ("f64", "complex128"),
} | {np.dtype(f"{kind}{size}"): (f"{kind}{8 * size}", None)
     for kind in "iu" for size in (1, 2, 4, 8)} | {
    np.dtype(f"f{size}"): (f"f{8 * size}", None) for size in (2, 4, 8)
}  # fmt: skip
WITH_ZERO = [each for each in DTYPES if each != np.dtype(ml_dtypes.float8_e8m0fnu)]


def stored(array):
    """The bytes of an array; two f4 elements share one, the first in its low half."""
    if array.dtype != np.dtype(ml_dtypes.float4_e2m1fn):
        return array.tobytes()
    codes = [int(each) for each in array.reshape(-1).view(np.uint8)] + [0]
    return bytes(a | b << 4 for a, b in zip(codes[0::2], codes[1::2], strict=False))


def laid(shape, layout, parts, attributes=None):
    return TensorParts(shape=shape, layout=layout, attributes=attributes, parts={
        role: (ids, [data]) for role, (ids, data) in parts.items()
    })  # fmt: skip


@st.composite
def dense(draw):
    array = draw(plain_arrays())
    return laid(array.shape, "dense", {"data": (IDS[array.dtype], stored(array))}), array


@st.composite
def sparse(draw):
    dtype = draw(st.sampled_from(WITH_ZERO))
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    array = draw(plain_arrays([dtype]).filter(lambda each: each.size > 0)).reshape(-1)
    keep = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    cells = np.flatnonzero(keep)
    values = np.resize(array, cells.size)
    full = np.zeros(rows * columns, dtype)
    full[cells] = values
    word = draw(st.sampled_from(["u32", "u64"]))
    width = "<u4" if word == "u32" else "<u8"
    parts = {"values": (IDS[dtype], stored(values))}
    if draw(st.booleans()):
        starts = np.searchsorted(cells, np.arange(rows + 1) * columns)
        parts["indices"] = ((word, None), (cells % columns).astype(width).tobytes())
        parts["indptr"] = ((word, None), starts.astype(width).tobytes())
        return laid((rows, columns), "zt.sparse_csr/1", parts), full.reshape(rows, columns)
    order = np.array(draw(st.permutations(range(cells.size))), np.intp)
    parts["values"] = (IDS[dtype], stored(values[order]))
    coords = np.concatenate([cells[order] // columns, cells[order] % columns])
    parts["coords"] = ((word, None), coords.astype(width).tobytes())
    return laid((rows, columns), "zt.sparse_coo/1", parts), full.reshape(rows, columns)


PATTERNS = [(2, 4), (1, 3), (1, 4), (4, 8), (3, 5), (8, 16), (5, 12)]


@st.composite
def masked(draw):
    """N:M with a mask for every group, none for the short last one, or one byte a group."""
    n, m = draw(st.sampled_from(PATTERNS))
    count = draw(st.integers(1, 4 * m))
    rest = count % m
    ways = ["groups"] + ["floor"] * bool(rest and count > m) + ["truncated"] * (m > 8 and not rest)
    packing = draw(st.sampled_from(ways))
    size = 1 if packing == "truncated" else -(-m // 8)
    groups = count // m + (packing != "floor" and rest > 0)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    mask = bytearray(groups * size)
    kept = []
    for i in range(count):
        group, place = divmod(i, m)
        if group >= groups:
            kept.append(True)  # no bit stands for it
        elif place // 8 >= size:
            kept.append(False)
        else:
            chosen = rng.permutation(m)[:n] if place == 0 else chosen  # noqa: F821 - the group's
            kept.append(place in chosen)
            mask[group * size + place // 8] |= kept[-1] << place % 8
    kind = draw(st.sampled_from(["f32", "f16", "bf16", "f64", "int8", "int4"]))
    facts, parts = {"n": n, "m": m}, {"mask": (("u8", None), bytes(mask))}
    if kind.startswith("int"):
        bits = int(kind[3:])
        codes = rng.integers(-(1 << bits - 1), 1 << bits - 1, count)
        facts["dtype"] = kind
        octets = (codes & (1 << bits) - 1).astype(np.uint8)
        if bits == 4:
            even = np.append(octets, np.zeros(count % 2, np.uint8))
            octets = even[0::2] | even[1::2] << 4
        parts["weights"] = (("i8" if bits == 8 else "u8", None), octets.tobytes())
        reference = codes.astype(np.int8)
        if draw(st.booleans()):
            facts["group_size"] = step = draw(st.integers(1, count))
            scales = rng.standard_normal(-(-count // step)).astype("<f4")
            parts["scales"] = (("f32", None), scales.tobytes())
            reference = codes.astype(np.float32) * scales[np.arange(count) // step]
    else:
        element = {"bf16": ml_dtypes.bfloat16, "f16": "f2", "f32": "f4", "f64": "f8"}[kind]
        reference = rng.standard_normal(count).astype(element)
        parts["weights"] = ((kind, None), reference.tobytes())
    reference = np.where(kept, reference, np.zeros((), reference.dtype)).astype(reference.dtype)
    shape = (count,) if draw(st.booleans()) else (1, count)
    return laid(shape, "tensorbit.nm/1", parts, {"tensorbit": facts}), reference.reshape(shape)


MAGNITUDES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


@st.composite
def microscaled(draw):
    block = draw(st.integers(2, 5))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)) * block)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scales = rng.integers(100, 150, (shape[0], shape[1] // block), dtype=np.uint8)
    if draw(st.booleans()):
        codes = rng.integers(0, 16, shape, dtype=np.uint8)
        data = (("u8", "f4_e2m1"), stored(codes.view(ml_dtypes.float4_e2m1fn)))
        known = [*MAGNITUDES, *(-each for each in MAGNITUDES)]
        elements = [Fraction(known[code]) for code in codes.reshape(-1).tolist()]
    else:
        codes = rng.integers(-128, 128, shape).astype(np.int8)
        data = (("i8", None), codes.tobytes())
        elements = [Fraction(code, 64) for code in codes.reshape(-1).tolist()]
    powers = np.repeat(scales, block, 1).reshape(-1).tolist()
    values = [float(e * Fraction(2) ** (p - 127)) for e, p in zip(elements, powers, strict=True)]
    reference = np.array(values, np.float32).reshape(shape)
    parts = {"data": data, "scales": (("u8", "f8_e8m0"), scales.tobytes())}
    attributes = {"axis": 1, "block_size": block, "scale_form": "e8m0_exponent"}
    negative = np.array([code >> 3 if data[0][1] else 0 for code in codes.reshape(-1).tolist()])
    signs = np.where(negative.reshape(shape) > 0, np.float32(-1), np.float32(1))
    reference = np.where(reference == 0, np.copysign(np.float32(0), signs), reference)
    return laid(shape, "zt.mx/1", parts, attributes), reference


@st.composite
def of_ninfer(draw):
    """A matrix of grouped codes, each value the product of code and scale, rounded once."""
    name = draw(st.sampled_from(["q4", "q5", "q6", "q8"]))
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3)) * 64
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    exact = [
        [Fraction(int(each), 64) for each in rng.integers(-400, 400, columns)] for _ in range(rows)
    ]
    group, padded = scalar.GROUP[name], -(-columns // 128) * 128
    values = []
    for row in exact:
        full = row + [Fraction(0)] * (padded - columns)
        line = []
        for start in range(0, padded, group):
            scale, codes = scalar.quantized_group(name, full[start : start + group])
            factor = Fraction(float(np.uint16(scale).view(np.float16)))
            line += [float(scalar.rounded(code * factor, scalar.F32)) for code in codes]
        values.append(line[:columns])
    data = scalar.grouped_object(name, exact)
    ids = ("u8", f"ninfer.{name}_g{group}_fp16")
    made = laid((rows, columns), "ninfer.row_split_k128_v1", {"data": (ids, data)})
    return made, np.array(values, np.float32)


LAYOUTS = {
    "dense": dense(),
    "sparse": sparse(),
    "n-m": masked(),
    "quant-group": schemes(),
    "mx": microscaled(),
    "ninfer": of_ninfer(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("values")


def same(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=60)
@given(data=st.data())
def test_every_access_and_every_slice_give_the_same_values(folder, layout, data):
    made, reference = data.draw(LAYOUTS[layout])
    index = data.draw(hnp.basic_indices(reference.shape, allow_newaxis=True, allow_ellipsis=True))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, reference.size)] * 2)))
    encoding = data.draw(st.sampled_from([None, "zstd"]))
    path = folder / f"{layout}.zt"
    path.write_bytes(images.image({"t": made}, encoding=encoding))  # masks need not fit weights
    for io in ("mmap", "pread"):
        with tensorark.open(path, io=io) as file:
            view = file["t"]
            if layout == "quant-group":  # whose reference are fractions: they know one zero
                assert np.array_equal(view.numpy(), reference)
                reference = view.numpy()
            same(view.numpy(), reference)
            same(view[index], reference[index])
            same(view.elements(start, stop), reference.reshape(-1)[start:stop])
            same(np.asarray(view), reference)
            assert view.tobytes() == reference.tobytes()
    same(tensorark.numpy.load_file(path)["t"], reference)
    with tensorark.numpy.safe_open(path) as opened:
        same(opened.get_tensor("t"), reference)
        same(opened.get_slice("t")[index], reference[index])


def bits_of(tensor):
    """The bytes of a torch tensor, whatever its type."""
    if not tensor.numel():
        return b""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@given(case=dense())
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_torch_has_the_values_that_numpy_has(folder, io, case):
    made, reference = case
    path = folder / "torch.zt"
    with tensorark.Writer(path) as writer:
        writer.add_laid("t", made)
    with tensorark.open(path, io=io) as file:
        try:
            found = [file["t"].torch(), tensorark.torch.load_file(path)["t"]]
        except tensorark.Unsupported as error:
            assert error.code == "torch-shape"  # noqa: PT017 - f4 that do not pair up
            assert reference.dtype == np.dtype(ml_dtypes.float4_e2m1fn)
            return
        if file["t"].dtype not in {"f8_e8m0", "f4_e2m1"}:  # torch exports neither
            exported = torch.from_dlpack(file["t"])
            assert exported.dtype == found[0].dtype
            found.append(exported)
    for each in found:
        assert bits_of(each) == stored(reference)


def test_a_scalar_is_not_iterated(folder):
    path = folder / "scalar.zt"
    tensorark.numpy.save_file({"s": np.float32(1), "v": np.arange(3)}, path)
    with tensorark.open(path) as file:
        with pytest.raises(TypeError):
            list(file["s"])
        assert list(file["v"]) == [0, 1, 2]


# --------------------------------------------------------------------- what the gate keeps out


WAYS = {
    "numpy": lambda view: view.numpy(),
    "index": lambda view: view[:1],
    "elements": lambda view: view.elements(0, 1),
    "array": np.asarray,
    "torch": lambda view: view.torch(),
    "dlpack": np.from_dlpack,
    "tobytes": lambda view: view.tobytes(),
}


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("way", WAYS)
def test_the_odd_nibble_of_f4_is_judged_by_every_way(folder, way, io):
    path = folder / "nibble.zt"
    image(path, b"\x21\xf3", "f4_e2m1", (3,))
    with tensorark.open(path, io=io) as file, pytest.raises(tensorark.Rejected) as refused:
        WAYS[way](file["t"])
    assert refused.value.code == "zt.f4-padding"


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type_", ["f32", "u8", "bf16", "no.such"])
def test_an_unregistered_type_is_refused_by_every_way(folder, way, io, type_):
    path = folder / "type.zt"
    image(path, bytes(4), type_, (4,))
    with tensorark.open(path, io=io) as file, pytest.raises(tensorark.Unsupported) as refused:
        WAYS[way](file["t"])
    assert refused.value.code == "unknown-type"


@pytest.mark.parametrize("dtype", IDS, ids=str)
@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_sparse_layouts_want_a_type_with_a_zero(tmp_path, layout, dtype):
    """Asked of every type: a byte of zeros is 2 to the -127 as f8_e8m0, and 0 as all others."""
    values = np.ones(1, dtype)
    one, row = np.array([1], "<u4"), np.array([0, 1], "<u4")
    index = {"indices": one, "indptr": row} if layout == "csr" else {"coords": row}
    made = {"values": (IDS[dtype], stored(values))}
    made |= {role: (("u32", None), each.tobytes()) for role, each in index.items()}
    sparse_image(tmp_path / "t.zt", f"zt.sparse_{layout}/1", made)

    def make():
        if layout == "csr":
            return sparse_of.csr(values, one, row, (1, 3))
        return sparse_of.coo(values, [row[:1], one], (1, 3))

    with tensorark.open(tmp_path / "t.zt") as file:
        if dtype != np.dtype(ml_dtypes.float8_e8m0fnu):
            assert file["t"].numpy().astype(np.complex128).tolist() == [[0, 1, 0]]
            assert verify(file).ok
            assert make().shape == (1, 3)
            return
        for way in (*WAYS.values(), lambda view: view[0, 1], lambda view: view.elements(1, 2)):
            with pytest.raises(tensorark.Unsupported) as refused:
                way(file["t"])
            assert refused.value.code == "no-zero"
        assert [each.code for each in verify(file).refused] == ["no-zero"]
    with pytest.raises(tensorark.InvalidInput) as caught:
        make()
    assert (caught.value.code, caught.value.hint) == ("no-zero", None)


def sparse_image(path, layout, made):
    """Write a `.zt` of one sparse 1×3 tensor, as no writer of ours would."""
    parts, payloads = {}, {}
    for at, (role, ((dtype, type_), data)) in enumerate(made.items(), 1):
        parts[role] = {"dtype": dtype, "blob": [4096 * at, len(data)]}
        parts[role] |= {"type": type_} if type_ else {}
        payloads[4096 * at] = data
    tensor = {"shape": [1, 3], "layout": layout, "parts": parts}
    path.write_bytes(build.image({"objects": {"t": tensor}}, payloads))


@pytest.mark.parametrize("load", [tensorark.numpy.load_file, tensorark.torch.load_file])
def test_loading_passes_the_same_gate(folder, load):
    path = folder / "load.zt"
    image(path, bytes(4), "f32", (4,))
    with pytest.raises(tensorark.Unsupported):
        load(path)
    image(path, b"\x21\xf3", "f4_e2m1", (3,))
    with pytest.raises(tensorark.Error):
        load(path)


def image(path, data, type_, shape):
    """Write a `.zt` of one part, as no writer of ours would."""
    part = {"dtype": "u8", "type": type_, "blob": [4096, len(data)]}
    tensor = {"shape": list(shape), "layout": "dense", "parts": {"data": part}}
    path.write_bytes(build.image({"objects": {"t": tensor}}, {4096: data}))


class Wrapped:
    """What numpy asks for its array, and gets one with a mask."""

    def __repr__(self):
        return "wrapped"

    def __array__(self, dtype=None, copy=None):
        return MASKED


MASKED = np.ma.masked_array([1.0, 2.0], [False, True])


@pytest.mark.parametrize(
    "value",
    [
        MASKED,
        [MASKED],
        ([MASKED[0], np.ma.masked],),
        Wrapped(),
        np.array(["a"]),
        3,
        2.5,
        True,
        "text",
        None,
        {"a": 1},
        {1, 2},
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["m.zt", "m.safetensors"])
def test_what_is_no_array_is_refused_by_name(tmp_path, value, name):
    with pytest.raises(tensorark.InvalidInput, match=r"layer\.7"):
        tensorark.numpy.save_file({"layer.7": value}, tmp_path / name)
    with pytest.raises(tensorark.InvalidInput), tensorark.Writer(tmp_path / "w.zt") as writer:
        writer.add("layer.7", value)
    assert not list(tmp_path.iterdir())
