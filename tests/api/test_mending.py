"""Mending: the faults of the public tools, each change listed; joining, dividing, renaming."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from conformance.tensorbit.build.image import (
    Container,
    container,
    dense,
    dense_entry,
    entry,
    floats,
    index,
    sparse,
    usual,
)
from tensorark import files
from tensorark.conversion.pipeline import convert
from tensorark.core.conversation import drive
from tensorark.edit.join import join
from tensorark.edit.part import part
from tensorark.edit.tensorbit_config import config_of
from tensorark.edit.tensorbit_repair import is_tensorbit, mend
from tensorark.errors import InvalidInput, Rejected, Unsupported
from tensorark.formats.tensorbit.walk import guess_shape, hidden_size, walk
from tensorark.integrity.verify import verify
from tensorark.report.diagnosis import diagnose
from tensorark.report.tensorbit import explain

AFTER = len(sparse().data)


def written(tmp_path, image, name="in.tbm"):
    (tmp_path / name).write_bytes(image)
    return tmp_path / name


def halves():
    """Two blobs of fp16 and the offsets that the merge tool computes for them."""
    first = sparse(weights=floats(*[1.0, 0.0, 2.0, 0.0] * 8, code=1), mask=b"\5" * 8, precision=1)
    entries = [
        entry(dtype="fp16", name="model.layers.0.a.weight"),
        dense_entry(4096 + 4 * 32 + 8, name="model.layers.1.b.weight"),
    ]
    config = {"num_layers": 2, "hidden_size": 8}
    return container([first.data, dense().data], index(entries, config=config))


def test_offsets_of_the_merge_tool_are_made_right(tmp_path):
    source = written(tmp_path, halves())
    with pytest.raises(Rejected):
        files.open(source)
    done = mend(source, tmp_path / "out.tbm")
    assert done.changes == ("model.layers.1.b.weight: offset 4232 → 4168",)
    with files.open(tmp_path / "out.tbm") as file:
        assert file["model.layers.1.b.weight"].numpy().tolist() == [0.25 * i for i in range(16)]
        assert not verify(file).findings


def merged(sizes, code=1):
    """Blobs of fp16 or fp64 whose weights all are their number, and the merge tool's offsets."""
    blobs, entries, at = [], [], 0
    for number, size in enumerate(sizes):
        weights = floats(*[float(number)] * size, code=code)
        blobs.append(dense(weights=weights, count=size, precision=code).data)
        name, dtype = f"t{number}", {1: "fp16", 3: "fp64"}[code]
        facts = {"name": name, "shape": [size, 1], "dtype": dtype, "num_weights": size}
        entries.append(dense_entry(at, **facts))
        at += 4096 + 4 * size
    return container(blobs, index(entries))


@pytest.mark.parametrize("code", [1, 3])
@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("small", [8, 9, 2048])
@pytest.mark.parametrize("last", [8, 9, 2048])
def test_a_lenient_reading_gives_no_tensor_the_weights_of_another(
    tmp_path, code, shift, small, last
):
    # With a shift of 0 the offset claimed for the second blob is that of the third.
    image = merged([2048 + small + shift, small, last, small, last], code)
    with files.open(written(tmp_path, image), lenient=True) as file:
        record = file.catalog.native
        assert file["t0"].numpy()[0] == 0
        assert {*file, *record.left_out} == {f"t{number}" for number in range(5)}
        assert not {*file} & {*record.left_out}
        for name, view in file.items():
            assert set(view.numpy().tolist()) == {float(name[1:])}
    done = mend(tmp_path / "in.tbm", tmp_path / "out.tbm")
    assert done.tensors == 5
    with files.open(tmp_path / "out.tbm") as file:
        for name, view in file.items():
            assert set(view.numpy().tolist()) == {float(name[1:])}


def test_a_wiped_blob_costs_no_other_tensor_in_a_lenient_reading(tmp_path):
    blobs = [dense(magic=b"TB01" if row != 1 else b"none").data for row in range(4)]
    entries = [dense_entry(row * len(blobs[0]), name=f"t{row}") for row in range(4)]
    source = written(tmp_path, container(blobs, index(entries)))
    with files.open(source, lenient=True) as file:
        assert [*file] == ["t0", "t2", "t3"]
        assert file.catalog.native.left_out == ("t1",)


