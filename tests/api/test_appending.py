"""Another generation leaves the old bytes alone, whatever goes wrong, and says when it is whole."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import ztensor
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from conformance.zt.build.cbor import encode
from conformance.zt.build.image import image
from tensorark.edit.append import append
from tensorark.edit.repack import repack
from tensorark.report.diagnosis import diagnose
from tests.test_public_vectors import MADE

MIB = 1 << 20


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": np.arange(6, dtype="f4"), "b": np.ones(5, "u1")}, path, {"v": 1})
    return path


def arrays_of(path):
    with tensorark.open(path) as file:
        return {name: file[name].numpy().tolist() for name in file}


def test_old_bytes_stay_a_prefix_and_new_tensors_come_behind(model):
    old = model.read_bytes()
    done = append(model, {"c": np.arange(3, dtype="i2")})
    new = model.read_bytes()
    assert new.startswith(old)
    assert (done.before, done.after) == (len(old), len(new))
    assert (done.tensors, done.superseded) == (("c",), ())
    assert arrays_of(model) == {"a": [0, 1, 2, 3, 4, 5], "b": [1] * 5, "c": [0, 1, 2]}
    with tensorark.open(model) as file:
        assert file.attributes == {"v": 1}
        assert tensorark.verify(file).complete
        assert file["c"].parts["data"].blob.spans[0].offset % 65536 == 0
    assert model.with_name("m.zt").stat().st_size < len(old) + 3 * 65536


def test_a_name_that_is_there_is_refused_or_superseded(model):
    old = model.read_bytes()
    for changes in ({"c": np.zeros(1), "b": np.zeros(2, "u1")},):
        with pytest.raises(tensorark.InvalidInput) as caught:
            append(model, changes)
        assert caught.value.code == "name"
        assert caught.value.where == ("objects", "b")
    assert model.read_bytes() == old
    done = append(model, {"b": np.zeros(2, "u1")}, replace=True, attributes={"v": 2})
    assert done.superseded == ("b",)
    assert model.read_bytes().startswith(old)
    assert arrays_of(model)["b"] == [0, 0]
    with tensorark.open(model) as file:
        assert file.attributes == {"v": 2}


def test_tensors_of_another_model_are_appended_as_they_are_stored(model, tmp_path):
    with tensorark.Writer(tmp_path / "more.zt", encoding="zstd") as writer:
        writer.add("c", np.zeros(99_999, "u1"), attributes={"k": [1, None]})
        writer.add("d", np.zeros(99_999, "u1"))
    with tensorark.open(tmp_path / "more.zt") as file:
        stored = bytes(file["c"].raw())
    append(model, tmp_path / "more.zt")
    with tensorark.open(model) as file:
        assert bytes(file["c"].raw()) == stored
        assert file["c"].parts["data"].blob == file["d"].parts["data"].blob
        assert file["c"].attributes == {"k": [1, None]}
        assert tensorark.verify(file).complete
    with pytest.raises(tensorark.InvalidInput, match="2 of these tensors"):
        append(model, tmp_path / "more.zt")
    with pytest.raises(tensorark.InvalidInput) as caught:
        append(model, model, replace=True)
    assert caught.value.code == "same-file"


def test_a_stream_can_be_appended(model):
    with (
        tensorark.Writer(model, append=True) as writer,
        writer.stream("s", (4,), "u16") as part,
    ):
        part.write(bytes(3))
        part.write(bytes(5))
    assert arrays_of(model)["s"] == [0, 0, 0, 0]


@pytest.mark.parametrize("align", [4096, 16_384, 65_536])
def test_an_appended_file_is_that_of_the_public_writer_byte_for_byte(tmp_path, align):
    base, more = np.arange(16, dtype="f4"), np.arange(4, dtype="i2")
    with tensorark.Writer(tmp_path / "o.zt", align=align) as writer:
        writer.add("base", base)
    with tensorark.Writer(tmp_path / "o.zt", append=True) as writer:
        writer.add("added.2", more)
    with tensorark.Writer(tmp_path / "o.zt", append=True, attributes={"gen": 2}) as writer:
        writer.add("added.3", np.frombuffer(b"abc", "u1"))
        writer.add("a", np.frombuffer(b"abc", "i1"))

    theirs = str(tmp_path / "t.zt")
    with ztensor.Writer(theirs, canonical=False, align=align) as writer:
        writer.add("base", base.tobytes(), [16], "f32")
    with ztensor.Writer(theirs, canonical=False, append=True) as writer:
        writer.add("added.2", more.tobytes(), [4], "i16")
    with ztensor.Writer(theirs, canonical=False, append=True) as writer:
        writer.set_attributes({"gen": 2})
        writer.add("added.3", b"abc", [3], "u8")
        writer.add("a", b"abc", [3], "i8")
    assert (tmp_path / "o.zt").read_bytes() == Path(theirs).read_bytes()
    if align == 4096 and (MADE / "append-gen3.zt").exists():
        assert Path(theirs).read_bytes()[:8192] == (MADE / "append-gen3.zt").read_bytes()[:8192]


def test_fields_that_are_not_known_survive_an_append(tmp_path):
    """Unknown members of every map, also under keys that are no text, stay where they are."""
    known = {
        "shape": [4],
        "layout": "dense",
        "parts": {"data": {"dtype": "u8", "blob": [4096, 4], "x.part": {"deep": [1, None]}}},
        "x.object": 1.5,
    }
    root = {"objects": {"t": known}, "x.root": b"kept", 7: "seven"}
    path = tmp_path / "m.zt"
    path.write_bytes(image(encode(root), {4096: b"data"}))
    append(path, {"u": np.zeros(1, "u1")}, attributes={"new": True})
    with tensorark.open(path) as file:
        text = file.catalog.native.text
        added = file.catalog.tensors["u"].parts["data"]
    expected = {
        **root,
        "attributes": {"new": True},
        "objects": {
            "t": known,
            "u": {
                "shape": [1],
                "layout": "dense",
                "parts": {
                    "data": {
                        "dtype": "u8",
                        "blob": [added.blob.spans[0].offset, 1],
                        "digest": "xxh3:c44bdff4074eecdb",  # of one zero byte, as published
                    }
                },
            },
        },
    }
    assert text == encode(expected)


def fed(path, name, attributes):
    with tensorark.Writer(path, append=True) as writer:
        writer.add("big", np.zeros(3 * MIB, "u1"))
        writer.add(name, np.zeros(3), attributes=attributes)


def test_what_a_reader_would_reject_is_refused_and_taken_back(model):
    old = model.read_bytes()
    for name, attributes in (
        ("", None),
        ("c", {"": 1}),
        ("c" * 1025, None),
        ("c", {"k": object()}),
    ):
        with pytest.raises(tensorark.InvalidInput):
            fed(model, name, attributes)
        assert model.read_bytes() == old


def stopped(path, size, error):
    """Append until the file is longer than `size`, then raise `error`."""

    def chunks():
        yield bytes(12 * MIB)
        deadline = time.monotonic() + 60
        while path.stat().st_size == size:  # a thread writes what is full, when it can
            assert time.monotonic() < deadline
            time.sleep(0.001)
        raise error

    with tensorark.Writer(path, append=True) as writer:
        writer.add_parts("big", (13 * MIB,), "dense", {"data": (("u8", None), chunks())})


def test_a_failure_cuts_the_file_back(model, monkeypatch):
    old = model.read_bytes()
    with pytest.raises(RuntimeError, match="stop"):
        stopped(model, len(old), RuntimeError("stop"))
    assert model.read_bytes() == old

    real = os.pwrite

    def full(descriptor, data, offset):
        if offset > 2 * MIB:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(tensorark.ReadFailed) as caught:
        append(model, {"big": np.ones(12 * MIB, "u1")})
    assert caught.value.code == "no-space"
    assert model.read_bytes() == old


def test_a_file_that_cannot_be_cut_back_is_refused_and_the_length_is_told(model, monkeypatch):
    old = model.read_bytes()
    real = os.ftruncate

    def stuck(descriptor, size):
        if size == len(old):
            raise OSError(errno.EIO, "input/output error")
        real(descriptor, size)

    monkeypatch.setattr(os, "ftruncate", stuck)
    with pytest.raises(tensorark.InvalidInput) as caught:
        stopped(model, len(old), tensorark.InvalidInput("stop"))
    assert str(len(old)) in caught.value.hint
    assert [each.rule for each in tensorark.validate(model)] == ["zt.footer-magic"]
    assert diagnose(model).last_good.length == len(old)


@pytest.mark.parametrize("what", ["data-shard", "link", "locked", "safetensors", "broken", "gone"])
def test_what_cannot_be_amended_is_refused_untouched(model, tmp_path, what):
    target, code = model, what
    if what == "data-shard":
        target = tmp_path / "shard.zt"
        target.write_bytes(image({"objects": {}}, {})[:8] + bytes(24) + model.read_bytes()[-16:])
    elif what == "link":
        target = tmp_path / "link.zt"
        target.symlink_to(model)
    elif what == "safetensors":
        target, code = tmp_path / "m.safetensors", "not-zt"
        ark.save_file({"a": np.zeros(1)}, target)
    elif what == "broken":
        code = "zt.footer-magic"
        model.write_bytes(model.read_bytes()[:-1])
    elif what == "gone":
        target, code = tmp_path / "gone.zt", "missing-file"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with model.open("rb") as holder:
        if what == "locked":
            fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(tensorark.Error) as caught:
            append(target, {"c": np.zeros(1)})
    assert caught.value.code == code
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_replacing_is_a_matter_of_appending(tmp_path):
    with pytest.raises(tensorark.InvalidInput, match="matter of appending"):
        tensorark.Writer(tmp_path / "m.zt", replace=True)


def test_a_root_keeps_its_shards_when_it_is_appended_to(tmp_path):
    from tensorark.edit.split import split

    ark.save_file({"a": np.arange(9), "b": np.arange(9) + 1}, tmp_path / "in.zt")
    split(tmp_path / "in.zt", tmp_path / "m.zt", max_size=4300, align=4096)
    append(tmp_path / "m.zt", {"c": np.arange(2)})
    assert arrays_of(tmp_path / "m.zt") == {
        "a": list(range(9)),
        "b": list(range(1, 10)),
        "c": [0, 1],
    }


def test_a_repacked_file_is_canonical_and_has_nothing_that_is_not_used(model, tmp_path):
    plain = model.read_bytes()
    with tensorark.open(model) as file:
        digest = tensorark.content_digest(file)
    append(model, {"b": np.zeros(MIB, "u1")}, replace=True)
    append(model, {"b": np.ones(5, "u1")}, replace=True)
    with tensorark.open(model) as file:
        assert tensorark.content_digest(file) == digest
    repack(model, tmp_path / "out.zt")
    assert (tmp_path / "out.zt").read_bytes() == plain
    with pytest.raises(tensorark.InvalidInput, match="inputs are never written"):
        repack(model, model, overwrite=True)
    ark.save_file({"a": np.zeros(1)}, tmp_path / "a.safetensors")
    with pytest.raises(tensorark.InvalidInput) as caught:
        repack(tmp_path / "a.safetensors", tmp_path / "b.zt")
    assert caught.value.code == "not-zt"


@st.composite
def histories(draw):
    """Tensors of several generations, names superseding each other now and then."""
    values = st.integers(0, 3).map(lambda value: np.full(4000 * value, value, "u1"))
    names = st.sampled_from(["a", "bb", "c.d", "ü"])
    return draw(st.lists(st.dictionaries(names, values, max_size=3), min_size=1, max_size=5))


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    base, numbers = tmp_path_factory.mktemp("grown"), itertools.count()
    return lambda: base / f"{next(numbers)}.zt"


@settings(max_examples=40)
@given(histories(), st.sampled_from([None, 4096, 8192]))
def test_every_generation_is_a_prefix_and_the_last_one_is_the_model(paths, history, align):
    path, held, lengths = paths(), {}, []
    for number, arrays in enumerate(history):
        if number == 0:
            with tensorark.Writer(path, align=align) as writer:
                for name in sorted(arrays):
                    writer.add(name, arrays[name])
        else:
            before = path.read_bytes()
            append(path, arrays, replace=True)
            assert path.read_bytes().startswith(before)
        held |= arrays
        lengths.append(path.stat().st_size)
        canonical = path.with_suffix(".canonical.zt")
        ark.save_file(held, canonical)
        with tensorark.open(path) as file, tensorark.open(canonical) as other:
            assert tensorark.diff(file, other).is_equal
            assert tensorark.content_digest(file) == tensorark.content_digest(other)
            assert tensorark.verify(file).complete
    theirs = ztensor.open(str(path))
    assert {name: theirs[name].tobytes() for name in theirs} == {
        name: array.tobytes() for name, array in held.items()
    }
    theirs.close()
    assert [each.length for each in diagnose(path).generations] == lengths
    for length in reversed(lengths):
        os.truncate(path, length)
        assert tensorark.validate(path) == []


CRASHES = """
import os, shutil, sys
from pathlib import Path
import numpy as np
import tensorark
from tensorark.edit.append import append
from tensorark.report.diagnosis import diagnose

