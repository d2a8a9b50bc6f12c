"""Headers and manifests of hardly anything but values: refused, unless the caller has room."""

from __future__ import annotations

import json

import pytest

import tensorark
from conformance.build.image import image as zt
from conformance.build.manifest import root
from conformance.build.safetensors.image import INDEX, ONE, file, index, vectors
from tensorark.formats.ninfer import syntax as ninfer
from tensorark.formats.tensorbit import syntax as tensorbit
from tensorark.limits import DEFAULT
from tensorark.rules import Reading

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


@pytest.mark.parametrize("parse", [ninfer.parse_json, tensorbit.parse_json])
def test_directories_and_indexes_take_the_same_limit(parse):
    text = memoryview(json.dumps({"x": MANY}, separators=(",", ":")).encode())
    start = {"start": 0} if parse is tensorbit.parse_json else {}
    with pytest.raises(tensorark.LimitExceeded):
        parse(text, Reading(), **start)
    roomy = Reading(tensorark.Limits(free_values=1 << 20))
    assert parse(text, roomy, **start) == {"x": MANY}