def test_a_blob_that_is_not_what_the_index_says_is_renamed_to_nothing(tmp_path):
    """Two blobs and two entries, in the other order: that there are two says nothing."""
    first, second = dense(), dense(weights=floats(*range(4)), count=4)
    entries = [
        dense_entry(0, name="small", shape=[4, 1], num_weights=4),
        dense_entry(4096 + 16, name="large"),
    ]
    source = written(tmp_path, container([first.data, second.data], index(entries)))
    with pytest.raises(Unsupported) as caught:
        mend(source, tmp_path / "out.tbm")
    assert caught.value.code == "unmatched"
    with files.open(source, lenient=True) as file:
        assert not {*file}
        assert file.catalog.native.left_out == ("small", "large")


def test_the_doctor_explains_and_says_what_mending_changes(tmp_path):
    source = written(tmp_path, halves())
    found = diagnose(source)
    text = "\n".join(found.words)
    assert [each.rule for each in found.findings] == ["tb.magic"]
    assert "finds 2 of them" in text
    assert "offset 4232 → 4168" in text
    assert explain(source).blobs == 2
    good = written(tmp_path, usual(architecture="llama"), "good.tbm")
    assert diagnose(good).is_healthy


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"shape": [4, 2]}, "a.weight: shape (4, 2) → (32, 1)"),
        ({"nm_n": 1, "nm_m": 8}, "a.weight: nm_m 8 → 4"),
        ({"num_weights": 64}, "a.weight: num_weights 64 → 32"),
        ({"num_mask_bytes": 1}, "a.weight: num_mask_bytes 1 → 8"),
        ({"dtype": "fp16"}, "a.weight: dtype fp16 → fp32"),
        ({"dtype": "BF16"}, "tensors[0].dtype: 'BF16' → the type of the header"),
    ],
)
def test_the_header_decides_where_index_and_header_differ(change, line, tmp_path):
    source = written(tmp_path, usual(entries=[entry(**change), dense_entry(AFTER)]))
    done = mend(source, tmp_path / "out.tbm")
    assert line in done.changes
    with files.open(tmp_path / "out.tbm") as file, files.open(source, lenient=True) as before:
        assert file["a.weight"].raw("weights") == before["a.weight"].raw("weights")
        assert file["a.weight"].raw("mask") == before["a.weight"].raw("mask")


def test_members_and_layers_are_put_right_and_listed(tmp_path):
    document = {
        "architecture": "llama",
        "config": {"num_layers": 2, "hidden_size": 8},
        "tensors": [
            entry(name="model.layers.0.x.weight"),
            dense_entry(AFTER, name="model.layers.4.y.weight"),
        ],
    }
    source = written(tmp_path, container([sparse().data, dense().data], document))
    done = mend(source, tmp_path / "out.tbm")
    assert done.changes == ("config.num_layers 2 → 5", "config moved before architecture")
    data = (tmp_path / "out.tbm").read_bytes()
    found = json.loads(data[-4 - struct.unpack("<I", data[-4:])[0] : -4])
    assert list(found) == ["config", "architecture", "tensors"]
    assert found["config"] == {"hidden_size": 8, "num_layers": 5}


def test_nothing_is_changed_where_nothing_is_wrong(tmp_path):
    source = written(tmp_path, usual())
    done = mend(source, tmp_path / "out.tbm")
    assert done.changes == ()
    assert (tmp_path / "out.tbm").read_bytes() == source.read_bytes()


def test_without_telling_which_blob_is_which_nothing_is_written(tmp_path):
    source = written(tmp_path, usual(sparse(magic=b"TB10")))
    with pytest.raises(Unsupported) as caught:
        mend(source, tmp_path / "out.tbm")
    assert caught.value.code == "unmatched"
    assert not (tmp_path / "out.tbm").exists()


