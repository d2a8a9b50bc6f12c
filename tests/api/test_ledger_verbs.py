"""Every verb that writes one model from another, on every kind of source: nothing goes unsaid.

What verbs there are is read from the code, so that a new one has to be entered here.
"""

from __future__ import annotations

import ast
import itertools
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark.conversion import ledger
from tensorark.core.ledger import BY_ARTIFACT, BY_LENIENCE, KINDS
from tensorark.edit.append import append
from tensorark.edit.join import join
from tensorark.edit.merge import merge
from tensorark.edit.metadata import edit_metadata
from tensorark.edit.overlay import delta, overlay
from tensorark.edit.part import part
from tensorark.edit.prune import prune
from tensorark.edit.repack import repack
from tensorark.edit.split import split
from tensorark.edit.tensorbit_repair import mend
from tensorark.ninfer.resources import replace_resources
from tensorark.ninfer.resplit import resplit
from tests.api import test_ledger as made

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "conversions.md"
EVERY = KINDS - BY_LENIENCE
SOURCES = [*itertools.chain(*made.SOURCES.values())]


def base(folder: Path) -> Path:
    """Lay out another model, which has an attribute of its own."""
    path = folder / "base.zt"
    with tensorark.Writer(path, attributes={"b": 1}) as writer:
        writer.add("zz", np.ones((4, 4), "f4"))
    return path


def merged(source, folder, **options):
    return folder / "o.zt", merge(source, folder / "o.zt", **options)


def merged_as_stored(source, folder, **options):
    return folder / "o.zt", merge(source, folder / "o.zt", align=4096, **options)


def divided(source, folder, **options):
    return folder / "o.zt", split(source, folder / "o.zt", max_size=200_000, **options)


def appended(source, folder, **options):
    path = base(folder)
    return path, append(path, source, **options)


def laid_over(source, folder, **options):
    return folder / "o.zt", overlay(base(folder), source, folder / "o.zt", **options)


def told_apart(source, folder, **options):
    return folder / "o.zt", delta(base(folder), source, folder / "o.zt", **options)


def repacked(source, folder, **options):
    return folder / "o.zt", repack(source, folder / "o.zt", **options)


def edited(source, folder, **options):
    shutil.copytree(source.parent, folder / "copy")
    path = folder / "copy" / source.name
    return path, edit_metadata(path, {"new": "1"}, **options)


def edited_anew(source, folder, **options):
    return edited(source, folder, repack=True, **options)


def mended(source, folder, **options):
    return folder / "o.tbm", mend(source, folder / "o.tbm", layers=False, **options)


def joined_first(source, folder, **options):
    return folder / "o.zt", join([source, base(folder)], folder / "o.zt", **options)


def joined_last(source, folder, **options):
    return folder / "o.zt", join([base(folder), source], folder / "o.zt", **options)


def cut(source, folder, **options):
    (done,) = part(source, folder / "o.zt", 1 << 20, **options)
    return Path(done.files[0]), done


def pruned(source, folder, **options):
    done = prune(source, folder / "o.zt", exclude=["*"], **options)
    return folder / "o.zt", done


VERBS = {
    "merge": (merged, merged_as_stored),
    "split": (divided,),
    "append": (appended,),
    "overlay": (laid_over,),
    "delta": (told_apart,),
    "repack": (repacked,),
    "edit_metadata": (edited, edited_anew),
    "mend": (mended,),
    "join": (joined_first, joined_last),
    "part": (cut,),
    "prune": (pruned,),
}
ELSEWHERE = {"convert"}
"""Tried on every target, in `test_ledger`."""

TAKES = {
    repacked: {made.plain, made.later, made.encoded, made.carried},
    edited: {
        *(made.plain, made.later, made.encoded, made.split, made.carried),
        *(made.single, made.annotated),
    },
    edited_anew: {
        *(made.plain, made.later, made.encoded, made.carried),
        *(made.single, made.annotated),
    },
    mended: {made.container, made.orphaned, made.blob, made.directory, made.blobs},
}
"""Verbs that are for some formats only, and the sources of those."""
HUB = {
    merged,
    merged_as_stored,
    divided,
    appended,
    laid_over,
    told_apart,
    joined_first,
    joined_last,
}
HUB |= {pruned}
"""Verbs that write all that an artifact is into a `.zt`."""

