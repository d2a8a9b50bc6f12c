"""Pruning: which tensors, which weights, and the report, against an oracle and published files."""

from __future__ import annotations

import numpy as np
import pytest

from tensorark import api, pruning
from tensorark.errors import InvalidInput
from tensorark.numpy import save_file
from tensorark.pruning import prune
from tensorark.verification import verify
from tests.conformance.corpus_files import shared

NAMES = {
    "model.embed_tokens.weight": True,
    "model.layers.0.self_attn.q_proj.weight": False,
    "model.layers.0.mlp.gate_proj.weight": False,
    "model.layers.0.mlp.gate.weight": True,
    "model.layers.0.block_sparse_moe.router.weight": True,
    "model.layers.0.input_layernorm.weight": True,
    "model.norm.weight": True,
    "transformer.h.0.ln_1.weight": True,
    "transformer.wte.weight": True,
    "transformer.h.0.attn.c_attn.weight": False,
    "lm_head.weight": True,
    "model.layers.0.self_attn.o_proj.weight": False,
    "encoder.output_projection.weight": False,
}


def oracle(values, n, m):
    """The N largest of each M, of equal ones the first; the others are 0."""
    found = values.reshape(-1, m).copy()
    for row in found:
        order = sorted(range(m), key=lambda place: (-abs(float(row[place])), place))
        row[order[n:]] = 0
    return found.reshape(values.shape)


