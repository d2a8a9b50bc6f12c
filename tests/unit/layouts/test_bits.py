"""Packing codes into words: by hand, and both ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.layouts.numbers.bits import pack, unpack, unpack_stream

EIGHT = np.arange(8, dtype=np.uint8)


@pytest.mark.parametrize(
    ("word", "msb", "expected"),
    [
        (1, False, "10325476"),
        (4, False, "10325476"),  # the word 0x76543210
        (8, False, None),
        (1, True, "01234567"),
        (2, True, "23016745"),  # the words 0x0123 and 0x4567
        (4, True, "67452301"),  # the word 0x01234567
    ],
)
def test_eight_codes_of_four_bits(word, msb, expected):
    if expected is None:  # a word of 16 codes
        codes, expected = np.concatenate([EIGHT, EIGHT + 8]), "1032547698badcfe"
    else:
        codes = EIGHT
    packed = pack(codes, 4, word, msb=msb)
    assert packed.tobytes().hex() == expected
    assert unpack(packed.data, 4, word, msb=msb).tolist() == codes.tolist()


def test_codes_of_two_bits_in_both_orders():
    codes = np.array([0, 1, 2, 3], np.uint8)
    assert pack(codes, 2).tobytes().hex() == "e4"
    assert pack(codes, 2, msb=True).tobytes().hex() == "1b"


def as_integer(codes, bits, *, msb, word_bits):
    """The words of some codes, as the profile's formula has them, in Python integers."""
    per_word = word_bits // bits
    octets = b""
    for start in range(0, len(codes), per_word):
        word = 0
        for lane, code in enumerate(codes[start : start + per_word]):
            word |= code << (word_bits - bits * (lane + 1) if msb else bits * lane)
        octets += word.to_bytes(word_bits // 8, "little")
    return octets


@given(
    bits=st.sampled_from([2, 4, 8]),
    word=st.sampled_from([1, 2, 4, 8]),
    msb=st.booleans(),
    words=st.integers(0, 5),
    data=st.data(),
)
def test_packing_follows_the_formula_and_comes_back(bits, word, msb, words, data):
    count = words * word * 8 // bits
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count))
    packed = pack(np.array(codes, np.uint8), bits, word, msb=msb)
    assert packed.tobytes() == as_integer(codes, bits, msb=msb, word_bits=8 * word)
    assert unpack(packed.data, bits, word, msb=msb).tolist() == codes


@given(bits=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8]), octets=st.integers(0, 4), data=st.data())
def test_a_stream_of_codes_is_one_large_integer(bits, octets, data):
    count = 8 * octets
    codes = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count))
    stream = sum(code << (bits * place) for place, code in enumerate(codes))
    packed = stream.to_bytes(bits * octets, "little")
    assert unpack_stream(memoryview(packed), bits).tolist() == codes
