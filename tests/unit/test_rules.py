"""Rules, faults, and the two ways of asking: the first fault raises, or all are gathered."""

from __future__ import annotations

import copy
import gc
import pickle
import time
import weakref
from contextlib import suppress

import numpy as np
import pytest
import xxhash

from tensorark.core.conversation import drive
from tensorark.core.rules import Fault, Finding, Reading, rule
from tensorark.errors import InvalidInput, NotFound, ReadFailed, Rejected, Unsupported
from tensorark.formats.zt.canonical import judge
from tensorark.formats.zt.frame import FOOTER, MAGIC
from tensorark.formats.zt.read import read
from tensorark.layouts.csr.content import CONTENT_RULES, Csr
from tensorark.wire.cbor import encode
from tests.unit.sources import Memory


@rule("x.even", section="1.2", stage="schema")
def even(numbers):
    """Every number is even.

    This paragraph is none of the requirement.
    """
    for index, number in enumerate(numbers):
        if number % 2:
            yield Fault((index,), "a number is odd", "an even one", number)


@rule("x.small", section="1.3", stage="schema")
def small(numbers):
    """Every number
    is small.
    """
    for index, number in enumerate(numbers):
        if number > 9:
            yield Fault((index,), "a number is large", offset=100 + index)


def test_a_rule_says_what_it_demands_in_one_paragraph():
    assert even.requirement == "Every number is even."
    assert small.requirement == "Every number is small."


def test_the_first_fault_raises():
    with pytest.raises(Rejected) as caught:
        Reading().require((small, even), [2, 3, 5, 11])
    error = caught.value
    assert (error.code, error.section, error.where) == ("x.small", "1.3", (3,))


def test_all_faults_are_gathered_before_the_first_raises():
    gathered: list[Finding] = []
    with pytest.raises(Rejected) as caught:
        Reading(gathered=gathered).require((even, small), [2, 3, 5, 11], lambda where: where[0])
    assert caught.value.code == "x.even"
    found = [(each.rule, each.where, each.offset, each.found) for each in gathered]
    assert found == [
        ("x.even", (1,), 1, 3),
        ("x.even", (2,), 2, 5),
        ("x.even", (3,), 3, 11),
        ("x.small", (3,), 103, None),  # a fault that knows its offset is not asked for it
    ]


def test_of_one_rule_a_thousand_faults_are_gathered_and_that_there_are_more():
    gathered: list[Finding] = []
    reading = Reading(gathered=gathered)
    for numbers in ([1] * 600, [1] * 600 + [10]):  # two documents of one file, such as shards
        with pytest.raises(Rejected, match=r"odd|large"):
            reading.require((even, small), numbers)
    assert [each.rule for each in gathered] == ["x.even"] * 1001 + ["x.small"]
    assert [each.where for each in gathered[999:]] == [(399,), (), (600,)]
    assert "more faults of this rule than the 1,000" in gathered[1000].detail


@pytest.mark.parametrize("count", [999, 1000])
def test_up_to_a_thousand_faults_are_all_there_are(count):
    gathered: list[Finding] = []
    with pytest.raises(Rejected):
        Reading(gathered=gathered).require((even,), [1] * count)
    assert [each.where for each in gathered] == [(index,) for index in range(count)]


@pytest.mark.parametrize("gathered", [None, []])
def test_a_rejection_keeps_nothing_alive(gathered):
    """Not until the collector of cycles comes: the document may be a header of ten megabytes."""

    class Numbers(list):
        pass

    numbers = Numbers([1])
    left = weakref.ref(numbers)
    gc.disable()
    try:
        with suppress(Rejected):
            Reading(gathered=gathered).require((even,), numbers)
        del numbers
        assert left() is None
    finally:
        gc.enable()


def test_nothing_wrong_is_silence():
    gathered: list[Finding] = []
    Reading(gathered=gathered).require((even, small), [2, 4])
    assert gathered == []


def test_a_fault_that_a_parser_met_is_gathered_too():
    gathered: list[Finding] = []
    error = Reading(gathered=gathered).reject(even, Fault((7,), "odd"))
    assert isinstance(error, Rejected)
    assert [each.where for each in gathered] == [(7,)]
    assert Reading().reject(even, Fault((), "odd")).code == "x.even"


# The errors that faults become.


