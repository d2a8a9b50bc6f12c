"""The first and the last number on either side of a bound."""

from __future__ import annotations

import pytest

from tensorark.formats.safetensors.read import sniff
from tensorark.formats.zt.frame import MAGIC, MAX_MANIFEST, encode_footer, parse_frame
from tensorark.formats.zt.frame import manifest_bounds as bounds


@pytest.mark.parametrize(
    ("length", "rest", "verdict"),
    [
        (1, b"{", False),
        (2, b"{", True),
        (2, b"", False),
        ((1 << 40) - 1, b"{", True),
        (1 << 40, b"{", False),
        (2, b"[", False),
    ],
)
def test_where_a_header_may_begin(length, rest, verdict):
    head = length.to_bytes(8, "little") + rest
    assert sniff(head, head, len(head)) is verdict
    assert not sniff(head[:8], head[:8], 8)


@pytest.mark.parametrize(
    ("length", "excess", "faults"),
    [
        (0, 5, 0),
        (1, 0, 0),
        (1, 1, 1),
        (MAX_MANIFEST, 0, 0),
        (MAX_MANIFEST, 1, 1),
        (MAX_MANIFEST + 1, 1, 0),
    ],
)
def test_where_a_manifest_may_end(length, excess, faults):
    size = 4096 + length - excess + 40
    frame = parse_frame(MAGIC, encode_footer(4096, length, 0), size)
    assert len(list(bounds(frame))) == faults
