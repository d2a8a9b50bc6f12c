"""Whatever happens to an artifact, the answer is an artifact or one of our errors."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.ninfer.build.corpus import CORPUS
from tensorark import files
from tensorark.errors import Error
from tensorark.formats.ninfer.plan import encode_json
from tensorark.integrity.verify import verify
from tensorark.ninfer.resplit import resplit
from tensorark.wire.json import parse
from tests.unit.formats.ninfer.sets import DIRECTORY, PAYLOAD, dumps, entry, payload_of, write_set

TEXT = dumps(DIRECTORY | {"files": [{"path": None, "payload_bytes": len(PAYLOAD)}]})
IMAGE = entry(TEXT, PAYLOAD)


def use_up(path):
    """Do with a file what can be done with one; only our errors may come of it."""
    with suppress(Error), files.open(path, io="pread") as file:
        for name in file:
            with suppress(Error):
                file[name].numpy()
        for name in file.parameters:
            with suppress(Error):
                file.parameters[name].numpy()
        verify(file, threads=1)
    with suppress(Error):
        files.validate(path)


@given(st.lists(st.tuples(st.integers(0, len(TEXT) + 40), st.integers(0, 255)), max_size=4))
def test_mutated_bytes(tmp_path, changes):
    image = bytearray(IMAGE)
    for at, byte in changes:
        image[at] = byte
    path = tmp_path / "mutant.ninfer"
    path.write_bytes(image)
    use_up(path)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 1 << 65),
    st.sampled_from([0.5, -0.0, "", "w.q4", "r.tok", "text", "\0", [], {}, [0, 1], [0, 1 << 64]]),
    st.text(max_size=3),
)


def places(value, where=()):
    """Yield the path of everything in a JSON value."""
    yield where
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in children:
            yield from places(each, (*where, key))


PLACES = [where for where in places(json.loads(TEXT)) if where]


@given(st.lists(st.tuples(st.sampled_from(PLACES), LEAVES, st.booleans()), min_size=1, max_size=3))
def test_mutated_directories(tmp_path, changes):
    """Values are exchanged, members removed; the entry keeps its length as the text says."""
    root = json.loads(TEXT)
    for (*steps, last), value, removed in changes:
        inner = root
        try:
            for step in steps:
                inner = inner[step]
            if removed:
                del inner[last]
            else:
                inner[last] = value
        except (LookupError, TypeError):
            continue
    path = tmp_path / "mutant.ninfer"
    path.write_bytes(entry(dumps(root), PAYLOAD))
    use_up(path)


LONG = PAYLOAD.ljust(30_000, b"\1")
CUT_POINTS = st.lists(st.integers(1, len(LONG) - 1), unique=True, max_size=6).map(sorted)


@settings(max_examples=40)
@given(CUT_POINTS, st.integers(8192, 20_000))
def test_splitting_anew_never_changes_payload(tmp_path_factory, cuts, limit):
    folder = tmp_path_factory.mktemp("set")
    source = write_set(folder, DIRECTORY, LONG, cuts)
    made = resplit(source, folder / "out.ninfer", max_file_bytes=limit)
    with files.open(made[0]) as again, files.open(source) as first:
        for name in first:
            assert bytes(first[name].raw()) == bytes(again[name].raw())
        assert payload_of(again) == LONG
        left, right = dict(first.catalog.native.root), dict(again.catalog.native.root)
        del left["files"], right["files"]
        assert left == right


NUMBERS = st.from_regex(
    r"\A-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,6})?(?:[eE][+-]?[0-9]{1,2})?\Z"
).map(str)


@given(st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=3).map(
    lambda items: "[" + ",".join(items) + "]"), max_leaves=8))  # fmt: skip
def test_numbers_are_written_as_they_were_spelt(text):
    assert encode_json(parse(text.encode(), float_text=True)) == text


@pytest.mark.parametrize("path", sorted((CORPUS.home / "accept").glob("*.ninfer")))
def test_every_prefix_of_a_file_is_answered(path, tmp_path):
    image = path.read_bytes()
    for length in [*range(40), *range(40, len(image), 977), len(image) - 1]:
        cut = tmp_path / "cut.ninfer"
        cut.write_bytes(image[:length])
        with pytest.raises(Error):
            files.open(cut, io="pread").close()