def test_a_blob_that_does_not_say_where_it_ends_is_followed_by_the_next_one_found(tmp_path):
    """int8 without a mask: the header alone cannot tell how long it is."""
    first = dense(weights=bytes(16), scales=floats(2.0), masks_offset=0)
    claim = {"dtype": "int8", "scale_count": 1, "group_size": 0}
    entries = [dense_entry(0, name="q", **claim), dense_entry(9999)]
    source = written(tmp_path, container([first.data, dense().data], index(entries)))
    done = mend(source, tmp_path / "out.tbm")
    assert done.changes == (f"b.weight: offset 9999 → {len(first.data)}",)


def test_flat_projections_get_the_shape_that_their_names_tell(tmp_path):
    entries = [
        entry(name="layers.0.self_attn.q_proj.weight", shape=[32, 1]),
        dense_entry(AFTER, name="layers.0.mlp.down_proj.weight"),
        dense_entry(AFTER, name="layers.0.input_layernorm.weight"),
    ]
    source = written(tmp_path, usual(entries=entries, config={"hidden_size": 8, "num_layers": 1}))
    mend(source, tmp_path / "out.tbm", shapes=True)
    with files.open(tmp_path / "out.tbm") as file:
        assert {name: view.shape for name, view in file.items()} == {
            "layers.0.self_attn.q_proj.weight": (4, 8),
            "layers.0.mlp.down_proj.weight": (8, 2),
            "layers.0.input_layernorm.weight": (16,),
        }


def test_the_hidden_size_is_guessed_from_square_projections():
    assert hidden_size([("a.q_proj.weight", 1024**2), ("a.o_proj.weight", 512**2)]) == 1024
    assert hidden_size([("a.k_proj.weight", 1024**2), ("a.v_proj.weight", 512**2)]) == 512
    assert hidden_size([("a.q_proj.weight", 511**2), ("a.up_proj.weight", 1024**2)]) == 0
    assert hidden_size([("a.q_proj.weight", 1024 * 512)]) == 0
    assert guess_shape("embed_tokens.weight", 4096, 512) == (8, 512)
    assert guess_shape("mlp.down_proj.weight", 4096, 512) == (512, 8)
    assert guess_shape("input_layernorm.weight", 512, 512) is None
    assert guess_shape("mlp.up_proj.weight", 1000, 512) is None
    assert guess_shape("mlp.up_proj.weight", 1024, 0) is None


