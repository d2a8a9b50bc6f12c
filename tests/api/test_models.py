"""Whatever takes a model takes its path and the opened file, and leaves the file open."""

from __future__ import annotations

import inspect
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
import tensorark.torch as torch_ark
from tensorark.edit.prune import prune
from tensorark.report.sparsity import counts

# How each is called with a model `m`; `o` is a path for what it makes.
CALLS = {
    tensorark.append: lambda m, o: tensorark.append(shutil.copy("other.zt", o), m).tensors,
    tensorark.check_seal: lambda m, _: tensorark.check_seal(m, "a.seal").findings,
    tensorark.content_digest: lambda m, _: tensorark.content_digest(m),
    tensorark.convert: lambda m, o: tensorark.convert(m, f"{o}.safetensors").tensors,
    tensorark.delta: lambda m, o: tensorark.delta("other.zt", m, f"{o}.zt").stored,
    tensorark.diagnose: lambda m, _: tensorark.diagnose(m).findings,
    tensorark.diff: lambda m, _: tensorark.diff(m, "other.zt"),
    tensorark.edit_metadata: lambda m, _: tensorark.edit_metadata(m, {"k": "v"}).attributes,
    tensorark.merge: lambda m, o: tensorark.merge(m, f"{o}.zt").tensors,
    tensorark.metadata_of: lambda m, _: tensorark.metadata_of(m),
    tensorark.open: lambda m, _: list(tensorark.open(m)),
    tensorark.overlay: lambda m, o: tensorark.overlay("other.zt", m, f"{o}.zt").stored,
    tensorark.repack: lambda m, o: tensorark.repack(m, f"{o}.zt").tensors,
    tensorark.seal: lambda m, o: tensorark.seal(m, o).files,
    tensorark.sign: lambda m, o: tensorark.sign(m, "key", o).statement.files,
    tensorark.split: lambda m, o: len(tensorark.split(m, f"{o}.zt", max_size=140_000).shards),
    tensorark.validate: lambda m, _: tensorark.validate(m, canonical=True),
    tensorark.verify: lambda m, _: tensorark.verify(m),
    tensorark.verify_signature: lambda m, _: (
        tensorark.verify_signature(m, "key.pub", "a.sig", any_name=True).findings
    ),
    prune: lambda m, o: prune(m, f"{o}.zt").pruned,
    counts: lambda m, _: [each.zeros for each in counts(m)],
    ark.load_file: lambda m, _: ark.load_file(m)["a"].tolist(),
    ark.safe_open: lambda m, _: ark.safe_open(m).keys(),
    torch_ark.load_file: lambda m, _: torch_ark.load_file(m)["a"].tolist(),
    torch_ark.safe_open: lambda m, _: torch_ark.safe_open(m).keys(),
}


@pytest.fixture(autouse=True)
def _models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ark.save_file({"a": np.arange(8, dtype="f4"), "b": np.ones(3)}, "a.zt")
    ark.save_file({"c": np.zeros(2)}, "other.zt")
    shutil.copy("a.zt", "before.zt")
    tensorark.make_key("key", "key.pub")
    tensorark.seal("a.zt", "a.seal")
    tensorark.sign("a.zt", "key", "a.sig")


def takes_a_model(function) -> bool:
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and "PathLike" in str(first.annotation)