@pytest.mark.parametrize(("n", "m"), [(2, 4), (1, 4), (4, 8), (8, 16)])
@pytest.mark.parametrize("suffix", [".tbm", ".zt", ".safetensors"])
def test_keeps_the_largest_and_changes_no_weight_that_stays(n, m, suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(pruning, "_WEIGHTS", 64)
    values = np.random.default_rng(m).integers(-9, 10, (12, 32)).astype(np.float16)
    save_file({"w": values, "norm.weight": np.ones(8, np.float32)}, tmp_path / "in.safetensors")
    done = prune(tmp_path / "in.safetensors", tmp_path / f"out{suffix}", pattern=f"{n}:{m}")
    wanted = oracle(values, n, m)
    with api.open(tmp_path / f"out{suffix}") as file:
        assert np.array_equal(file["w"].numpy(), wanted)
        assert file["norm.weight"].layout == "dense"
        assert (file["w"].layout == "tensorbit.nm/1") == (suffix != ".safetensors")
        assert not verify(file).findings
    (report,) = done.pruned
    assert list(done.dense) == ["norm.weight"]
    assert (report.name, report.pattern, report.elements) == ("w", f"{n}:{m}", 384)
    assert report.zeros_before == np.count_nonzero(values == 0)
    assert report.zeros == np.count_nonzero(wanted == 0)
    gone = (values - wanted).astype(float)
    assert report.largest == np.abs(gone).max()
    assert report.error == pytest.approx(
        np.linalg.norm(gone) / np.linalg.norm(values.astype(float))
    )


def test_masks_are_made_again_where_they_are_too_many_to_keep(tmp_path, monkeypatch):
    values = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    save_file({"w": values}, tmp_path / "in.safetensors")
    prune(tmp_path / "in.safetensors", tmp_path / "a.tbm")
    monkeypatch.setattr(pruning, "_CACHED", 0)
    monkeypatch.setattr(pruning, "_WEIGHTS", 256)
    prune(tmp_path / "in.safetensors", tmp_path / "b.tbm")
    assert (tmp_path / "a.tbm").read_bytes() == (tmp_path / "b.tbm").read_bytes()


def test_norms_embeddings_heads_and_routers_stay_dense_unless_named(tmp_path):
    save_file({name: np.ones((4, 8), np.float32) for name in NAMES}, tmp_path / "in.zt")
    done = prune(tmp_path / "in.zt", tmp_path / "out.zt")
    assert {name: name in done.dense for name in NAMES} == NAMES
    done = prune(tmp_path / "in.zt", tmp_path / "all.zt", include=["*"], exclude=["lm_head.*"])
    assert list(done.dense) == ["lm_head.weight"]


def test_patterns_are_chosen_by_name_and_the_first_that_matches_decides(tmp_path):
    arrays = {f"layers.{i}.w": np.arange(1, 33, dtype=np.float32).reshape(4, 8) for i in range(4)}
    save_file(arrays, tmp_path / "in.zt")
    done = prune(
        tmp_path / "in.zt",
        tmp_path / "out.zt",
        choices=[("*.0.*", "dense"), ("*.1.*", "1:4"), ("*.[01].*", "4:8")],
        exclude=["*.3.*"],
    )
    assert {each.name: each.pattern for each in done.pruned} == {
        "layers.1.w": "1:4",
        "layers.2.w": "2:4",
    }
    assert done.dense == {"layers.0.w": "excluded", "layers.3.w": "excluded"}


def test_what_cannot_be_pruned_is_kept_and_says_why(tmp_path):
    arrays = {
        "ids": np.arange(8).reshape(2, 4),
        "odd": np.ones((2, 6), np.float32),
        "conv": np.ones((2, 2, 4), np.float32),
        "scalar": np.float32(1),
    }
    save_file(arrays, tmp_path / "in.zt")
    done = prune(tmp_path / "in.zt", tmp_path / "out.zt")
    assert not done.pruned
    assert done.dense == {
        "ids": "type i64",
        "odd": "rows of 6 are no multiple of 4",
        "conv": "no matrix",
        "scalar": "no rows",
    }
    again = prune(tmp_path / "in.zt", tmp_path / "named.zt", include=["odd", "conv"])
    assert [each.name for each in again.pruned] == ["odd", "conv"]
    with pytest.raises(InvalidInput):
        prune(tmp_path / "in.zt", tmp_path / "x.zt", pattern="4:2")
    with pytest.raises(InvalidInput):
        prune(tmp_path / "in.zt", tmp_path / "in.zt")
    with pytest.raises(InvalidInput):
        prune(tmp_path / "in.zt", tmp_path / "x.zt", recipe="random")


def test_the_staged_recipe_first_zeroes_the_smaller_half_of_the_tensor(tmp_path):
    values = np.random.default_rng(5).standard_normal((16, 32)).astype(np.float32)
    save_file({"w": values}, tmp_path / "in.zt")
    prune(tmp_path / "in.zt", tmp_path / "out.tbm", recipe="tensorbit")
    squares = values * values
    least = np.sort(squares.reshape(-1))[values.size // 2]
    wanted = oracle(np.where(squares >= least, values, 0), 2, 4)
    with api.open(tmp_path / "out.tbm") as file:
        assert np.array_equal(file["w"].numpy(), wanted)
        assert np.array_equal(np.frombuffer(file["w"].raw("weights"), "<f4"), wanted.reshape(-1))
        assert not verify(file).findings


if shared():

    @pytest.mark.parametrize("pattern", ["2:4", "1:4", "4:8"])
    def test_the_staged_recipe_gives_the_weights_of_the_public_tool(pattern, tmp_path):
        """Weights that tie may differ: which of them stays is up to the tool's standard library."""
        folder = shared() / "vectors/tensorbit/core_models"
        theirs = folder / f"oneshot_{pattern.replace(':', 'of')}.tbm"
        prune(
            folder / "source.safetensors",
            tmp_path / "out.zt",
            pattern=pattern,
            recipe="tensorbit",
            include=["*"],
        )
        with (
            api.open(folder / "source.safetensors") as source,
            api.open(tmp_path / "out.zt") as file,
            api.open(theirs, lenient=True) as known,
        ):
            exact = 0
            for name in known:
                before = source[name].numpy().astype(np.float32).reshape(-1)
                found = file[name].numpy().astype(np.float32).reshape(-1)
                wanted = known[name].numpy().reshape(-1)
                differ = found != wanted
                exact += not differ.any()
                sizes = np.abs(before)
                for group in np.flatnonzero(differ) // int(pattern[-1]):
                    held = sizes.reshape(-1, int(pattern[-1]))[group]
                    assert len(set(held.tolist())) < held.size, (name, group)
            assert exact >= len(known) - 2