CASES = [
    (make, verb)
    for make, verb in itertools.product(SOURCES, itertools.chain(*VERBS.values()))
    if make in TAKES.get(verb, SOURCES)
]


def operations() -> set[str]:
    """Return the names of all functions that read models and write."""
    return {
        node.name
        for path in Path(tensorark.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each).startswith("operation(") for each in node.decorator_list)
    }


def test_every_verb_is_tried_or_the_guide_says_why_nothing_is_lost():
    """When this fails: settle the ledger in the new verb and add it here, or write why not."""
    reasons = GUIDE.read_text("utf-8").partition("## Why others")[2]
    stated = set(re.findall(r"`(\w+)\(", reasons))
    assert operations() == VERBS.keys() | ELSEWHERE | stated
    assert not stated & (VERBS.keys() | ELSEWHERE)


@pytest.mark.parametrize(
    ("make", "verb"), CASES, ids=[f"{verb.__name__}-{make.__name__}" for make, verb in CASES]
)
def test_what_a_verb_loses_is_listed_and_allowed_or_refused(make, verb, tmp_path, monkeypatch):
    for name in ("in", "strict", "out"):
        (tmp_path / name).mkdir()
    source = make(tmp_path / "in")
    asked: Counter[str] = Counter()
    real = ledger.holdings

    def counted(file):
        asked[file.path] += 1
        return real(file)

    monkeypatch.setattr(ledger, "holdings", counted)
    path, done = verb(source, tmp_path / "out", drop=EVERY)
    assert set(asked.values()) <= {1}
    lost = {(each.kind, each.name) for each in done.dropped}
    if lost:
        with pytest.raises(tensorark.Unsupported, match="keeps not all"):
            verb(source, tmp_path / "strict", drop=())
    else:
        assert verb(source, tmp_path / "strict", drop=())[1].dropped == ()
    artifact = {each for each in lost if each[0] in BY_ARTIFACT}
    unseen = {each for each in lost - artifact if not each[1].endswith(" of the entry")}
    kept = {(edited, made.later)} | {(each, made.strayed) for each in HUB}
    assert unseen == (set() if (verb, make) in kept else made.HELD.get(make, set()))
    with tensorark.open(source) as before, tensorark.open(path) as after:
        found = tensorark.diff(before, after)
        ours, theirs = tensorark.metadata_of(after), tensorark.metadata_of(before)
    objects = {name for kind, name in lost if kind in {"objects", "resources"}}
    assert set(found.only_left) == objects | ({made.DESCRIPTION} if artifact else set())
    assert set(found.only_right) <= {"zz"}
    assert not found.changes
    # The order of blobs, which is in what Tensorbit says of a file, is that of the whole.
    changed = (theirs.keys() & set(found.attributes)) - {"tensorbit"}
    assert {key: ours[key] for key in changed} == {key: theirs[key] for key in changed}


def other(folder: Path, **attributes: object) -> Path:
    path = folder / "other.zt"
    with tensorark.Writer(path, attributes=attributes) as writer:
        writer.add("w", made.W)
    return path


def test_an_attribute_with_another_value_is_refused_superseded_or_left_out(tmp_path):
    source, path = other(tmp_path, b=True, c=2), base(tmp_path)
    before = path.read_bytes()
    with pytest.raises(tensorark.Unsupported, match='attributes "b"'):
        append(path, source)
    assert path.read_bytes() == before
    done = append(path, source, drop=["attributes"])
    assert [(each.kind, each.name) for each in done.dropped] == [("attributes", "b")]
    with tensorark.open(path) as file:
        assert repr(file.attributes) == "{'b': 1, 'c': 2}"
    done = append(path, source, replace=True)
    assert (done.dropped, done.superseded) == ((), ("w",))
    with tensorark.open(path) as file:
        assert repr(file.attributes) == "{'b': True, 'c': 2}"


