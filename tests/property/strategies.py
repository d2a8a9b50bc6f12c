"""What properties are tried on: arrays of every type and memory layout, names, attributes."""

from __future__ import annotations

import math
import unicodedata

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

NATIVE = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8", "c16"]
EXTENDED = [
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
]
DTYPES = [np.dtype(each) for each in [*NATIVE, *EXTENDED]]

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def plain_arrays(draw, dtypes=DTYPES):
    """A row-major array of any bytes that its type allows."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(shapes)
    count = math.prod(shape)
    if dtype == np.dtype("?") or dtype == np.dtype(ml_dtypes.float4_e2m1fn):
        top = 1 if dtype == np.dtype("?") else 15
        values = draw(st.lists(st.integers(0, top), min_size=count, max_size=count))
        return np.array(values, np.uint8).view(dtype).reshape(shape)
    data = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    return np.frombuffer(data, dtype).reshape(shape)


@st.composite
def arrays(draw):
    """An array in any memory layout: strided, reversed, transposed, broadcast, big-endian, 0-d."""
    array = draw(plain_arrays())
    how = draw(
        st.sampled_from(["plain", "fortran", "step", "reverse", "transpose", "broadcast", "big"])
    )
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "step" and array.ndim:
        return array[..., ::2]
    if how == "reverse" and array.ndim:
        return array[::-1]
    if how == "transpose":
        return array.T
    if how == "broadcast":
        return np.broadcast_to(array, (draw(st.integers(0, 3)), *array.shape))
    if how == "big" and array.dtype.isbuiltin == 1 and array.dtype.itemsize > 1:
        return array.astype(array.dtype.newbyteorder(">"))
    return array


# Canonical files hold names in Normalization Form C only; that others are refused is tested apart.
letters = st.characters(codec="utf-8", exclude_characters="\0")
names = (
    st.text(letters, min_size=1, max_size=20)
    .map(lambda name: unicodedata.normalize("NFC", name))
    .filter(lambda name: name != "__metadata__")
)
keys = st.text(letters, max_size=5).map(lambda key: unicodedata.normalize("NFC", key))

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64 - 1),
    st.floats(allow_nan=True),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.binary(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=8,
)
attributes = st.one_of(st.none(), st.dictionaries(names, values, max_size=4))
