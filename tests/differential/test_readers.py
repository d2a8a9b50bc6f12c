"""Our reader, the minimal one of the corpus and the public package say the same of any file.

Every difference stands in one of the tables below, with its reason; those with the public package
are rows of docs/formats/zt.md as well.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tensorark
from conformance.zt.build import cbor
from tensorark.layouts.parts import TensorParts
from tests.differential import mutants, readers
from tests.differential.mutants import Image
from tests.differential.readers import Answer
from tests.property.images import image as stored

DOCS = Path(__file__).resolve().parents[2] / "docs" / "formats" / "zt.md"
SECONDS = int(os.environ.get("TENSORARK_CAMPAIGN", "180"))
"""How long the campaign runs."""


@dataclass(frozen=True, slots=True)
class Case:
    """A file and what was said of it."""

    data: bytes
    ours: Answer
    theirs: Answer


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict in which we differ on purpose; `row` begins the line of the page that says so."""

    row: str
    applies: Callable[[Case], bool]


# Layouts of which the public package judges nothing when it opens a file (§5.2).
UNJUDGED = ("zt.coo-", "zt.quant-", "zt.mx-", "zt.gguf-", "mlx.", "tensorbit.", "tb.", "ninfer.")


def only(answer: Answer, *prefixes: str) -> bool:
    return bool(answer.rules) and all(rule.startswith(prefixes) for rule in answer.rules)


OPENING = (
    Difference(
        "size equation past 2^64",
        lambda case: case.theirs.accepts and only(case.ours, "zt.dense-size"),
    ),
    Difference(
        "what a manifest says of objects in other layouts than `dense` and `zt.sparse_csr/1`",
        lambda case: case.theirs.accepts and only(case.ours, *UNJUDGED),
    ),
    Difference(
        "opening a root",
        lambda case: case.ours.accepts and not case.theirs.accepts and b"fshards" in case.data,
    ),
)

VERIFYING = (
    Difference(
        "the inside of sparse layouts",
        lambda case: case.theirs.accepts and only(case.ours, "zt.csr-"),
    ),
    Difference(
        "odd nibble of f4 in sparse values",
        lambda case: case.theirs.accepts and only(case.ours, "zt.f4-padding"),
    ),
    Difference(
        "zstd frames without a checksum",
        lambda case: case.theirs.accepts and only(case.ours, "zt.zstd-"),
    ),
)


@pytest.mark.parametrize("difference", [*OPENING, *VERIFYING], ids=lambda each: each.row[:20])
def test_each_difference_is_a_row_of_the_page(difference):
    rows = DOCS.read_text().split("## Where we differ")[1].splitlines()
    assert [row for row in rows if row.startswith("| " + difference.row)]


# The minimal reader interprets `dense` alone (§11), and looks at no value under a key that is none.

BEYOND_THE_MINIMAL_READER = ("zt.csr-", "zt.zstd-", *UNJUDGED)
NO_KEY = {"zt.name-text", "zt.shard-name"}


def trouble_when_opening(path: Path, data: bytes) -> str | None:
    """Compare what the three readers say of a file; return what is not explained."""
    path.write_bytes(data)
    ours, minimal, theirs = readers.ours(path), readers.reference(path), readers.public(path)
    if ours.crash or minimal.crash:
        return f"ours: {ours.crash}; the minimal one: {minimal.crash}"
    rules = {rule for rule in ours.rules if not rule.startswith(BEYOND_THE_MINIMAL_READER)}
    if minimal.rules & NO_KEY:
        rules &= minimal.rules
    # Layouts are judged before overlap, and a stage is only reached if those before found nothing.
    theirs_alone = {"zt.blob-overlap"} if ours.rules and not rules else set()
    if bool(rules) != bool(minimal.rules - theirs_alone):
        return f"ours: {set(ours.rules)}, the minimal one: {set(minimal.rules)}"
    if not rules <= minimal.rules:
        return f"ours: {set(ours.rules)}, the minimal one only: {set(minimal.rules)}"
    if ours.accepts and (ours.shapes, ours.digest) != (minimal.shapes, minimal.digest):
        return f"contents: ours {ours}, the minimal one {minimal}"
    if ours.accepts != theirs.accepts:
        case = Case(data, ours, theirs)
        if not any(each.applies(case) for each in OPENING):
            return f"ours: {set(ours.rules)}, the public one: {set(theirs.rules)} {theirs.crash}"
    elif ours.accepts and (ours.shapes, ours.parts) != (theirs.shapes, theirs.parts):
        return f"contents: ours {ours}, the public one {theirs}"
    return None


def trouble_with_content(path: Path, data: bytes) -> str | None:
    """Compare what they say of the payload of a file that opens, and of its canonical form."""
    path.write_bytes(data)
    if not readers.ours(path).accepts or b"fshards" in data:
        return None
    ours, minimal = readers.our_verdict(path), readers.reference(path, "verify")
    rules = {rule for rule in ours if not rule.startswith(BEYOND_THE_MINIMAL_READER)}
    # The minimal one stops at the first part, and refuses to judge what it cannot decode.
    if not minimal.crash and bool(rules) != bool(minimal.rules):
        return f"verified: ours {set(ours)}, the minimal one {set(minimal.rules)} {minimal.crash}"
    theirs = readers.their_verdict(path)
    case = Case(data, Answer(ours), Answer(crash=theirs))
    if bool(ours) != bool(theirs) and not any(each.applies(case) for each in VERIFYING):
        return f"verified: ours {set(ours)}, the public one {theirs}"
    canonical, minimal = readers.broken_canonical(path), readers.reference(path, "canonical")
    if bool(canonical) != bool(minimal.rules):
        return f"canonical: ours {set(canonical)}, the minimal one {set(minimal.rules)}"
    return None


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> list[Image]:
    return mutants.valid(random.Random("valid"), tmp_path_factory.mktemp("valid"), 24)


