"""Headers and manifests of hardly anything but values: refused, unless the caller has room."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorark
from conformance.safetensors.build.image import INDEX, ONE, file, index, vectors
from conformance.zt.build.image import image as zt
from conformance.zt.build.manifest import root
from tensorark.core.limits import DEFAULT
from tensorark.core.rules import Reading
from tensorark.formats.ninfer import syntax as ninfer
from tensorark.formats.tensorbit import syntax as tensorbit

MANY = [[]] * (2 * DEFAULT.free_values)


def manifest(folder):
    (folder / "m.zt").write_bytes(zt(root(objects={}, attributes={"x": MANY}), {}))
    return folder / "m.zt"


def header(folder):
    made = {"a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "x": MANY}}
    (folder / "m.safetensors").write_bytes(file(made))
    return folder / "m.safetensors"


def listing(folder):
    (folder / INDEX).write_bytes(
        json.dumps(json.loads(index({"a": ONE}, x=MANY)), separators=(",", ":")).encode()
    )
    (folder / ONE).write_bytes(vectors({"a": 3}))
    return folder / INDEX


FILES = {"zt": manifest, "safetensors": header, "index": listing}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_a_caller_who_has_room_reads_more_values_than_are_free(tmp_path, make):
    path = make(tmp_path)
    with pytest.raises(tensorark.LimitExceeded, match=r"more (values|items) than one of its"):
        tensorark.open(path)
    tensorark.open(path, limits=tensorark.Limits(free_values=1 << 20)).close()


FEW = DEFAULT.free_values


def hollow_zt(folder, count):
    objects = {f"{n:05}": {} for n in range(count)}
    (folder / "m.zt").write_bytes(zt(root(objects=objects), {}))
    return folder / "m.zt"


def hollow_header(folder, count):
    (folder / "m.safetensors").write_bytes(file({f"{n:05}": 0 for n in range(count)}))
    return folder / "m.safetensors"


def hollow_listing(folder, count):
    more = {f"{n:05}": 0 for n in range(count)}
    (folder / INDEX).write_bytes(index({"a": ONE}, **more))
    (folder / ONE).write_bytes(vectors({"a": 3}))
    return folder / INDEX


HOLLOW = {"zt": hollow_zt, "safetensors": hollow_header, "index": hollow_listing}


@pytest.mark.parametrize("make", HOLLOW.values(), ids=HOLLOW)
def test_very_many_entries_that_are_none_are_not_built(tmp_path, make):
    """Ten megabytes of them would become hundreds before the first is found to be wrong."""
    path = make(tmp_path, FEW + 100)
    for look in (tensorark.open, tensorark.validate):
        with pytest.raises(tensorark.LimitExceeded, match="too many"):
            look(path)
    roomy = tensorark.Limits(free_values=2 * FEW)
    assert make is hollow_listing or tensorark.validate(path, limits=roomy)


@pytest.mark.parametrize("make", HOLLOW.values(), ids=HOLLOW)
def test_up_to_the_limit_they_are_told(tmp_path, make):
    path = make(tmp_path, FEW)
    found = tensorark.validate(path)
    assert bool(found) == (make is not hollow_listing)  # which ignores what it does not know


def test_a_text_of_hardly_anything_but_small_maps_is_not_built(tmp_path):
    """Each is twelve bytes in the file and hundreds in memory."""
    made = {
        "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0], "x": [{"bbbb": 0}] * 400_000}
    }
    path = tmp_path / "m.safetensors"
    path.write_bytes(file(made))
    with pytest.raises(tensorark.LimitExceeded, match="more memory than one of its length"):
        tensorark.open(path)
    tensorark.open(path, limits=tensorark.Limits(free_values=1 << 20)).close()


@pytest.mark.parametrize("parse", [ninfer.parse_json, tensorbit.parse_json])
def test_directories_and_indexes_take_the_same_limit(parse):
    text = memoryview(json.dumps({"x": MANY}, separators=(",", ":")).encode())
    start = {"start": 0} if parse is tensorbit.parse_json else {}
    with pytest.raises(tensorark.LimitExceeded):
        parse(text, Reading(), **start)
    roomy = Reading(tensorark.Limits(free_values=1 << 20))
    assert parse(text, roomy, **start) == {"x": MANY}


def test_of_very_many_damaged_tensors_each_is_told(tmp_path):
    """Verifying judges them in batches, and the faults that are listed of a rule are no few."""
    count = 1500
    names = [f"t{n:04}" for n in range(count)]
    with tensorark.Writer(tmp_path / "m.zt", align=4096) as writer:
        for name in names:
            writer.add(name, np.ones(int(name[1:]) + 1, bool))
    data = bytearray((tmp_path / "m.zt").read_bytes())
    for at in range(4096, 4096 * (count + 1), 4096):
        data[at] = 7  # no boolean
    (tmp_path / "m.zt").write_bytes(data)
    found = tensorark.verify(tmp_path / "m.zt", threads=1).findings
    assert {each.where[1] for each in found if each.where} == set(names)
    assert all(each.where for each in found)