@pytest.mark.parametrize("kind", [Rejected, Unsupported, InvalidInput, NotFound, ReadFailed])
def test_errors_keep_their_fields_when_they_travel(kind):
    error = kind(
        "what",
        code="x.y",
        path="p",
        where=("a", 1),
        offset=2,
        expected=3,
        found="4",
        hint="h",
        section="5",
    )
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)
    assert error.message == "what: expected 3, found 4 [x.y §5, at a[1], byte 2, in p]"
    assert str(error) == error.message + " (hint: h)"


def test_no_error_can_steer_a_terminal_or_fill_it():
    hostile = "\x1b[2J\r\n\u202e" + "x" * 100_000
    error = Rejected(
        f"a {hostile[:5]}", path=hostile[:6], where=(hostile,), expected=hostile, found=hostile
    )
    assert str(error).isprintable()
    assert len(str(error)) < 3000
    assert "\\x1b" in str(error)


def test_what_was_escaped_is_not_escaped_again():
    assert "\\u202e" in str(Rejected("a", where=("\u202e",)))
    assert "\\\\u202e" not in str(Rejected("a", where=("\u202e",)))


# Many faults.


def image(objects) -> bytes:
    text = encode({"objects": objects})
    footer = FOOTER.pack(4096, len(text), xxhash.xxh3_64_intdigest(text), 2, 0, MAGIC)
    return MAGIC.ljust(4096, b"\0") + text + footer


def findings(data: bytes) -> list[Finding]:
    gathered: list[Finding] = []
    source = Memory(data)
    with pytest.raises(Rejected):
        drive(read(source.size, Reading(gathered=gathered)), source)
    return gathered


def plain(offset, length=8, **more):
    part = {"blob": [offset, length], "dtype": "u8"} | more
    return {"parts": {"data": part}, "shape": [length], "layout": "dense"}


MANY = {
    "schema": lambda _: plain(4096, dtype="u9"),
    "names": lambda index: {**plain(4096), "attributes": {"": index}},
    "open": lambda _: plain(100, 4),
    "layouts": lambda index: {**plain(4096, 0), "shape": [index + 1]},
    "overlap": lambda index: plain(4096, index + 4),
}
"""Files where every object is broken. The last one overlaps: all blobs begin at one place."""


@pytest.mark.parametrize("kind", MANY)
def test_a_file_with_nothing_but_faults_is_validated_in_linear_time(kind):
    """Each fault is told with its place and its byte, and the text is not searched for each.

    Of one rule only the first thousand are told, and then that there are more.
    """
    count = 4000
    data = image({f"{index:05}": MANY[kind](index) for index in range(count)})
    if kind == "overlap":
        data = MAGIC + bytes(4088) + bytes(8192) + data[4096:-40]
        text = data[4096 + 8192 :]
        data += FOOTER.pack(12288, len(text), xxhash.xxh3_64_intdigest(text), 2, 0, MAGIC)
    start = time.perf_counter()
    found = findings(data)
    assert time.perf_counter() - start < 4
    last = found.pop()
    assert (last.rule, last.where, last.offset) == (found[0].rule, (), None)
    assert last.detail == "more faults of this rule than the 1,000 that are listed"
    assert len(found) == 1000
    assert all(each.offset is not None for each in found)
    assert len({each.where for each in found}) == 1000


def test_a_blob_is_compared_once_however_many_parts_refer_to_it():
    """Two equal blobs, one of them with a hundred names."""
    digest = "xxh3:" + xxhash.xxh3_64_hexdigest(bytes(8))
    objects = {f"{n:03}": plain(131072 if n else 65536, digest=digest) for n in range(101)}
    text = encode({"objects": objects})
    footer = FOOTER.pack(196608, len(text), xxhash.xxh3_64_intdigest(text), 2, 0, MAGIC)
    source = Memory(MAGIC.ljust(196608, b"\0") + text + footer)
    gathered: list[Finding] = []
    native = drive(read(source.size, Reading()), source).native
    before = source.round_trips
    with pytest.raises(Rejected):
        drive(judge(native, Reading(gathered=gathered)), source)
    assert {each.rule for each in gathered} == {"zt.canonical-sharing"}
    assert len(gathered) == 100
    assert source.round_trips - before == 4  # three gaps, and one pair of blobs


def test_rows_that_make_no_sense_are_one_fault():
    csr = Csr(
        where=(),
        columns=9,
        indptr=np.array([0, 3, 1, 4], "<u4"),
        indices=np.array([1, 2, 3, 0], "<u4"),
    )
    gathered: list[Finding] = []
    with pytest.raises(Rejected):
        Reading(gathered=gathered).require(CONTENT_RULES, csr)
    assert [each.rule for each in gathered] == ["zt.csr-indptr-order"]
