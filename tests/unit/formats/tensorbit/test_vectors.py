"""The published files: every fact of their index, and every container that our reading refuses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import tensorark
from tensorark import files
from tensorark.edit.tensorbit_repair import mend
from tensorark.errors import Rejected
from tensorark.layouts.nm.census import count
from tensorark.layouts.nm.window import window_of
from tests.conformance.corpus_files import shared

FOLDER = shared() / "vectors/tensorbit" if shared() else None
KNOWN = json.loads((FOLDER / "index.json").read_bytes())["files"] if FOLDER else []
READ = [each for each in KNOWN if each["kind"] in {"tb", "tbm", "directory"}]

REFUSED = {
    "core_models/oneshot_2of4.tbm": "tb.shape",  # two of four dimensions
    "core_models/oneshot_1of4.tbm": "tb.shape",
    "core_models/oneshot_4of8.tbm": "tb.shape",
    "core_models/iterative_2of4.tbm": "tb.shape",
    "core_models/blockobs_2of4.tbm": "tb.shape",
    "merge_script/mixed_dtypes_merged_BROKEN_OFFSETS.tbm": "tb.blob-bounds",
    "edge/bad_15_bytes.tbm": "file.json",  # a text, to judge by its beginning
    "edge/bad_empty.tbm": "tb.container-size",
    "edge/bad_index_len_too_big.tbm": "tb.index-length",
    "edge/bad_index_len_zero.tbm": "tb.index-length",
    "edge/bad_json_truncated.tbm": "tb.json-syntax",
    "edge/bad_offset_negative.tbm": "tb.entry-offset",
    "edge/bad_offset_past_end.tbm": "tb.blob-bounds",
    "edge/bad_shape_rank0.tbm": "tb.shape",
    "edge/bad_trailing_bytes_after_tail.tbm": "tb.index-length",
    "edge/bad_utf8_bom.tbm": "tb.json-bom",
    "edge/doc_example_offset_without_header.tbm": "tb.magic",
    "edge/ok_dtype_differs_from_precision.tbm": "tb.dtype-differs",
    "edge/ok_dtype_unknown_string.tbm": "tb.entry-dtype",
    "edge/ok_dtype_uppercase.tbm": "tb.entry-dtype",
    "edge/ok_duplicate_names.tbm": "tb.name-unique",
    "edge/ok_header_weights_offset_huge.tbm": "tb.weights-bounds",
    "edge/ok_json_nm_differs_from_header.tbm": "tb.pattern-differs",
    "edge/ok_shape_mismatch_header.tbm": "tb.shape",
    "edge/ok_weights_past_end_of_file.tbm": "tb.count-differs",
    "edge/warn_bad_magic.tbm": "tb.magic",
    "edge/warn_version2.tbm": "tb.version",
}
NOT_TOLERATED = {
    name
    for name, rule in REFUSED.items()
    if rule in {"file.json", "tb.container-size", "tb.index-length", "tb.json-syntax"}
    or rule in {"tb.entry-offset", "tb.json-bom"}
}


def opened(known, *, lenient=False):
    return files.open(FOLDER / known["file"], io="pread", lenient=lenient)


@pytest.mark.parametrize("known", READ, ids=lambda known: known["file"])
def test_is_opened_or_refused_by_the_rule_it_breaks(known):
    try:
        with opened(known) as file:
            found = None
            assert list(file) or known["file"] == "edge/bad_empty_tensors.tbm"
    except Rejected as error:
        found = error.code
    assert found == REFUSED.get(known["file"])


def entries(known):
    """The facts of the index about one file, by name of the tensor."""
    found = {}
    for each in known.get("tensors", ()):
        if "header" not in each:  # the rest of a long list
            continue
        name = each.get("name") or each.get("json_entry", {}).get("name")
        found.setdefault(name, each)
    return found


@pytest.mark.parametrize(
    "known",
    [each for each in READ if each["file"] not in NOT_TOLERATED],
    ids=lambda known: known["file"],
)
def test_every_fact_of_the_published_index_is_found(known):
    with opened(known, lenient=True) as file:
        record = file.catalog.native
        for name, facts in entries(known).items():
            view = file[name or next(iter(file))] if name in {None, *file} else None
            if view is None:
                assert name in record.left_out
                continue
            blob = next(each for each in record.blobs if each.claim.name == view.name)
            assert blob.offset == facts["offset"]
            header = facts["header"]
            assert (blob.header.n, blob.header.m) == (header["nm_n"], header["nm_m"])
            assert blob.header.weights == header["num_weights"]
            assert blob.header.mask_bytes == header["num_mask_bytes"]
            assert blob.header.weights_offset == header["weights_offset"]
            assert blob.header.masks_offset == header["masks_offset"]
            assert blob.header.precision == header["precision"]
            role = "data" if "data" in view.parts else "weights"
            stored = view.raw(role)
            assert hashlib.sha256(stored).hexdigest() == facts["weight_sha256"]
            if facts.get("mask_sha256"):
                assert hashlib.sha256(view.raw("mask")).hexdigest() == facts["mask_sha256"]
            judge_counts(view, facts)


def judge_counts(view, facts):
    def read(role, start=0, stop=None):
        return view.raw(role)[start:stop]

    found = count(view.tensor, read)
    if "first_values" in facts:
        window = replace(window_of(view.tensor, read), masked=False)
        first = window.values(0, min(8, view.size)).astype(np.float64)
        assert np.array_equal(first, facts["first_values"][: first.size], equal_nan=True)
    assert found.zeros == facts.get("zero_count", found.zeros)
    assert found.stray == facts.get("nonzero_but_mask_clear", found.stray)
    assert found.idle == facts.get("zero_but_mask_set", found.idle)
    if "kept_bits_per_group_histogram" in facts:
        wanted = {int(k): v for k, v in facts["kept_bits_per_group_histogram"].items()}
        assert found.bits == wanted


@pytest.mark.parametrize(
    "known",
    [each for each in READ if "values_after_dequantization" in each],
    ids=lambda k: k["file"],
)
def test_quantized_values_are_those_of_the_public_runtime(known):
    with opened(known) as file:
        (view,) = file.values()
        assert view.numpy().dtype == np.float32
        wanted = np.array(known["values_after_dequantization"], np.float32)
        assert np.array_equal(view.numpy().reshape(-1), wanted)


if FOLDER:

    def test_the_directory_opens_by_its_folder_and_has_the_tensors_of_its_manifest():
        with files.open(FOLDER / "directory_mode") as file:
            assert file.format.name == "tensorbit-directory"
            assert file["model.norm.weight"].shape == (16,)
            assert len(file) == 6

    def test_the_broken_merge_is_mended_to_the_true_offsets(tmp_path):
        name = "merge_script/mixed_dtypes_merged_BROKEN_OFFSETS.tbm"
        with pytest.raises(tensorark.Rejected) as caught:
            mend(FOLDER / name, tmp_path / "right.tbm")
        assert caught.value.code == "tb.mask-truncated"  # a fault of the tool that made the blobs
        done = mend(FOLDER / name, tmp_path / "right.tbm", masks="drop")
        offsets = [change for change in done.changes if ": offset " in change]
        assert len(offsets) == 10
        with (
            files.open(tmp_path / "right.tbm") as mended,
            files.open(FOLDER / "run_builder/mixed_dtypes.tbm") as original,
        ):
            assert tensorark.verify(mended).ok
            assert set(mended) == set(original)
            for tensor in original:
                for role in original[tensor].parts.keys() - {"mask"}:
                    held = role if role in mended[tensor].parts else "data"
                    assert mended[tensor].raw(held) == original[tensor].raw(role)
