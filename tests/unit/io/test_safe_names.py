"""The one rule for names found in files: a plain name, in the same folder, links included."""

import os
from pathlib import Path

import pytest

from tensorark.errors import ReadFailed, Rejected, Unsupported
from tensorark.io.safe_names import beside


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../up",
        "a/b",
        "a/../b",
        "./a",
        "a/",
        "a\\b",
        "..\\up",
        "\\\\server\\share",
        "C:\\weights",
        "weights\0.zt",
        "lone\ud800surrogate",
    ],
)
def test_what_is_not_a_plain_name_is_rejected(tmp_path, name):
    with pytest.raises(Rejected) as caught:
        beside(tmp_path, name)
    assert caught.value.code == "unsafe-name"


NOT_ON_WINDOWS = ["...", "C:", "c:weights", "weights.", "weights.zt...", "weights ", "ab:c"]


@pytest.mark.parametrize("name", NOT_ON_WINDOWS)
def test_what_windows_takes_for_another_name_is_refused_there_alone(tmp_path, monkeypatch, name):
    assert beside(tmp_path, name) == tmp_path / name
    monkeypatch.setattr("tensorark.io.safe_names.os.name", "nt")
    with pytest.raises(Unsupported) as caught:
        beside(str(tmp_path), name)
    assert caught.value.code == "file-name"


@pytest.mark.parametrize(
    "name",
    ["a", "model-00001-of-00002.safetensors", ".hidden", "..a", "ab:c", "ключ", "a b", "-rf"],
)
def test_a_plain_name_is_a_path_in_the_folder(tmp_path, name):
    assert beside(tmp_path, name) == tmp_path / name


def test_a_link_within_the_folder_is_followed(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to("deep/real")
    assert beside(tmp_path, "link").read_bytes() == b"1"


def test_a_folder_reached_by_a_link_is_its_own_home(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"1")
    (tmp_path / "alias").symlink_to("real")
    assert beside(tmp_path / "alias", "a").read_bytes() == b"1"


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "..", ".", "chain"])
def test_a_link_out_of_the_folder_is_refused(tmp_path, target):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_bytes(b"1")
    (home / "chain").symlink_to("../secret")
    (home / "link").symlink_to(target)
    with pytest.raises(ReadFailed) as caught:
        beside(home, "link")
    assert caught.value.code == "unsafe-link"


def test_a_folder_whose_name_begins_alike_is_not_inside(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home2").mkdir()
    (tmp_path / "home2" / "a").write_bytes(b"1")
    (tmp_path / "home" / "link").symlink_to("../home2/a")
    with pytest.raises(ReadFailed):
        beside(tmp_path / "home", "link")


@pytest.fixture
def cache(tmp_path) -> Path:
    """A cache as huggingface_hub lays it out."""
    home = tmp_path / "models--org--name"
    (home / "blobs").mkdir(parents=True)
    (home / "snapshots" / "0a1b" / "onnx").mkdir(parents=True)
    (home / "blobs" / "d34d").write_bytes(b"blob")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_bytes(b"0a1b")
    return home


@pytest.mark.parametrize(
    ("folder", "target"),
    [("snapshots/0a1b", "../../blobs/d34d"), ("snapshots/0a1b/onnx", "../../../blobs/d34d")],
)
def test_a_snapshot_may_link_to_the_blobs_of_its_cache(cache, folder, target):
    (cache / folder / "model.zt").symlink_to(target)
    assert beside(cache / folder, "model.zt").read_bytes() == b"blob"


@pytest.mark.parametrize("target", ["../../refs/main", "../../blobs", "../../../blobs/d34d"])
def test_a_snapshot_may_link_to_nothing_else(cache, target):
    (cache.parent / "blobs").mkdir()
    (cache.parent / "blobs" / "d34d").write_bytes(b"other")
    (cache / "snapshots/0a1b/model.zt").symlink_to(target)
    with pytest.raises(ReadFailed):
        beside(cache / "snapshots/0a1b", "model.zt")


def test_blobs_that_are_a_link_elsewhere_do_not_count(cache):
    outside = cache.parent / "outside"
    (cache / "blobs").rename(outside)
    (cache / "blobs").symlink_to(outside)
    (cache / "snapshots/0a1b/model.zt").symlink_to("../../blobs/d34d")
    with pytest.raises(ReadFailed):
        beside(cache / "snapshots/0a1b", "model.zt")


def test_a_folder_that_is_no_snapshot_may_not_link_to_blobs(cache):
    (cache / "refs" / "model.zt").symlink_to("../blobs/d34d")
    with pytest.raises(ReadFailed):
        beside(cache / "refs", "model.zt")


def test_a_missing_file_and_a_loop_of_links_are_left_to_the_opening(tmp_path):
    assert not os.path.lexists(beside(tmp_path, "missing"))
    (tmp_path / "loop").symlink_to("loop")
    assert beside(tmp_path, "loop") == tmp_path / "loop"
