"""The Hadamard transform against a matrix built from its definition, and published values."""

from __future__ import annotations

import numpy as np
import pytest

from tensorark.errors import InvalidInput
from tensorark.layouts.numbers.hadamard import are_signs, inverse_hadamard_transform
from tests.unit.layouts.test_ninfer import INDEX, floats, vector


def hadamard_transform(values, signs):
    """What the inverse undoes: the signs, then the transform, which is its own inverse."""
    turned = np.asarray(values).astype(np.float32) * signs
    return inverse_hadamard_transform(turned, np.ones(np.shape(signs), np.float32))


def sylvester(size: int) -> np.ndarray:
    """Entry (i, j) is -1 to the number of ones that i and j have in common."""
    numbers = np.arange(size)
    common = numbers[:, np.newaxis] & numbers
    ones = np.array([[int(each).bit_count() for each in row] for row in common])
    return 1.0 - 2.0 * (ones % 2)


def test_the_transform_is_that_of_the_definition():
    rng = np.random.default_rng(1)
    values = rng.standard_normal((3, 2048)).astype(np.float32)
    signs = rng.choice([-1.0, 1.0], 2048).astype(np.float32)
    blocks = (values * signs).astype(np.float64).reshape(3, 2, 1024)
    expected = (blocks @ sylvester(1024) / 32).reshape(3, 2048)
    found = hadamard_transform(values, signs)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-5
    assert np.abs(inverse_hadamard_transform(found, signs) - values).max() < 1e-5


@pytest.mark.parametrize("case", INDEX.get("hadamard", ()), ids=lambda case: case["id"])
def test_published_values_are_met(case):
    found = hadamard_transform(vector(case["input"]), floats(vector(case["signs"])))
    assert np.abs(found - vector(case["output"])).max() < 1e-6


def test_a_unit_vector_becomes_a_row_of_signs():
    values = np.zeros(1024, np.float32)
    values[1] = 32
    found = hadamard_transform(values, np.ones(1024, np.float32))
    assert found[:4].tolist() == [1, -1, 1, -1]


def test_inputs_that_cannot_be_rotated_are_refused():
    signs = np.ones(1024, np.float32)
    with pytest.raises(InvalidInput, match="whole blocks"):
        inverse_hadamard_transform(np.zeros(1000, np.float32), signs)
    with pytest.raises(InvalidInput, match="whole blocks") as caught:
        inverse_hadamard_transform(np.float32(1), signs)
    assert caught.value.found == 0
    with pytest.raises(InvalidInput, match="not the signs"):
        inverse_hadamard_transform(np.zeros(2048, np.float32), signs)
    signs[7] = 0.5
    assert not are_signs(signs)
    with pytest.raises(InvalidInput, match="not the signs"):
        inverse_hadamard_transform(np.zeros(1024, np.float32), signs)


def test_the_input_is_left_alone():
    values = np.ones(1024, np.float32)
    inverse_hadamard_transform(values, -np.ones(1024, np.float32))
    assert (values == 1).all()
