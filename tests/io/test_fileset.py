"""A set is the old one or the new one, for every reader that follows its root."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import tensorark
import tensorark.numpy
from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io import fileset
from tensorark.io import publish as publish_module
from tensorark.io.fileset import fresh, own_numbered, publish_folder, publish_set
from tensorark.io.publish import publish


@pytest.mark.parametrize("named", [False, True])
def test_the_shards_of_a_replaced_zt_go_on_systems_where_files_have_names_at_once(
    tmp_path, monkeypatch, named
):
    if named:
        monkeypatch.setattr(publish_module, "_open_unnamed", lambda *_: None)
    for number in (1, 2):
        arrays = {f"w{i}": np.full(1500, number + i, "f4") for i in range(3)}
        tensorark.numpy.save_file(arrays, tmp_path / "source.zt")
        tensorark.split(
            tmp_path / "source.zt", tmp_path / "m.zt", max_size=80_000, overwrite=number > 1
        )
    assert [name for name in names_in(tmp_path) if name.startswith("m-")] == [
        f"m-r1-0000{i}-of-00003.zt" for i in (1, 2, 3)
    ]


def members(root: Path) -> list[str]:
    try:
        return [str(each) for each in json.loads(root.read_text())]
    except (TypeError, ValueError) as error:
        raise tensorark.Rejected("no root") from error


owns = re.compile("([0-9]-)?[a-c]").fullmatch


def write(root, names, data, *, overwrite=True):
    def of_turn(turn):
        return [f"{turn}-{name}" if turn else name for name in names]

    named = fresh(root, of_turn, overwrite=overwrite)
    with publish_set(root, named, overwrite=overwrite, members=members, owns=owns) as made:
        entry, sinks = made
        for sink in sinks:
            sink.write(data)
        entry.write(json.dumps(named).encode())
    return named


def content(root):
    return [root.with_name(name).read_bytes() for name in members(root)]


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_new_set_has_the_names_that_were_asked_for(tmp_path):
    assert write(tmp_path / "r", ["a", "b"], b"1", overwrite=False) == ["a", "b"]
    assert content(tmp_path / "r") == [b"1", b"1"]
    assert names_in(tmp_path) == ["a", "b", "r"]


def test_a_set_that_replaces_another_has_other_names_and_the_old_files_go(tmp_path):
    (tmp_path / "mine").write_bytes(b"of the user")
    write(tmp_path / "r", ["a", "b", "c"], b"1")
    assert write(tmp_path / "r", ["a", "b"], b"2") == ["1-a", "1-b"]
    assert names_in(tmp_path) == ["1-a", "1-b", "mine", "r"]
    assert write(tmp_path / "r", ["a"], b"3") == ["a"]
    assert names_in(tmp_path) == ["a", "mine", "r"]


def test_what_another_root_names_stays(tmp_path):
    write(tmp_path / "r", ["a", "b"], b"1")
    (tmp_path / "s").write_text('["b"]')
    write(tmp_path / "r", ["a", "b"], b"2")
    assert names_in(tmp_path) == ["1-a", "1-b", "b", "r", "s"]


def test_names_of_strangers_are_never_taken(tmp_path):
    (tmp_path / "a").write_bytes(b"of the user")
    with pytest.raises(InvalidInput) as caught:
        write(tmp_path / "r", ["a"], b"1", overwrite=False)
    assert caught.value.code == "exists"
    assert write(tmp_path / "r", ["a"], b"1") == ["1-a"]
    assert (tmp_path / "a").read_bytes() == b"of the user"


def test_only_names_that_members_have_are_ever_removed(tmp_path):
    """A root is input, and so is the list of names that a dead writer left."""
    for name in ("a", "mine", "other"):
        (tmp_path / name).write_bytes(b"of the user")
    (tmp_path / "r").write_text('["a", "mine"]')
    (tmp_path / ".r.0123456789abcdef.set").write_text('["1-a", "other"]')
    assert write(tmp_path / "r", ["a"], b"1") == ["1-a"]
    assert names_in(tmp_path) == ["1-a", "mine", "other", "r"]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("m-00001-of-00003.zt", True),
        ("m-r12-00001-of-00003.zt", True),
        ("m-100000-of-100000.zt", True),
        ("m-r0-00001-of-00003.zt", False),
        ("m-1-of-3.zt", False),
        ("m-lora.zt", False),
        ("mm-00001-of-00003.zt", False),
        ("m-00001-of-00003.zt.json", False),
        ("x/m-00001-of-00003.zt", False),
    ],
)
def test_members_are_owned_by_their_number(name, own):
    assert bool(own_numbered("m", ".zt")(name)) is own


@pytest.mark.parametrize("at", range(8))
def test_an_error_at_any_step_leaves_the_old_set_as_it_was(tmp_path, monkeypatch, at):
    write(tmp_path / "r", ["a", "b"], b"old")
    before = {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)}
    steps = []

    def failing(real):
        def step(*args, **how):
            steps.append(real)
            if len(steps) == at + 1:
                raise OSError(5, os.strerror(5))
            return real(*args, **how)

        return step

    with monkeypatch.context() as patched:
        for name in ("fsync", "link"):
            patched.setattr(os, name, failing(getattr(os, name)))
        patched.setattr(Path, "replace", failing(Path.replace))
        try:
            write(tmp_path / "r", ["a", "b"], b"new")
        except tensorark.Error:
            if content(tmp_path / "r")[0] == b"old":
                assert {n: (tmp_path / n).read_bytes() for n in names_in(tmp_path)} == before
    assert content(tmp_path / "r") in ([b"old"] * 2, [b"new"] * 2)


def test_what_a_dead_writer_left_is_cleared_by_the_next_one(tmp_path):
    write(tmp_path / "r", ["a", "b"], b"old")
    (tmp_path / "1-a").write_bytes(b"new, and no root names it")
    (tmp_path / ".r.0123456789abcdef.set").write_text(
        '["1-a", "a\\u0000b", "", ".", "..", "1-b", "a", "b", "../x", 5]'
    )
    write(tmp_path / "r", ["a", "b"], b"newer")
    assert names_in(tmp_path) == ["2-a", "2-b", "r"]
    assert content(tmp_path / "r") == [b"newer"] * 2


class UnsyncedFolders:
    """Lets the syncing of folders fail from call number `at` on; files are synced."""

    def __init__(self, monkeypatch, at):
        self.at, self.calls, self.real = at, 0, os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor):
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return self.real(descriptor)
        self.calls += 1
        if self.calls > self.at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return None


@pytest.mark.parametrize("at", range(3))
def test_the_error_says_what_stands_when_folders_of_a_set_cannot_be_synced(
    tmp_path, monkeypatch, at
):
    write(tmp_path / "r", ["a", "b"], b"old")
    before = names_in(tmp_path)
    with monkeypatch.context() as patched:
        unsynced = UnsyncedFolders(patched, at)
        with pytest.raises(ReadFailed) as caught:
            write(tmp_path / "r", ["a", "b"], b"new")
        assert unsynced.calls == at + 1
    assert caught.value.path == str(tmp_path / "r")
    if at < 2:  # for the list of names, and before the root
        assert caught.value.code == "write-failed"
        assert content(tmp_path / "r") == [b"old"] * 2
        assert names_in(tmp_path) == before
        return
    assert caught.value.code == "not-durable"
    assert content(tmp_path / "r") == [b"new"] * 2
    assert {"a", "b"} < set(names_in(tmp_path))  # should the old root come back
    write(tmp_path / "r", ["c"], b"newer")
    assert names_in(tmp_path) == ["c", "r"]


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("at", range(2))
def test_the_error_says_what_stands_when_a_folder_cannot_be_synced(
    tmp_path, monkeypatch, at, inner
):
    def fill(data):
        with publish_folder(tmp_path / "d", overwrite=True, owns=lambda name: name == "a") as made:
            if inner:
                with publish(made / "a", overwrite=False) as sink:
                    sink.write(data)
            else:
                (made / "a").write_bytes(data)

    fill(b"old")
    with monkeypatch.context() as patched:
        UnsyncedFolders(patched, at + inner if at else 0)
        with pytest.raises(ReadFailed) as caught:
            fill(b"new")
    assert caught.value.path == str(tmp_path / "d")
    assert caught.value.code == ("not-durable" if at else "write-failed")
    assert (tmp_path / "d/a").read_bytes() == (b"new" if at else b"old")
    if not at:
        assert names_in(tmp_path) == ["d"]
    fill(b"newer")
    assert names_in(tmp_path) == ["d"]


def test_what_a_writer_could_not_remove_inside_of_a_folder_goes_with_it(tmp_path):
    goal = tmp_path / "d"
    goal.mkdir()
    (goal / ".r.0123456789abcdef.set").write_text("[]")
    (goal / ".a.0123456789abcdef.partial").write_text("half")
    with publish_folder(goal, overwrite=True, owns=lambda name: name == "a") as folder:
        (folder / "a").write_text("new")
    assert names_in(goal) == ["a"]
    (goal / ".a.0123456789abcdef.partial").symlink_to("a")
    (goal / ".mine").write_text("of the user")
    with (
        pytest.raises(InvalidInput) as caught,
        publish_folder(goal, overwrite=True, owns=lambda name: name == "a"),
    ):
        pytest.fail("nothing may be written")
    assert caught.value.code == "exists"


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_folder_is_replaced_as_a_whole(tmp_path, monkeypatch, exchanged):
    if not exchanged:
        monkeypatch.setattr(fileset, "exchange", lambda *_: False)
    goal = tmp_path / "d"
    for number, names in enumerate((["a", "b"], ["b", "c"])):
        with publish_folder(goal, overwrite=True, owns=lambda name: name in "abc") as folder:
            for name in names:
                (folder / name).write_text(str(number))
        assert names_in(goal) == names
        assert names_in(tmp_path) == ["d"]
    with (
        pytest.raises(ZeroDivisionError),
        publish_folder(goal, overwrite=True, owns=lambda name: name in "abc") as folder,
    ):
        (folder / "a").write_text(str(1 / 0))
    assert names_in(goal) == ["b", "c"]
    (goal / "mine").write_text("of the user")
    for overwrite in (False, True):
        with (
            pytest.raises(InvalidInput) as caught,
            publish_folder(goal, overwrite=overwrite, owns=lambda name: name in "abc"),
        ):
            pytest.fail("nothing may be written")
        assert caught.value.code == "exists"
    assert names_in(goal) == ["b", "c", "mine"]
    assert names_in(tmp_path) == ["d"]


@pytest.mark.parametrize("before", [None, "empty", "full"])
def test_a_folder_and_its_name_are_on_the_disk_when_the_block_has_ended(
    tmp_path, monkeypatch, before
):
    """What a folder holds goes first: a name that survives a power cut must not lead to nothing."""
    goal, synced, real = tmp_path / "d", [], os.fsync
    if before is not None:
        goal.mkdir()
    if before == "full":
        (goal / "a").write_text("old")

    def patched(descriptor):
        synced.append((os.fstat(descriptor).st_ino, (goal / "b").exists()))
        real(descriptor)

    with publish_folder(goal, overwrite=True, owns=lambda _: True) as folder:
        (folder / "b").write_text("new")
        (folder / "c").mkdir()
        inner = [folder.stat().st_ino, (folder / "c").stat().st_ino]
        monkeypatch.setattr(os, "fsync", patched)
    outer = tmp_path.stat().st_ino
    assert [each for each, is_revealed in synced if not is_revealed] == inner
    assert [each for each, is_revealed in synced if is_revealed] == [outer]


def test_a_folder_behind_a_link_is_not_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "d").symlink_to("real")
    with (
        pytest.raises(InvalidInput) as caught,
        publish_folder(tmp_path / "d", overwrite=True, owns=lambda _: True),
    ):
        pytest.fail("nothing may be written")
    assert caught.value.code == "not-a-folder"
    assert names_in(tmp_path) == ["d", "real"]


def test_a_folder_that_a_dead_writer_moved_away_comes_back(tmp_path):
    (tmp_path / ".d.0123456789abcdef.replaced").mkdir()
    (tmp_path / ".d.0123456789abcdef.replaced/a").write_text("old")
    (tmp_path / ".d.0123456789abcdef.partial").mkdir()
    with (
        pytest.raises(InvalidInput),
        publish_folder(tmp_path / "d", overwrite=False, owns=lambda _: True),
    ):
        pass
    assert (tmp_path / "d/a").read_text() == "old"
    assert names_in(tmp_path) == ["d"]


# ------------------------------------------------------------------------- the identity of a set


@pytest.fixture
def sharded(tmp_path):
    """Make a sharded safetensors in a folder of its own; return its index."""

    def make(name, value, metadata=None, *, folder=None):
        arrays = {f"t{i}": np.full(64, value + i, "f4") for i in range(4)}
        source = tmp_path / f"{name}.zt"
        tensorark.numpy.save_file(arrays, source, metadata)
        folder = folder or tmp_path / name
        folder.mkdir(exist_ok=True)
        tensorark.convert(source, folder / "model.safetensors", max_shard_size=900, overwrite=True)
        return folder / "model.safetensors.index.json"

    return make


def test_shards_of_another_set_are_seen(sharded):
    first, second = sharded("first", 0.0), sharded("second", 1.0)
    shards = sorted(first.parent.glob("*.safetensors"))
    assert len(shards) > 1
    shutil.copy(second.parent / shards[0].name, shards[0])
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.open(first)
    assert caught.value.code == "safetensors.set-mixed"
    assert shards[0].name in str(caught.value)


@pytest.mark.parametrize(
    "metadata", [None, {}, {"format": "pt"}, {"k": "v"}, {"epoch": 3}, {"format": "tf", "k": "v"}]
)
def test_the_identity_of_a_set_is_no_attribute_of_the_model(sharded, tmp_path, metadata):
    index = sharded("m", 0.0, metadata)
    again = sharded("again", 0.0, metadata)
    assert {each.name: each.read_bytes() for each in index.parent.iterdir()} == {
        each.name: each.read_bytes() for each in again.parent.iterdir()
    }
    tensorark.convert(index, tmp_path / "back.zt")
    assert (tmp_path / "back.zt").read_bytes() == (tmp_path / "m.zt").read_bytes()
    for shard in index.parent.glob("*.safetensors"):
        with tensorark.open(shard) as file:
            assert "tensorark.set" not in file.attributes
            header = shard.read_bytes()[8:600]
        assert b'"tensorark.set"' in header
        assert b'"format"' in header  # transformers takes no metadata without it


def test_a_set_is_replaced_in_one_step_for_whoever_follows_the_index(sharded):
    index = sharded("m", 0.0)
    before = {each.name for each in index.parent.iterdir()}
    sharded("other", 7.0, folder=index.parent)
    after = {each.name for each in index.parent.iterdir()}
    assert before & after == {index.name}
    with tensorark.open(index) as file:
        assert file["t0"][0] == 7


@pytest.mark.parametrize("last", ["a", "b", "r"])
@pytest.mark.parametrize("before", [False, True])
def test_an_exception_right_behind_a_name_that_is_given(tmp_path, monkeypatch, last, before):
    """As that of a signal, which comes when it likes."""
    if before:
        write(tmp_path / "r", ["a", "b"], b"1")
    real = fileset.StagedFile.reveal

    def interrupted(staged):
        real(staged)
        if staged.target.name.removeprefix("1-") == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(fileset.StagedFile, "reveal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "r", ["a", "b"], b"2")
    if last == "r":
        assert content(tmp_path / "r") == [b"2", b"2"]
    else:
        assert names_in(tmp_path) == (["a", "b", "r"] if before else [])
        assert not before or content(tmp_path / "r") == [b"1", b"1"]
    monkeypatch.undo()
    named = write(tmp_path / "r", ["a", "b"], b"3")
    assert names_in(tmp_path) == sorted([*named, "r"])


@pytest.mark.parametrize("text", [b"", b'["a', b"\xff", b"[" * 100_000])
def test_a_list_of_names_that_was_not_finished_is_cleared(tmp_path, text):
    write(tmp_path / "r", ["a"], b"1")
    journal = tmp_path / ".r.0123456789abcdef.set"
    journal.write_bytes(text)
    write(tmp_path / "r", ["b"], b"2")
    assert names_in(tmp_path) == ["b", "r"]


def test_two_folders_are_exchanged_in_one_step_or_not_at_all(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "said").write_text(name)
    done = fileset.exchange(tmp_path / "a", tmp_path / "b")
    said = [(tmp_path / name / "said").read_text() for name in ("a", "b")]
    assert said == (["b", "a"] if done else ["a", "b"])
    with pytest.raises(OSError, match="No such file"):
        fileset.exchange(tmp_path / "a", tmp_path / "none") or (tmp_path / "none").stat()
    assert names_in(tmp_path) == ["a", "b"]