def test_attributes_that_are_given_take_the_place_of_all_and_the_report_says_so(tmp_path):
    done = append(base(tmp_path), other(tmp_path, b=2, c=2), attributes={"c": 2, "d": 1})
    assert [(each.kind, each.name) for each in done.dropped] == [("attributes", "b")]
    with tensorark.open(tmp_path / "base.zt") as file:
        assert file.attributes == {"c": 2, "d": 1}


def test_models_that_are_joined_may_not_contradict_each_other(tmp_path):
    sources = [base(tmp_path), other(tmp_path, b=2, c=2)]
    with pytest.raises(tensorark.Unsupported, match='attributes "b"'):
        join(sources, tmp_path / "o.tbm")
    assert not (tmp_path / "o.tbm").exists()
    done = join(sources, tmp_path / "o.tbm", drop=["attributes"])
    assert [(each.kind, each.name) for each in done.dropped] == [("attributes", "b")]
    assert done.changes == ('left out of other.zt: attributes "b"',)
    with tensorark.open(tmp_path / "o.tbm") as file:
        held = tensorark.metadata_of(file)
    assert (held["b"], held["c"]) == (1, 2)


def test_pieces_say_what_they_leave_out_and_none_is_written_before_all_are_settled(tmp_path):
    source = made.orphaned(tmp_path)
    with pytest.raises(tensorark.Unsupported, match="gaps"):
        part(source, tmp_path / "p.tbm", 1 << 20)
    assert not list(tmp_path.glob("p*"))
    (done,) = part(source, tmp_path / "p.tbm", 1 << 20, drop=["gaps"])
    assert done.changes == ('left out: gaps "bytes 4224 to 4233"',)


@pytest.mark.parametrize("verb", [merge, split])
def test_a_plan_says_what_would_be_lost(verb, tmp_path):
    options = {"max_size": 200_000} if verb is split else {}
    source = made.archive(tmp_path)
    with pytest.raises(tensorark.Unsupported, match='members "notes'):
        verb(source, tmp_path / "o.zt", dry_run=True, **options)
    plan = verb(source, tmp_path / "o.zt", dry_run=True, drop=EVERY, **options)
    assert not list(tmp_path.glob("o*"))
    done = verb(source, tmp_path / "o.zt", drop=EVERY, **options)
    assert {(each.kind, each.name) for each in plan.dropped} == made.HELD[made.archive]
    assert plan.dropped == done.dropped


def test_bytes_of_an_artifact_that_a_verb_has_no_place_for_are_refused(tmp_path):
    source = made.strayed(tmp_path)
    with pytest.raises(tensorark.Unsupported, match="4096 of the entry"):
        resplit(source, tmp_path / "o.ninfer")
    with pytest.raises(tensorark.Unsupported, match="4096 of the entry"):
        replace_resources(source, tmp_path / "o.ninfer", {"template": b"new"})
    tensorark.convert(source, tmp_path / "o.zt")
    with pytest.raises(tensorark.Unsupported, match="before the payload"):
        tensorark.convert(tmp_path / "o.zt", tmp_path / "o.ninfer", artifact_id=bytes(16))
    tensorark.convert(tmp_path / "o.zt", tmp_path / "same.ninfer")
    assert (tmp_path / "same.ninfer").read_bytes() == source.read_bytes()
    data = bytearray(source.read_bytes())
    data[4000] = 0
    source.write_bytes(data)
    with pytest.raises(tensorark.Unsupported, match="payload bytes 128 to 256"):
        replace_resources(source, tmp_path / "o.ninfer", {"template": b"new"})
    resplit(source, tmp_path / "o.ninfer", artifact_id=made.ARTIFACT)
    assert (tmp_path / "o.ninfer").read_bytes()[4096:] == source.read_bytes()[4096:]