folder = Path(sys.argv[1])
base, path = folder / "base.zt", folder / "m.zt"
with tensorark.Writer(base, align=4096) as writer:
    writer.add("a", np.arange(5000))
old = base.read_bytes()
real = {name: getattr(os, name) for name in ("pwrite", "ftruncate", "fsync")}
payload = {"b": np.arange(3 << 20), "c": np.ones(70000, "u1")}


def killed_at(point, half):
    left = [point]

    def watched(name):
        def call(*arguments):
            left[0] -= 1
            if left[0] == 0:
                if half and name == "pwrite":
                    descriptor, data, offset = arguments
                    real[name](descriptor, data[: len(data) // 8192 * 4096], offset)
                if not half or name == "pwrite":
                    os._exit(9)
            return real[name](*arguments)

        return call

    child = os.fork()
    if child == 0:
        for name in real:
            setattr(os, name, watched(name))
        append(path, payload)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


seen = set()
for half in (False, True):
    for point in range(1, 1000):
        shutil.copy(base, path)
        killed = killed_at(point, half)
        data = path.read_bytes()
        assert data.startswith(old), "old bytes were touched"
        found = tensorark.validate(path)
        with_payload = False
        if not found:
            with tensorark.open(path) as file:
                with_payload = "b" in file
                assert len(file) == (3 if with_payload else 1)
                assert tensorark.verify(file).complete, "a valid file with missing bytes"
            assert with_payload or data == old, "a longer file without its tensors"
        else:
            assert [each.rule for each in found] == ["zt.footer-magic"], found
            told = diagnose(path)
            assert told.last_good.length == len(old), told
            assert any(str(len(old)) in each for each in told.words)
        seen.add("whole" if with_payload else "old" if not found else "refused")
        if not killed and not half:
            break
        if half and point > 12:
            break
    assert killed or with_payload
print(point, *sorted(seen))
"""


def test_an_append_that_is_killed_anywhere_leaves_the_old_file_findable(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["old", "refused", "whole"]