def test_masks_are_spelt_dropped_or_applied_when_asked(tmp_path):
    kept = np.array([(i % 16 < 4, 4 <= i % 16 < 8)[i // 16] for i in range(32)])
    values = np.where(kept, np.arange(32, dtype=np.float32) + 1, 0).tolist()
    blob = sparse(weights=floats(*values), n=4, m=16, mask=b"\x0f\xf0")
    claim = entry(nm_n=4, nm_m=16, num_mask_bytes=2)
    source = written(tmp_path, container([blob.data], index([claim])))
    done = mend(source, tmp_path / "spelled.tbm", masks="spell")
    assert done.changes == (
        "a.weight: mask of 2 bytes → 4 bytes; weights 8 and up of each group stay pruned",
    )
    with files.open(tmp_path / "spelled.tbm") as file:
        assert bytes(file["a.weight"].raw("mask")) == b"\x0f\x00\xf0\x00"
        assert np.array_equal(file["a.weight"].numpy().reshape(-1) != 0, kept)
    mend(source, tmp_path / "dropped.tbm", masks="drop")
    with files.open(tmp_path / "dropped.tbm") as file:
        assert file["a.weight"].layout == "dense"
        assert file["a.weight"].numpy().reshape(-1).tolist() == values


def test_masks_are_applied_when_asked_and_else_stray_weights_are_refused(tmp_path):
    values = [float(number + 1) for number in range(16)]
    blob = sparse(weights=floats(*values), count=16, mask=b"\3\5\6\x0c")
    claim = entry(shape=[16], num_weights=16, num_mask_bytes=4)
    source = written(tmp_path, container([blob.data], index([claim])))
    mend(source, tmp_path / "applied.tbm", masks="apply")
    kept = np.unpackbits(np.frombuffer(b"\3\5\6\x0c", "u1"), bitorder="little")
    kept = kept.reshape(4, 8)[:, :4].reshape(-1)
    with files.open(tmp_path / "applied.tbm") as file:
        assert bytes(file["a.weight"].raw("mask")) == b"\3\5\6\x0c"
        stored = np.frombuffer(file["a.weight"].raw("weights"), "<f4")
        assert np.array_equal(stored, np.where(kept, values, 0))
    with pytest.raises(Rejected) as caught:
        mend(source, tmp_path / "kept.tbm")
    assert caught.value.code == "tb.pruned-zero"
    assert "mend" in str(caught.value.hint)
    assert not (tmp_path / "kept.tbm").exists()


def test_a_tail_without_mask_bytes_is_spelt_as_kept(tmp_path):
    blob = sparse(weights=floats(1, 2, 0, 0, 3, 4, 0, 0, 5, 6), count=10, mask=b"\3\3")
    claim = entry(shape=[10], num_weights=10, num_mask_bytes=2)
    source = written(tmp_path, container([blob.data], index([claim])))
    mend(source, tmp_path / "out.tbm", masks="spell")
    with files.open(tmp_path / "out.tbm") as file:
        assert bytes(file["a.weight"].raw("mask")) == b"\3\3\3"


def test_tensors_are_chosen_and_renamed(tmp_path):
    source = written(tmp_path, usual())
    done = mend(
        source,
        tmp_path / "out.tbm",
        include=["*.weight"],
        exclude=["b.*"],
        rename=lambda name: name.replace("a.", "model.a."),
    )
    assert done.changes == ("b.weight: left out", "a.weight: renamed to model.a.weight")
    with files.open(tmp_path / "out.tbm") as file:
        assert list(file) == ["model.a.weight"]
    with pytest.raises(InvalidInput):
        mend(source, tmp_path / "x.tbm", rename=lambda _name: "same")


def test_ties_follow_a_new_name(tmp_path):
    held = [entry(), entry(name="alias.weight")]
    source = written(tmp_path, container([sparse().data], index(held)))
    mend(source, tmp_path / "out.tbm", rename=lambda name: "m." + name)
    with files.open(tmp_path / "out.tbm") as file:
        assert [blob.offset for blob in file.catalog.native.blobs] == [0, 0]


def test_models_are_joined_and_divided_without_changing_a_byte(tmp_path):
    source = written(tmp_path, usual())
    done = part(source, tmp_path / "p.tbm", AFTER)
    names = [each.files[0].rsplit("/", 1)[1] for each in done]
    assert names == ["p-00001-of-00002.tbm", "p-00002-of-00002.tbm"]
    whole = join([tmp_path / name for name in names], tmp_path / "out.tbm")
    assert (whole.tensors, whole.changes) == (2, ())
    assert (tmp_path / "out.tbm").read_bytes() == source.read_bytes()
    with pytest.raises(InvalidInput):
        part(source, tmp_path / "q.tbm", 4096)
    with pytest.raises(InvalidInput):
        join([source, tmp_path / names[0]], tmp_path / "x.tbm")
    with pytest.raises(InvalidInput):
        join([], tmp_path / "x.tbm")


def test_a_model_is_divided_into_directories_too(tmp_path):
    source = written(tmp_path, usual())
    done = part(source, tmp_path / "p", AFTER, format="tensorbit-directory")
    homes = [each.files[0].rsplit("/", 2)[1] for each in done]
    assert homes == ["p-00001-of-00002", "p-00002-of-00002"]
    assert all((tmp_path / home / "manifest.json").is_file() for home in homes)
    join([tmp_path / home for home in homes], tmp_path / "out.tbm")
    assert (tmp_path / "out.tbm").read_bytes() == source.read_bytes()
    with pytest.raises(InvalidInput):
        part(source, tmp_path / "q", AFTER, format="tensorbit-directory", align=64)
    assert not list(tmp_path.glob("q*"))


def test_divided_containers_may_be_aligned(tmp_path):
    source = written(tmp_path, usual())
    for each in part(source, tmp_path / "p.tbm", AFTER, align=512):
        with files.open(each.files[0]) as file:
            assert all(blob.offset % 512 == 0 for blob in file.catalog.native.blobs)


def test_files_of_other_formats_are_joined_too(tmp_path):
    from tensorark.numpy import save_file

    source = written(tmp_path, usual())
    save_file({"extra": np.arange(4, dtype=np.float64)}, tmp_path / "e.safetensors")
    written(tmp_path, dense().data, "c.tb")
    join([source, tmp_path / "e.safetensors", tmp_path / "c.tb"], tmp_path / "out.tbm")
    with files.open(tmp_path / "out.tbm") as file:
        assert list(file) == ["a.weight", "b.weight", "extra", "c"]
        assert file["extra"].numpy().tolist() == [0, 1, 2, 3]
        assert file.attributes["tensorbit"]["architecture"] == "llama"


def test_configurations_of_hugging_face_are_translated():
    theirs = {"num_hidden_layers": 2, "num_attention_heads": 8, "rms_norm_eps": 1e-5, "x": 1}
    assert config_of(theirs) == {
        "num_layers": 2,
        "num_heads": 8,
        "num_kv_heads": 8,
        "norm_eps": 1e-5,
    }
    assert config_of({"num_layers": 1, "own": 2}) == {"num_layers": 1, "own": 2}
    with pytest.raises(InvalidInput):
        config_of([])


def test_the_whole_configuration_is_translated_or_what_is_left_out_is_listed(tmp_path):
    theirs = {
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "head_dim": 128,
        "layer_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4},
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": None,
    }
    source = written(tmp_path, usual())
    done = mend(source, tmp_path / "out.tbm", config=theirs)
    with files.open(tmp_path / "out.tbm") as file:
        assert file.attributes["tensorbit"]["config"] == {
            "num_layers": 1,
            "num_heads": 2,
            "num_kv_heads": 2,
            "head_dim": 128,
            "norm_eps": 1e-6,
            "rope_theta": 1e6,
        }
    left = {"torch_dtype", "rope_parameters.rope_type", "rope_parameters.factor"}
    assert {c for c in done.changes if "left out" in c} == {
        f'config: "{key}" left out' for key in left
    }


@pytest.mark.parametrize("stated", [1, 3, 32])
@pytest.mark.parametrize("given", [False, True])
def test_a_number_of_layers_that_does_not_count_tensors_is_kept(tmp_path, stated, given):
    """Of a shard, of a model with a layer that predicts more tokens, or as the caller gives it."""
    entries = [entry(name="model.layers.0.x"), dense_entry(AFTER, name="model.layers.1.y")]
    config = {"num_layers": stated}
    image = container([sparse().data, dense().data], index(entries, config=config))
    given_config = {"num_layers": 2 if stated == 1 else stated} if given else None
    mend(written(tmp_path, image), tmp_path / "out.tbm", config=given_config)
    with files.open(tmp_path / "out.tbm") as file:
        held = file.attributes["tensorbit"]["config"]
        assert held == (given_config or config)


def test_what_is_tensorbit_is_told_from_what_is_not(tmp_path):
    assert is_tensorbit(written(tmp_path, usual()))
    assert is_tensorbit(written(tmp_path, Container(halves()[:-1]), "cut.tbm"))
    convert(tmp_path / "in.tbm", tmp_path / "a.zt")
    assert not is_tensorbit(tmp_path / "a.zt")
    assert not is_tensorbit(tmp_path / "missing.tbm")
    with pytest.raises(InvalidInput):
        mend(tmp_path / "a.zt", tmp_path / "b.tbm")


# --------------------------------------------------------------------- around what is in dispute

DISPUTES = {
    "magic": (dense(magic=b"none"), {}),
    "version": (dense(version=3), {"num_weights": 15, "shape": [15, 1]}),
    "pattern": (dense(n=4, m=2, mask=b"", mask_bytes=0), {"nm_n": 4, "nm_m": 2}),
    "weights": (dense(count=1 << 40), {"num_weights": 1 << 40, "shape": [1 << 40, 1]}),
    "weights-offset": (dense(weights_offset=1 << 40), {}),
    "mask-order": (sparse(masks_offset=4096), {**entry(), "name": "x.weight"}),
    "mask-size": (sparse(mask_bytes=5), {**entry(), "name": "x.weight"}),
    "size": (dense(), {"dtype": "int8"}),
    "shifted": (dense(), {}),
}


def disputed(kind, at):
    """Three tensors, of which that in the place `at` is `x.weight` and in dispute."""
    bad, claim = DISPUTES[kind]
    blobs = [sparse(), dense()]
    blobs.insert(at, bad)
    entries = [entry(), dense_entry(0)]
    entries.insert(at, dense_entry(0, name="x.weight") | claim)
    start = 0
    for blob, each in zip(blobs, entries, strict=True):
        each["offset"] = start + (7 if kind == "shifted" and blob is bad else 0)
        start += len(blob.data)
    return container([blob.data for blob in blobs], index(entries))


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("kind", DISPUTES)
@pytest.mark.parametrize("choice", [{"exclude": ["x.*"]}, {"include": ["a.*", "b.*"]}])
def test_what_is_not_chosen_keeps_nothing_from_being_mended(tmp_path, kind, at, choice):
    source = written(tmp_path, disputed(kind, at))
    done = mend(source, tmp_path / "out.tbm", **choice)
    assert done.changes == ("x.weight: left out",)
    with files.open(tmp_path / "out.tbm") as file:
        assert {*file} == {"a.weight", "b.weight"}
        assert bytes(file["a.weight"].raw("weights")) == sparse().weights
        assert bytes(file["a.weight"].raw("mask")) == sparse().mask
        assert bytes(file["b.weight"].raw("data")) == dense().weights


def test_a_blob_in_dispute_is_refused_with_the_way_around_it(tmp_path):
    with pytest.raises(Rejected) as caught:
        mend(written(tmp_path, disputed("size", 1)), tmp_path / "out.tbm")
    assert 'exclude=["x.weight"]' in str(caught.value)


@pytest.mark.parametrize("chosen", [["a.*"], ["alias.*"], ["b.*"]])
def test_what_is_chosen_is_tied_to_nothing_that_is_not(tmp_path, chosen):
    held = [entry(), entry(name="alias.weight"), dense_entry(AFTER)]
    (tmp_path / "d").mkdir()
    source = written(tmp_path, container([sparse().data, dense().data], index(held)))
    convert(source, tmp_path / "whole", format="tensorbit-directory")
    for number, whole in enumerate((source, tmp_path / "whole")):
        goal = tmp_path / f"{number}.zt"
        mend(whole, goal, include=chosen)
        with files.open(goal) as file:
            assert len(file) == 1
            assert "tied_to" not in str([view.attributes for view in file.values()])


# ------------------------------------------------------------------------- blobs without an entry

ORPHANS = {
    "dense": dense(),
    "fp16": dense(weights=floats(*range(16), code=1), precision=1),
    "bf16": sparse(weights=floats(*range(32), code=2), precision=2),
    "fp64": dense(weights=floats(*range(16), code=3), precision=3),
    "2:4": sparse(),
    "8:16 truncated": sparse(n=8, m=16, mask=b"\xff\xff"),
    "floor": sparse(weights=floats(*range(10)), count=10, mask=b"\3\3"),
    "without a mask": sparse(mask=b""),
}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 5, 9000])
@pytest.mark.parametrize("kind", ORPHANS)
def test_a_blob_without_an_entry_is_told_by_every_verb_that_judges(tmp_path, kind, padding, at):
    orphan = ORPHANS[kind].data
    blobs = [sparse().data, dense().data]
    offsets = [0, AFTER]
    lost = bytes(padding) + orphan + bytes(padding)
    place = sum(map(len, blobs[:at])) + padding
    blobs.insert(at, lost)
    offsets = [each + len(lost) * (row >= at) for row, each in enumerate(offsets)]
    entries = [entry(offset=offsets[0]), dense_entry(offsets[1])]
    source = written(tmp_path, container(blobs, index(entries)))
    notes: list = []
    assert not files.validate(source, notes=notes)
    for found in (notes, verify(source).notes):
        assert [(each.rule, each.offset) for each in found] == [("tb.orphan", place)]
    text = "\n".join(diagnose(source).words)
    assert f"tail -c +{place + 1} FILE | head -c {len(orphan)} >" in text
    assert diagnose(source).is_healthy
    with pytest.raises(Unsupported, match="gaps"):
        mend(source, tmp_path / "out.tbm")
    done = mend(source, tmp_path / "out.tbm", drop=["gaps"])
    assert [each for each in done.changes if each.startswith("left out: gaps")]
    notes.clear()
    assert not files.validate(tmp_path / "out.tbm", notes=notes)
    assert not notes


def test_other_bytes_without_an_entry_are_told_and_zeros_are_not(tmp_path):
    blobs = [sparse().data, bytes(100), b"left over", dense().data]
    entries = [entry(), dense_entry(AFTER + 109)]
    notes: list = []
    assert not files.validate(written(tmp_path, container(blobs, index(entries))), notes=notes)
    assert [(each.rule, each.offset) for each in notes] == [("tb.gap-bytes", AFTER + 100)]
    assert f"Bytes {AFTER + 100} to {AFTER + 109}" in "\n".join(diagnose(tmp_path / "in.tbm").words)
    convert(written(tmp_path, usual()), tmp_path / "aligned.tbm", align=8192)
    notes.clear()
    assert not files.validate(tmp_path / "aligned.tbm", notes=notes)
    assert not notes


def test_blobs_are_told_where_there_is_no_index(tmp_path):
    image = container([sparse().data, dense().data], b'{"tensors":[')
    text = "\n".join(diagnose(written(tmp_path, image)).words)
    assert f"tail -c +1 FILE | head -c {AFTER} >" in text
    assert f"tail -c +{AFTER + 1} FILE | head -c {len(dense().data)} >" in text


def test_what_the_doctor_says_of_masks_needs_no_payload(tmp_path):
    image = usual(
        sparse(n=8, m=16, mask=b"\xff\xff"),
        entries=[entry(nm_n=8, nm_m=16, num_mask_bytes=2), dense_entry(AFTER - 6)],
    )
    text = "\n".join(diagnose(written(tmp_path, image)).words)
    assert "one mask byte a group at 8:16: weights 8 and up count as pruned" in text
    assert "`tark verify`" in text
    assert "verify" not in "\n".join(
        diagnose(written(tmp_path, container([dense().data], index([dense_entry(0)])))).words
    )


CORPUS = Path(__file__).parents[2] / "conformance" / "tensorbit"


@pytest.mark.parametrize("path", sorted(CORPUS.rglob("*.tbm")), ids=lambda path: path.stem)
def test_the_doctor_promises_what_writing_anew_does(tmp_path, path):
    try:
        found = explain(path)
    except Rejected:
        return
    content = found.masks and not found.findings and verify(path).findings
    if found.repairs is None or content:  # payload is what the doctor has not read, and says so
        with pytest.raises((Rejected, Unsupported)):
            mend(path, tmp_path / "out.tbm", drop=["gaps"])
        return
    done = mend(path, tmp_path / "out.tbm", drop=["gaps"])
    assert [each for each in done.changes if "left out: gaps" not in each] == [*found.repairs]
    assert any("gaps" in each for each in done.changes) == bool(found.orphans or found.gaps)
    assert not files.validate(tmp_path / "out.tbm")


@pytest.mark.parametrize(
    "text", [b"TB01", b"TB01\1\0\0\0", b"TB01\1\0\0\0\2\0\0\0\1\0\0\0", b"\0\0\0\0TB01\1\0\0\0"]
)
def test_a_walk_reads_little_of_what_looks_like_blobs(text):
    """A file of ten megabytes of magics once took minutes: each was read by itself."""
    image = dense().data + text * (2_000_000 // len(text))
    requests = read = 0

    class Source:
        def read(self, spans):
            nonlocal requests, read
            requests += 1
            read += sum(span.length for span in spans)
            return [memoryview(image)[span.offset : span.end] for span in spans]

    assert [each.offset for each in drive(walk(len(image)), Source())] == [0]
    assert requests < 100
    assert read < 2 * len(image)


def test_a_blob_is_mended_into_a_file_of_another_name(tmp_path):
    source = written(tmp_path, sparse(n=8, m=16, mask=b"\3\5").data, "a.tb")
    assert mend(source, tmp_path / "b.tb", masks="drop").changes == ("a: mask dropped",)
    with files.open(tmp_path / "b.tb") as file:
        assert bytes(file["b"].raw("data")) == sparse().weights
    with pytest.raises(Unsupported, match="names"):
        mend(source, tmp_path / "c.tb", masks="drop", rename=lambda name: name + ".weight")
