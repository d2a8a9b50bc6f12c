"""Objects whose profiles are broken: listed, raw parts at hand, numbers refused by the rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tensorark
from conformance.zt.build import laid as build
from conformance.zt.build.image import FLOOR, image
from conformance.zt.build.manifest import ABSENT, changed, part, root, tensor

CORPUS = Path(__file__).resolve().parents[2] / "conformance"
INDEX = json.loads((CORPUS / "index.json").read_bytes())
LAYOUT_RULES = ("dense-", "csr-", "coo-", "quant-", "mx-", "gguf-")
BROKEN = [
    file
    for file in INDEX["files"]
    if file["class"] == "reject"
    and file["stage"] == "open"
    and file["rule"].removeprefix("zt.").startswith(LAYOUT_RULES)
]


def test_the_corpus_breaks_every_layout_rule():
    assert len({file["rule"] for file in BROKEN}) == 40


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file["path"])
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_structural_opening_lists_and_numbers_name_the_rule(file, io):
    path = CORPUS / file["path"]
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.open(path)
    assert caught.value.code == file["rule"]
    with tensorark.open(path, structural=True, io=io) as opened:
        (view,) = (opened[name] for name in opened)
        for role, held in view.parts.items():
            assert len(view.raw(role)) == sum(span.length for span in held.blob.spans)
        for read in (view.numpy, lambda: view[...], lambda: np.from_dlpack(view)):
            with pytest.raises((tensorark.Rejected, tensorark.LimitExceeded)) as caught:
                read()
            assert caught.value.code in {file["rule"], "decoded-size"}
        with pytest.raises(tensorark.Error):  # torch may lack the type, which it says first
            view.torch()
        found = tensorark.verify(opened)
        assert {each.rule for each in found.findings} <= {file["rule"]}
        assert found.findings or found.refused or view.layout == "dense"


@pytest.mark.parametrize("attributes", [{"group_size": 32}, {"group": 32}, {}, None])
def test_objects_as_public_writers_emit_them_are_shown(tmp_path, attributes):
    """The public documentation shows quant_group objects with nothing but a group size."""
    path = tmp_path / "q.zt"
    parts = {
        "data": part(dtype="u8", blob=[FLOOR, 32]),
        "scales": part(dtype="f16", blob=[8192, 4]),
    }
    fields = ABSENT if attributes is None else attributes
    record = tensor(layout="zt.quant_group/1", shape=[64], parts=parts, attributes=fields)
    path.write_bytes(image(root(objects={"w": record}), {FLOOR: bytes(range(32)), 8192: bytes(4)}))
    missing = {each.rule for each in tensorark.validate(path)}
    assert "zt.quant-bits" in missing
    with tensorark.open(path, structural=True) as file:
        view = file["w"]
        assert (view.shape, view.layout) == ((64,), "zt.quant_group/1")
        assert view.raw("data") == bytes(range(32))
        assert dict(view.attributes) == (attributes or {})
        for read in (view.numpy, view.torch, lambda: view[:2]):
            with pytest.raises(tensorark.Rejected) as caught:
                read()
            assert caught.value.code in missing
        assert {each.rule for each in tensorark.verify(file).findings} == missing


def test_faults_of_several_layouts_are_gathered(tmp_path):
    path = tmp_path / "several.zt"
    one = part(blob=[FLOOR, 8])
    objects = {
        "dense": tensor(shape=[7], parts={"data": one}),
        "mx": tensor(layout="zt.mx/1", parts={"data": one}, attributes=build.BLOCKS),
        "gguf": tensor(layout="gguf.q8_0/1", parts={"data": one}, attributes=build.Q8_0),
    }
    path.write_bytes(image(root(objects=objects), {FLOOR: bytes(8)}))
    assert {each.rule for each in tensorark.validate(path)} == {
        "zt.dense-size", "zt.mx-parts", "zt.mx-data-dtype", "zt.gguf-elems-per-block",
    }  # fmt: skip
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.open(path)
    assert caught.value.code == "zt.dense-size"


def test_extra_attributes_and_odd_keys_inside_of_maps_do_not_matter(tmp_path):
    path = tmp_path / "extra.zt"
    packing = {**build.PACKING, 7: None, "note": "x"}
    attributes = changed(build.SCHEME, {"packing": packing, "extra": [1, 2]})
    heap: dict[int, bytes] = {}
    record = tensor(layout="zt.quant_group/1", shape=[2, 8], attributes=attributes)
    parts = {"data": build.CODES, "scales": build.SCALES}
    placed = build.placed(heap, record, parts)
    path.write_bytes(image(root(objects={"w": placed}), heap))
    with tensorark.open(path) as file:
        assert file["w"].numpy()[0, :4].tolist() == [-4, -3.5, -3, -2.5]


def test_blocks_of_gguf_are_kept_and_not_decoded(tmp_path):
    path = tmp_path / "g.zt"
    path.write_bytes(build.gguf())
    with tensorark.open(path) as file:
        assert file["t"].raw() == bytes(range(68))
        with pytest.raises(tensorark.Unsupported, match="GGUF") as caught:
            file["t"].numpy()
        assert caught.value.code == "gguf-blocks"
        assert tensorark.verify(file).refused == ()


MLX = {"bits": 4, "group_size": 8}


@pytest.mark.parametrize(
    ("rule", "attributes", "parts"),
    [
        ("mlx.parts", MLX, {"biases": None}),
        ("mlx.bits", {**MLX, "bits": 7}, {}),
        ("mlx.group-size", {**MLX, "group_size": 5}, {}),
        ("mlx.group-size", {**MLX, "group_size": 0}, {}),
        ("mlx.dtypes", MLX, {"data": ("i32", 8)}),
        ("mlx.dtypes", MLX, {"scales": ("f64", 16)}),
        ("mlx.dtypes", MLX, {"biases": ("bf16", 4)}),
        ("mlx.data-size", MLX, {"data": ("u32", 4)}),
        ("mlx.data-size", {**MLX, "bits": 3}, {}),
        ("mlx.scales-size", MLX, {"scales": ("f16", 2)}),
    ],
)
def test_rules_of_the_layout_for_mlx(tmp_path, rule, attributes, parts):
    usual = {"data": ("u32", 8), "scales": ("f16", 4), "biases": ("f16", 4)}
    laid = {
        role: part(dtype=held[0], blob=[FLOOR * place, held[1]])
        for place, (role, held) in enumerate({**usual, **parts}.items(), 1)
        if held is not None
    }
    record = tensor(layout="mlx.affine/1", shape=[2, 8], parts=laid, attributes=attributes)
    path = tmp_path / "m.zt"
    path.write_bytes(image(root(objects={"w": record}), {FLOOR * 4: bytes(1)}))
    assert [each.rule for each in tensorark.validate(path)] == [rule]
