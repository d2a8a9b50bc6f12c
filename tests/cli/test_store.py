"""--store: shards, and the base of an overlay, in a folder of their own, for every verb."""

import pickle

import numpy as np
import pytest

import tensorark
from tensorark import files
from tensorark.files.shards import digest_of_file
from tensorark.numpy import save_file


@pytest.fixture
def homes(tmp_path):
    """A root without its shards, an overlay without its base, and the folder that has them."""
    save_file({f"layers.{n}.w": np.full(4, n, np.float32) for n in range(3)}, tmp_path / "m.zt")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    tensorark.split(tmp_path / "m.zt", here / "root.zt", by="layer")
    save_file({"layers.1.w": np.ones(4, np.float32)}, tmp_path / "c.zt")
    tensorark.overlay(tmp_path / "m.zt", tmp_path / "c.zt", tmp_path / "over.zt")
    (tmp_path / "over.zt").rename(here / "over.zt")
    (tmp_path / "m.zt").rename(there / "m.zt")
    for each in here.glob("root-*"):
        each.rename(there / each.name)
    return here, there


VERBS = ["ls", "show", "tree", "stat", "verify", "id", "seal", "diff", "merge", "convert", "doctor"]


@pytest.mark.parametrize("name", ["root.zt", "over.zt"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_finds_shards_in_a_store(tark, tmp_path, homes, verb, name):
    here, there = homes
    words = {
        "diff": [here / name, here / name],
        "merge": [here / name, tmp_path / "one.zt"],
        "convert": [here / name, tmp_path / "one.safetensors"],
    }.get(verb, [here / name])
    assert tark(verb, *words, "--store", there).code == 0
    if verb not in {"ls", "tree", "show", "id"}:  # which need no bytes of a shard
        (tmp_path / "one.zt").unlink(missing_ok=True)
        (tmp_path / "one.safetensors").unlink(missing_ok=True)
        assert tark(verb, *words).code == 5


def test_a_store_may_name_files_by_digest(tark, homes):
    here, there = homes
    (there / "sha256").mkdir()
    for each in there.glob("*.zt"):
        each.rename(there / "sha256" / digest_of_file(each, "sha256"))
    assert tark("verify", here / "root.zt", "--store", there).code == 0


def test_a_store_that_is_none_is_refused(tark, homes, tmp_path):
    here, _ = homes
    assert tark("verify", here / "root.zt", "--store", tmp_path / "typo").code == 2


def test_what_is_opened_in_a_store_knows_it_afterwards(homes):
    here, there = homes
    with files.stored_in(there):
        file = tensorark.open(here / "root.zt")
    with file, pickle.loads(pickle.dumps(file)) as again:
        assert np.array_equal(file["layers.2.w"].numpy(), again["layers.2.w"].numpy())
    with tensorark.open(here / "root.zt") as file:
        assert len(file.missing()) == 3


# -------------------------------------------------------------------------------- older generations


@pytest.fixture
def grown(tmp_path):
    path = tmp_path / "grown.zt"
    save_file({"a": np.ones(4, np.float32)}, path)
    tensorark.append(path, {"b": np.full(4, 2, np.float32)})
    tensorark.append(path, {"a": np.full(4, 3, np.float32)}, replace=True)
    return path


@pytest.mark.parametrize(
    ("number", "held"), [(1, {"a": 1}), (2, {"a": 1, "b": 2}), (3, {"a": 3, "b": 2})]
)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_an_older_generation_is_the_file_that_it_was(tark, tmp_path, grown, number, held, io):
    length = tensorark.diagnose(grown).generations[number - 1].length
    with tensorark.open(grown, length=length, io=io) as file:
        again = pickle.loads(pickle.dumps(file))
        for each in (file, again):
            assert {name: each[name].numpy().tolist() for name in each} == {
                name: [value] * 4 for name, value in held.items()
            }
            assert tensorark.verify(each).ok
        again.close()
    assert tark("ls", grown, "-q", "--generation", number).out.split() == sorted(held)
    assert f"{len(held)} tensor" in tark("show", grown, "--generation", number).out
    target = tmp_path / "then.safetensors"
    assert tark("convert", grown, target, "--generation", number).code == 0
    with tensorark.open(target) as file:
        assert {name: file[name].numpy()[0] for name in file} == held
    assert tark("cat", grown, "a", "--as", "text", "--generation", number).code == 0


def test_a_generation_that_is_not_there_is_refused(tark, grown, st):
    for path, said in ((grown, "1 to 3"), (st, "a .zt")):
        ran = tark("ls", path, "--generation", 4)
        assert (ran.code, f"expected {said}, found 4 [generation" in ran.err) == (2, True)
    with pytest.raises(tensorark.InvalidInput, match="not that long"):
        tensorark.open(grown, length=1 << 40)
    with pytest.raises(tensorark.Rejected):
        tensorark.open(grown, length=4097)
