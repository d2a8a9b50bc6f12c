"""What `repr` says of results: one short line, escaped, however much they hold."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark.conversion.cast import Casting
from tensorark.conversion.layers import Recasting
from tensorark.core.brief import brief
from tensorark.edit.account import Mended
from tensorark.edit.prune import Pruning
from tensorark.integrity.openssf import BundleCheck
from tensorark.quantize import Quantized
from tensorark.report.sparsity import Counts

SMALL = {"Span", "Raw", "Encoded", "Part", "Tensor", "Limits"}
PUBLIC = [getattr(tensorark, name) for name in tensorark.__all__ if name not in SMALL]
RESULTS = [each for each in PUBLIC if isinstance(each, type) and is_dataclass(each)]
RESULTS += [BundleCheck, Casting, Counts, Mended, Pruning, Quantized, Recasting]


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_is_one_short_line(kind):
    for much in (tuple(range(5000)), {str(n): n for n in range(5000)}, "x\n\u202e" * 5000):
        text = repr(kind(**{each.name: much for each in fields(kind)}))
        assert text.startswith(kind.__name__ + "(")
        assert len(text) < 400 * (1 + len(fields(kind)))
        assert text.isprintable()
        assert "4999" not in text


@dataclass
class Said:
    name: str
    count: int
    files: tuple[str, ...] = ()
    digests: dict[str, str] | None = None
    inner: object = None

    __repr__ = brief


def test_what_says_nothing_is_left_out_and_few_things_are_shown():
    assert repr(Said("a", 0)) == 'Said(name="a", count=0)'
    few = Said("a", 1, ("x", "y"), {"xxh3": "0f"}, Said("b", 2))
    assert repr(few) == (
        'Said(name="a", count=1, files=("x", "y"), digests={"xxh3": "0f"}, '
        'inner=Said(name="b", count=2))'
    )
    many = Said("a", 1, ("x",) * 1200, None, object())
    assert repr(many) == 'Said(name="a", count=1, files=<1,200>, inner=<object>)'


def test_results_of_large_models_are_short(tmp_path):
    a, b = tmp_path / "a.zt", tmp_path / "b.zt"
    ark.save_file({f"left.{n}": np.ones(2, "f4") for n in range(300)}, a)
    ark.save_file({f"right.{n}": np.ones(2, "f4") for n in range(300)}, b)
    found = tensorark.diff(a, b)
    assert repr(found) == "Difference(only_left=<300>, only_right=<300>, equal=0)"
    assert len(repr(tensorark.seal(a))) < 300
    with tensorark.open(a) as file:
        assert len(repr(file.catalog)) < 200
