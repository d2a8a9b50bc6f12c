"""Logical parameters: which elements they are, which rows are read, and what uses ask for."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from tensorark import files
from tensorark.errors import InvalidInput, NotFound, Rejected, Unsupported
from tensorark.formats.ninfer.parameters import logical_tensor, parameters
from tensorark.integrity.diff_parameters import diff_parameters
from tensorark.integrity.verify import verify
from tensorark.layouts.numbers.hadamard import inverse_hadamard_transform
from tensorark.ninfer.rotation import auxiliary
from tests.unit.formats.ninfer.sets import (
    DIRECTORY,
    OBJECTS,
    PAYLOAD,
    code,
    dumps,
    model,
    write_set,
)

Q4 = np.array([[code(n, k) for k in range(130)] for n in range(3)], np.float32)
BF16 = (1 + np.arange(16) / 8).astype(np.float32)  # 0x3f80 + 16 i, for i up to 8
CUTS = (300, 600, 1100)


@pytest.mark.parametrize("cuts", [(), CUTS])
def test_values_of_parameters(tmp_path, cuts):
    with files.open(model(tmp_path, cuts)) as file:
        ours = file.parameters
        assert list(ours) == list(DIRECTORY["bindings"])
        assert np.array_equal(ours["text/matrix"].numpy(), Q4)
        assert np.array_equal(ours["text/row"].numpy(), Q4[1:2])
        assert np.array_equal(ours["text/across"].numpy(), Q4.reshape(-1)[120:140])
        mixed = ours["text/mixed"]
        assert mixed.formats == ("bf16", "q4_g64_fp16")
        words = file["w.bf16"].numpy().astype(np.float32).reshape(-1)
        assert mixed.numpy().dtype == np.float32
        assert mixed.numpy().tolist() == [*words[4:6], *Q4[0, :3]]
        swapped = ours["text/swapped"]
        assert swapped.shape == (8, 2)
        assert swapped.numpy().dtype == file["w.bf16"].numpy().dtype
        wanted = np.roll(file["w.bf16"].numpy().view(np.uint16), 4, axis=0)
        assert np.array_equal(swapped.numpy().view(np.uint16), wanted)


def test_reshape_and_element_ranges(tmp_path):
    with files.open(model(tmp_path)) as file:
        swapped = file.parameters["text/swapped"]
        assert swapped.numpy((2, 2, 4)).shape == (2, 2, 4)
        flat = swapped.numpy().reshape(-1)
        for start, stop in [(0, 16), (7, 9), (3, 3), (15, 16)]:
            assert swapped.elements(start, stop).tobytes() == flat[start:stop].tobytes()
        with pytest.raises(IndexError):
            swapped.elements(0, 17)
        with pytest.raises(InvalidInput):
            swapped.numpy((3, 5))
        with pytest.raises(NotFound):
            file.parameters["text/none"]


def test_a_range_of_a_quantized_parent_reads_its_rows_alone(tmp_path):
    path = model(tmp_path)
    with files.open(path, io="pread") as file:
        start = file.catalog.native.frame.payload_start
        asked = []
        read = file.source.read

        class Watching:
            def __getattr__(self, name):
                return getattr(file.source, name)

            def read(self, spans):
                asked.extend(spans)
                return read(spans)

        watched = files.File.__new__(files.File)
        for slot in files.File.__slots__:
            setattr(watched, slot, getattr(file, slot))
        watched._source = Watching()
        assert np.array_equal(watched.parameters["text/row"].numpy(), Q4[1:2])
    object_start = start + OBJECTS[2]["offset"]
    # Row 1 of 3: 4 groups of 32 code bytes, and 4 scales behind the plane of 384 bytes.
    assert {(each.offset - object_start, each.length) for each in asked} == {(128, 128), (520, 8)}


def test_parameters_of_plain_words_are_tensors_without_copying(tmp_path):
    with files.open(model(tmp_path, CUTS)) as file:
        found = parameters(file.catalog.native)
        swapped = logical_tensor(found["text/swapped"])
        assert swapped.layout == "dense"
        assert swapped.nbytes == 32
        assert logical_tensor(found["text/matrix"]).layout == "ninfer.row_split_k128_v1"
        assert logical_tensor(found["text/row"]) is None
        assert logical_tensor(found["text/mixed"]) is None
        assert found["text/row"].pieces[0].rows == (1, 2)
        assert found["text/across"].pieces[0].rows is None
        assert found["text/across"].shape == (20,)


def test_only_an_artifact_has_parameters(tmp_path):
    from tensorark.conversion.pipeline import convert

    convert(model(tmp_path), tmp_path / "hub.zt")
    with files.open(tmp_path / "hub.zt") as file, pytest.raises(InvalidInput):
        _ = file.parameters


def test_integers_and_floats_do_not_mix(tmp_path):
    directory = json.loads(dumps(DIRECTORY))
    directory["objects"][3] |= {"format": "int32", "shape": [8]}
    mixed = directory["bindings"]["text/mixed"]
    path = write_set(tmp_path, directory | {"uses": [], "bindings": {"text/mixed": mixed}}, PAYLOAD)
    with files.open(path) as file:
        assert file["w.bf16"].numpy().dtype == np.int32
        with pytest.raises(Unsupported) as caught:
            file.parameters["text/mixed"].numpy()
        assert caught.value.code == "mixed-parts"


# -------------------------------------------------------------------------------------------- uses


def used(tmp_path, role, values, matrix, **use):
    """Write an artifact of a bf16 matrix and one vector, an auxiliary of its only use."""
    body = bytes(2 * matrix[0] * matrix[1])
    start = -(-len(body) // 256) * 256
    records = [
        {"id": "m", "kind": "tensor", "shape": list(matrix), "format": "bf16",
         "layout": "contiguous_le_v1", "offset": 0, "bytes": len(body)},
        {"id": "v", "kind": "tensor", "shape": [values.size], "format": use["format"],
         "layout": "contiguous_le_v1", "offset": start, "bytes": values.nbytes},
    ]  # fmt: skip
    directory = {
        "components": {"text": {"config": {}}},
        "objects": records,
        "bindings": {"m": {"object": "m"}},
        "uses": [{"parameter": "m", "input": "x", "auxiliaries": {role: {"object": "v"}}}],
    }
    return write_set(tmp_path, directory, body.ljust(start, b"\0") + values.tobytes())


def test_hadamard_signs_are_given_and_the_transform_takes_them(tmp_path):
    signs = np.where(np.arange(1024) % 3 == 0, 0xBF80, 0x3F80).astype("<u2")
    path = used(tmp_path, "hadamard_signs", signs, (2, 1024), format="bf16")
    with files.open(path) as file:
        (use,) = file.catalog.native.uses
        found = auxiliary(file, file.catalog.native, use, "hadamard_signs")
        assert found.astype(np.float32)[:4].tolist() == [-1, 1, 1, -1]
        rotated = np.full(1024, -1 / 32, np.float32)
        assert inverse_hadamard_transform(rotated, found).tolist() == [1] + [0] * 1023
        assert verify(file).ok
        with pytest.raises(InvalidInput):
            auxiliary(file, file.catalog.native, use, "input_columns")


def test_signs_that_are_none_are_refused_when_taken(tmp_path):
    signs = np.full(1024, 0x3F80, "<u2")
    signs[1000] = 0
    path = used(tmp_path, "hadamard_signs", signs, (2, 1024), format="bf16")
    with files.open(path) as file:
        (use,) = file.catalog.native.uses
        with pytest.raises(Rejected) as caught:
            auxiliary(file, file.catalog.native, use, "hadamard_signs")
        assert caught.value.code == "ninfer.hadamard-signs"
        assert "1000" in caught.value.detail


@pytest.mark.parametrize("word", [0.0, -1.0, float("inf"), float("nan")])
def test_a_divisor_is_positive_and_finite(tmp_path, word):
    values = np.array([word], "<f4")
    path = used(tmp_path, "activation_input_divisor", values, (2, 2), format="fp32")
    with files.open(path) as file:
        assert [each.rule for each in verify(file).findings] == ["ninfer.activation-divisor"]


def test_one_binding_is_judged_once(tmp_path):
    directory = json.loads(dumps(DIRECTORY))
    use = directory["uses"][0]
    directory["uses"] = [use | {"input": f"text/{i}"} for i in range(50)]
    payload = bytearray(PAYLOAD)
    payload[OBJECTS[4]["offset"] :] = struct.pack("<f", -1)
    with files.open(write_set(tmp_path, directory, bytes(payload))) as file:
        assert len(verify(file).findings) == 1


# ------------------------------------------------------------------------------------------- notes


def test_gaps_slack_and_stray_bytes_are_noted_and_no_faults(tmp_path):
    payload = bytearray(PAYLOAD.ljust(2000, b"\0"))
    payload[100] = 1
    with files.open(write_set(tmp_path, DIRECTORY, bytes(payload), (50, 1500))) as file:
        found = verify(file)
        assert found.ok
        notes = [(each.rule, each.found) for each in found.notes]
        assert ("ninfer.gap-size", 2000 - len(PAYLOAD)) in notes
        assert any("byte" in each.detail and "part-0001" in each.detail for each in found.notes)
        assert len(notes) == 2


def test_stray_bytes_in_the_header_of_a_continuation_are_noted(tmp_path):
    """A writer sets [32, 4096) to zero (§2.2)."""
    entry = write_set(tmp_path, DIRECTORY, PAYLOAD, (300, 600))
    part = tmp_path / "model.ninfer.part-0002"
    data = bytearray(part.read_bytes())
    for at in (32, 4095):
        data[32] = data[4095] = 0
        data[at] = 7
        part.write_bytes(data)
        (note,) = verify(entry).notes
        assert note.rule == "ninfer.gap-bytes"
        assert f"byte {at} " in note.detail
        assert part.name in note.detail


# -------------------------------------------------------------------------------------------- diff


def test_artifacts_are_compared_by_what_parameters_mean(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    directory = json.loads(dumps(DIRECTORY))
    bindings = directory["bindings"]
    bindings["text/extra"] = {"object": "w.bf16"}
    bindings["text/swapped"]["parts"].reverse()
    bindings["text/row"] = {"parts": [{"object": "w.q4", "range": [130, 200]},
                                      {"object": "w.q4", "range": [200, 260]}]}  # fmt: skip
    other = write_set(tmp_path / "b", directory, PAYLOAD, CUTS)
    with files.open(model(tmp_path / "a")) as left, files.open(other) as right:
        found = diff_parameters(left, right)
        assert found.only_right == ("text/extra",)
        assert [(each.name, each.what, each.elements) for each in found.changes] == [
            ("text/swapped", "values", 16)
        ]
        assert found.equal == 4
        assert diff_parameters(left, left).is_equal
