"""What is missing or forbidden is what Python calls that, and one of our six classes too."""

from __future__ import annotations

import errno
import os
import pickle

import pytest

import tensorark
import tensorark.numpy as ark
from tensorark.errors import Error, ReadFailed


@pytest.mark.parametrize(
    "code", ["missing-file", "missing-shard", "missing-folder", "missing-resource"]
)
def test_what_is_missing_is_a_file_not_found(code):
    error = ReadFailed("gone", code=code, path="x", where=("shards", "x"), hint="look")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(each, FileNotFoundError)
        assert isinstance(each, ReadFailed)
        assert isinstance(each, Error)
        assert (each.errno, each.filename, each.code) == (errno.ENOENT, "x", code)
        assert (each.where, each.hint, each.exit_code) == (("shards", "x"), "look", 5)
        assert str(each) == str(error)


@pytest.mark.parametrize("code", [None, "short-read", "changed", "write-failed", "url"])
def test_other_failures_are_not(code):
    error = ReadFailed("no", code=code)
    assert type(error) is ReadFailed
    assert (error.errno, error.filename) == (None, None)


def test_the_number_of_the_system_is_kept():
    with pytest.raises(ReadFailed) as caught:
        raise ReadFailed("no", path="x") from OSError(errno.EIO, "io")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "x")


def test_opening_what_is_not_there(tmp_path):
    for call in (tensorark.open, tensorark.verify, tensorark.validate, ark.load_file):
        with pytest.raises(FileNotFoundError, match="no such file") as caught:
            call(tmp_path / "gone.zt")
        assert caught.value.filename == str(tmp_path / "gone.zt")
        assert caught.value.errno == errno.ENOENT


def test_what_may_not_be_read_is_a_permission_error(tmp_path, monkeypatch):
    path = tmp_path / "a.zt"
    path.write_bytes(b"x")

    def refuse(*_facts, **_more):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        tensorark.open(path)
    assert isinstance(caught.value, ReadFailed)
    assert (caught.value.errno, caught.value.code) == (errno.EACCES, "forbidden")


def test_documents_name_one_of_the_six(tmp_path, capsys):
    from tensorark.cli import main

    assert main(["verify", "--json", str(tmp_path / "gone.zt")]) == 5
    assert '"ReadFailed"' in capsys.readouterr().out