@pytest.mark.parametrize("function", CALLS, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_a_path_and_an_opened_file_are_one(function):
    call = CALLS[function]
    by_path = call("a.zt", "1")
    shutil.copy("before.zt", "a.zt")  # as it was: one of the functions changes it
    with tensorark.open("a.zt") as file:
        opened = call(file, "2")
        if function is not tensorark.edit_metadata:
            assert file["a"].numpy()[7] == 7
    assert by_path == opened
    with pytest.raises(tensorark.InvalidInput, match="closed"):
        call(file, "3")


def test_no_public_function_is_left_out():
    public = [getattr(tensorark, name) for name in tensorark.__all__]
    public += [ark.load_file, ark.safe_open, torch_ark.load_file, torch_ark.safe_open]
    functions = {each for each in public if inspect.isfunction(each) and takes_a_model(each)}
    assert functions - {tensorark.make_key} <= set(CALLS)


def test_an_opened_file_stands_for_its_path_only_while_it_lies_there(tmp_path):
    with tensorark.open("a.zt") as file:
        assert os.fspath(file) == str(tmp_path / "a.zt")
        Path("other.zt").replace("a.zt")
        with pytest.raises(tensorark.ReadFailed, match="took the place"):
            os.fspath(file)
        with pytest.raises(tensorark.ReadFailed, match="took the place"):
            tensorark.verify_signature(file, "key.pub", "a.sig")
        assert tensorark.verify(file).checked == 2  # what was opened, as it was


def test_an_older_generation_is_given_as_it_was_opened():
    length = Path("a.zt").stat().st_size
    tensorark.append("a.zt", {"new": np.ones(1)})
    with tensorark.open("a.zt", length=length) as file:
        assert tensorark.verify(file).parts == 2
        assert tensorark.validate(file) == []
        with pytest.raises(tensorark.InvalidInput, match="generation"):
            tensorark.check_seal(file, "a.seal")
    with (
        tensorark.open("a.zt") as file,
        pytest.raises(tensorark.InvalidInput, match="opened already"),
    ):
        tensorark.open(file, length=length)


def test_an_opened_file_is_an_input_and_no_target():
    with tensorark.open("a.zt") as file, pytest.raises(tensorark.InvalidInput, match="is read"):
        tensorark.convert(file, "a.zt", overwrite=True)
    with tensorark.open("a.zt") as file, pytest.raises(tensorark.InvalidInput, match="is read"):
        tensorark.seal(file, "a.zt", overwrite=True)


@pytest.mark.parametrize(("text", "nbytes"), [("1KB", 1000), ("1KiB", 1024), ("1.5kb", 1500)])
def test_sizes_are_given_as_people_write_them(tmp_path, text, nbytes):
    arrays = {f"t{at}": np.full(64, at, "f4") for at in range(8)}
    tensorark.save_file(arrays, tmp_path / "m.zt")
    for size in (text, nbytes):
        folder = tmp_path / str(size)
        folder.mkdir(exist_ok=True)
        tensorark.convert(
            tmp_path / "m.zt", folder / "m.safetensors", max_shard_size=size, overwrite=True
        )
    made = [sorted(each.name for each in (tmp_path / str(s)).iterdir()) for s in (text, nbytes)]
    assert made[0] == made[1]
    sizes = [each.stat().st_size for each in (tmp_path / str(text)).glob("*.safetensors")]
    assert max(sizes) <= nbytes


@pytest.mark.parametrize("text", ["", "5 gigs", "1.0001KB", "-1", "1e9"])
def test_what_is_no_size_is_refused(tmp_path, text):
    tensorark.save_file({"t": np.ones(4)}, tmp_path / "m.zt")
    with pytest.raises(tensorark.InvalidInput):
        tensorark.convert(tmp_path / "m.zt", tmp_path / "m.safetensors", max_shard_size=text)


def test_a_notebook_gets_a_table_whose_text_is_escaped(tmp_path):
    hostile = "<script>alert(1)</script>\x1b[31m"
    tensorark.save_file({hostile: np.ones((2, 3), "f4")}, tmp_path / "m.zt")
    with tensorark.open(tmp_path / "m.zt") as file:
        table = file._repr_html_()
        assert file._ipython_key_completions_() == [hostile]
        assert repr(file).endswith("zt, 1 tensor>")
    assert "<script" not in table
    assert "\x1b" not in table
    assert "&lt;script&gt;" in table
    assert "<td>2×3</td>" in table
