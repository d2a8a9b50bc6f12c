"""Tensorbit under change: any mutation is accepted or refused by us; what is written is read."""

from __future__ import annotations

import contextlib
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tensorbit.build.corpus import CORPUS
from conformance.tensorbit.build.image import container, dense, entry, index, sparse
from tensorark import files
from tensorark.conversion.pipeline import convert
from tensorark.edit.tensorbit_repair import mend
from tensorark.errors import Error
from tensorark.files.identify import identify
from tensorark.formats.tensorbit.read import sniff_blob, sniff_container, sniff_directory
from tensorark.integrity.verify import verify
from tensorark.numpy import save_file
from tensorark.report.sparsity import counts
from tensorark.report.tensorbit import explain

SMALL = [
    each["path"]
    for each in json.loads((CORPUS.home / "index.json").read_bytes())["files"]
    if not each["path"].endswith(".zt") and not each["parts"] and "six-hundred" not in each["path"]
]
edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
)


class Image:
    """Bytes that are not shown when a test fails."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = (CORPUS.home / path).read_bytes()


def everything(path):
    """Do all that can be done with a file."""
    for lenient in (False, True):
        with contextlib.suppress(Error), files.open(path, io="pread", lenient=lenient) as file:
            for name in file:
                with contextlib.suppress(Error):
                    file[name].numpy()
            verify(file, threads=1)
            list(counts(file))
    with contextlib.suppress(Error):
        assert explain(path).words is not None
    with contextlib.suppress(Error):
        mend(path, path.with_name("mended.tbm"), overwrite=True)
        files.open(path.with_name("mended.tbm")).close()


@given(
    path=st.sampled_from(SMALL).map(Image),
    edits=edits,
    where=st.sampled_from(["header", "tail", "anywhere"]),
    cut=st.integers(0, 40),
)
def test_a_mutated_file_is_accepted_or_refused_by_our_errors(
    path, edits, where, cut, tmp_path_factory
):
    data = bytearray(path.data)
    first, count = {
        "header": (0, min(49, len(data))),
        "tail": (max(0, len(data) - 700), min(700, len(data))),
        "anywhere": (0, len(data)),
    }[where]
    for place, value in edits:
        if data:
            data[first + int(place * count)] = value
    suffix = path.path[path.path.rindex(".") :]
    folder = tmp_path_factory.getbasetemp() / "mutated-tb"
    folder.mkdir(exist_ok=True)
    target = folder / f"m{suffix}"
    target.write_bytes(bytes(data[: len(data) - (cut - 30 if cut > 30 else 0)]))
    everything(target)


numbers = st.one_of(
    st.integers(-(1 << 65), 1 << 65),
    st.sampled_from([0, 1, 4095, 4096, 4232, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64]),
)
nonsense = st.one_of(
    numbers, st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(),
    st.lists(numbers, max_size=3), st.dictionaries(st.text(max_size=3), numbers, max_size=2),
)  # fmt: skip
members = st.dictionaries(
    st.sampled_from([
        "name", "offset", "shape", "nm_n", "nm_m", "dtype", "num_weights", "num_mask_bytes",
        "scale_count", "group_size", "full_shape", "file", "x",
    ]),
    nonsense,
    max_size=3,
)  # fmt: skip


@given(
    first=members, second=members, top=st.dictionaries(st.text(max_size=12), nonsense, max_size=2)
)
def test_an_index_of_nonsense_is_accepted_or_refused_by_our_errors(
    first, second, top, tmp_path_factory
):
    try:
        entries = [entry(**first), entry(**{"name": "b", "offset": 4232, **second})]
        image = container([sparse().data, sparse().data], {**index(entries), **top})
    except UnicodeEncodeError:  # a lone surrogate has no bytes
        return
    target = tmp_path_factory.getbasetemp() / "nonsense.tbm"
    target.write_bytes(image)
    everything(target)


fields = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, (1 << 32) - 1),
        "m": st.integers(0, (1 << 32) - 1),
        "count": st.integers(0, (1 << 64) - 1),
        "mask_bytes": st.integers(0, (1 << 64) - 1),
        "weights_offset": st.integers(0, (1 << 64) - 1),
        "masks_offset": st.integers(0, (1 << 64) - 1),
        "precision": st.integers(0, 255),
        "version": st.integers(0, 3),
    },
)


@given(changes=fields)
def test_a_header_of_nonsense_costs_no_memory_and_is_refused_by_our_errors(
    changes, tmp_path_factory
):
    target = tmp_path_factory.getbasetemp() / "header.tb"
    target.write_bytes(sparse(**changes).data)
    everything(target)


@given(head=st.binary(max_size=64), tail=st.binary(max_size=64), size=st.integers(0, 1 << 40))
def test_recognition_is_total(head, tail, size):
    for sniff in (sniff_blob, sniff_container, sniff_directory):
        assert sniff(head, tail, size) in {True, False}
        assert sniff(b"TB01" + head[4:], tail, size) in {True, False}
    with contextlib.suppress(Error):
        identify(head, tail, size, "x.tbm")


ELEMENTS = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8}


@given(
    shapes=st.lists(
        st.tuples(
            st.lists(st.integers(0, 5), max_size=4),
            st.sampled_from(list(ELEMENTS)),
            st.text(min_size=1, max_size=6)
            .filter(lambda text: text.isprintable())
            .map(lambda text: unicodedata.normalize("NFC", text)),
        ),
        max_size=5,
        unique_by=lambda each: each[2],
    ),
    align=st.sampled_from([None, 64, 4096]),
)
def test_what_is_written_is_read_back_and_is_the_same_every_time(shapes, align, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    arrays = {
        name: np.arange(int(np.prod(shape)), dtype=ELEMENTS[kind]).reshape(shape)
        for shape, kind, name in shapes
    }
    save_file(arrays, folder / "in.zt")
    convert(folder / "in.zt", folder / "a.tbm", align=align)
    convert(folder / "a.tbm", folder / "b.tbm", align=align)
    assert (folder / "a.tbm").read_bytes() == (folder / "b.tbm").read_bytes()
    with files.open(folder / "a.tbm") as file:
        assert set(file) == set(arrays)
        for name, values in arrays.items():
            found = file[name].numpy()
            assert (found.shape, found.dtype) == (values.shape, values.dtype)
            assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize("path", SMALL)
def test_the_answer_does_not_depend_on_how_bytes_are_read(path):
    answers = []
    for io in ("mmap", "pread"):
        try:
            with files.open(CORPUS.home / path, io=io) as file:
                answers.append({name: file[name].numpy().tobytes() for name in file})
        except Error as error:
            answers.append((error.code, error.offset, error.where))
    assert answers[0] == answers[1]


def test_the_largest_header_that_lies_is_refused_before_anything_is_allocated(tmp_path):
    """A mask of 2^61 bytes for 2^63 weights fits its rule, and no file."""
    blob = dense(weights=b"", count=1 << 63, n=2, m=4, mask_bytes=1 << 61)
    (tmp_path / "x.tb").write_bytes(blob.data)
    with pytest.raises(Error) as caught:
        files.open(tmp_path / "x.tb")
    assert caught.value.code == "tb.weights-bounds"