def test_valid_files_are_read_alike(images, tmp_path):
    for image in images:
        assert tensorark_accepts(image, tmp_path)
        assert trouble_when_opening(tmp_path / "m.zt", image.data) is None
        assert trouble_with_content(tmp_path / "m.zt", image.data) is None


def tensorark_accepts(image: Image, folder: Path) -> bool:
    (folder / "m.zt").write_bytes(image.data)
    return tensorark.validate(folder / "m.zt") == []


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_judged_alike(images, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(500):
        data = mutants.mutated(rng.choice(images), rng)
        assert trouble_when_opening(tmp_path / "m.zt", data) is None, number


@pytest.mark.parametrize("seed", range(2))
def test_damaged_payload_is_judged_alike(images, tmp_path, seed):
    rng = random.Random(seed)
    for number in range(250):
        data = mutants.damaged(rng.choice(images), rng)
        assert trouble_with_content(tmp_path / "m.zt", data) is None, number


@pytest.mark.long
def test_a_campaign(tmp_path):
    """Runs on fresh files for TENSORARK_CAMPAIGN seconds; a failure names the seed."""
    first = int.from_bytes(os.urandom(4))
    end = time.monotonic() + SECONDS
    count = accepted = 0
    for seed in range(first, first + (1 << 32)):
        if time.monotonic() > end:
            break
        rng = random.Random(seed)
        for image in mutants.valid(rng, tmp_path, 4):
            assert trouble_when_opening(tmp_path / "m.zt", image.data) is None, seed
            for _ in range(20):
                data = mutants.mutated(image, rng)
                assert trouble_when_opening(tmp_path / "m.zt", data) is None, seed
                data = mutants.damaged(image, rng)
                assert trouble_with_content(tmp_path / "m.zt", data) is None, seed
                count += 2
            accepted += 1
    print(f"{count} mutants of {accepted} files, seeds from {first}")  # noqa: T201 - for who waits


# One file for each difference, so that the tables say nothing that is not so.


def built(objects: dict[str, object], payload: bytes = b"", **root: object) -> bytes:
    body = b"\x89ZT2\r\n\x1a\n".ljust(4096, b"\0") + payload.ljust(4096, b"\0")
    return Image(body, cbor.encode({"objects": objects, **root})).data


def part(length: int, dtype: str = "u8", **more: object) -> dict[str, object]:
    return {"blob": [4096, length], "dtype": dtype, **more}


EXAMPLES = {
    "size equation past 2^64": built(
        {"t": {"parts": {"data": part(8, "f32")}, "shape": [1 << 63], "layout": "dense"}}
    ),
    "what a manifest says of objects in other layouts than `dense` and `zt.sparse_csr/1`": built(
        {"t": {"parts": {"data": part(8)}, "shape": [8], "layout": "zt.sparse_coo/1"}}
    ),
    "opening a root": built(
        {"t": {"parts": {"data": part(8, shard="s")}, "shape": [8], "layout": "dense"}},
        shards={"s": {"size": 8192, "digest": "xxh3:00"}},
    ),
}


@pytest.mark.parametrize("difference", OPENING, ids=lambda each: each.row[:20])
def test_each_difference_in_opening_is_there(difference, tmp_path):
    path = tmp_path / "m.zt"
    path.write_bytes(EXAMPLES[difference.row])
    case = Case(path.read_bytes(), readers.ours(path), readers.public(path))
    assert [each.row for each in OPENING if each.applies(case)] == [difference.row]
    if not case.ours.accepts:
        with tensorark.open(path, structural=True) as file:
            assert list(file) == ["t"]


def test_the_odd_nibble_of_sparse_values_is_judged_by_us_alone(tmp_path):
    path = tmp_path / "m.zt"
    parts = {
        role: (("u32", None), [np.array(held, "<u4").tobytes()])
        for role, held in {"indptr": [0, 1], "indices": [0]}.items()
    }
    parts["values"] = (("u8", "f4_e2m1"), [b"\x22"])
    laid = TensorParts(shape=(1, 1), layout="zt.sparse_csr/1", parts=parts)
    path.write_bytes(stored({"t": laid}))
    case = Case(b"", Answer(readers.our_verdict(path)), Answer(crash=readers.their_verdict(path)))
    assert [each.row for each in VERIFYING if each.applies(case)] == [
        "odd nibble of f4 in sparse values"
    ]


def test_a_mutant_is_the_same_for_the_same_seed(tmp_path):
    first, second = (
        [image.data for image in mutants.valid(random.Random(7), tmp_path, 6)] for _ in range(2)
    )
    assert first == second
    images = mutants.valid(random.Random(7), tmp_path, 6)
    once, twice = ([mutants.mutated(each, random.Random(3)) for each in images] for _ in range(2))
    assert once == twice
    assert sum(each != image.data for each, image in zip(once, images, strict=True)) > 2
