"""Opening, reading, closing: what a user of the library meets first."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import UnionType

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark import errors


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.zt"
    rng = np.random.default_rng(0)
    tensors = {f"t{i}": rng.random((50, 40), dtype="f4") for i in range(20)}
    ark.save_file(tensors, path, {"epoch": 3})
    return path, tensors


def test_a_file_is_a_mapping_of_views(model):
    path, tensors = model
    with tensorark.open(path) as file:
        assert list(file) == sorted(tensors, key=lambda name: (len(name), name))
        assert len(file) == 20
        assert "t3" in file
        assert "nothing" not in file
        assert file.get("nothing") is None
        assert file.attributes == {"epoch": 3}
        view = file["t3"]
        assert (view.shape, view.dtype, view.ndim, view.size) == ((50, 40), "f32", 2, 2000)
        assert view.nbytes == 8000
        assert len(view) == 50
        assert np.array_equal(np.asarray(view), tensors["t3"])
        assert np.array_equal(view, tensors["t3"])
        assert "t3" in repr(view)
        assert str(path) in repr(file)


def test_a_missing_tensor_is_a_key_error_that_names_it(model):
    with tensorark.open(model[0]) as file:
        with pytest.raises(tensorark.NotFound, match="gone") as caught:
            file["gone"]
        assert isinstance(caught.value, KeyError)
        with pytest.raises(tensorark.NotFound, match="no such part"):
            file["t0"].raw("scales")


def test_closing_twice_is_allowed_and_reading_afterwards_is_not(model):
    file = tensorark.open(model[0])
    array = file["t0"].numpy()
    file.close()
    file.close()
    assert np.array_equal(array, model[1]["t0"])  # what was handed out stays valid
    with pytest.raises(tensorark.InvalidInput, match="closed"):
        file["t0"].numpy()


def test_arrays_of_a_mapped_file_are_views_that_cannot_be_written(model):
    with tensorark.open(model[0], io="mmap") as file:
        array = file["t0"].numpy()
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert file["t0"].numpy(copy=True).flags.writeable


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_reading_from_many_threads_gives_the_right_bytes(model, io):
    path, tensors = model
    with tensorark.open(path, io=io) as file, ThreadPoolExecutor(16) as pool:
        wanted = [name for name in tensors for _ in range(20)]
        for name, array in zip(wanted, pool.map(lambda n: file[n].numpy(), wanted), strict=True):
            assert np.array_equal(array, tensors[name])


def test_a_file_pickles_by_path_and_reopens(model, monkeypatch, tmp_path):
    monkeypatch.chdir(model[0].parent)
    with tensorark.open("m.zt", io="pread") as file:
        data = pickle.dumps(file)
    monkeypatch.chdir("/")
    with pickle.loads(data) as again:
        assert np.array_equal(again["t1"].numpy(), model[1]["t1"])


def read_in_child(file):
    return file["t1"].numpy(copy=True)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_file_goes_to_other_processes(model, method):
    context = multiprocessing.get_context(method)
    with tensorark.open(model[0]) as file, context.Pool(1) as pool:
        assert np.array_equal(pool.apply(read_in_child, (file,)), model[1]["t1"])


@pytest.mark.parametrize(
    "kind", ["Rejected", "Unsupported", "LimitExceeded", "InvalidInput", "NotFound", "ReadFailed"]
)
def test_errors_pickle_with_their_fields(kind):
    error = getattr(errors, kind)(
        "detail",
        code="zt.blob-align",
        section="2.4",
        path="x.zt",
        where=("objects", "a.b", 3),
        offset=4096,
        expected="a multiple",
        found=7,
        hint="none",
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert str(error) == (
        "detail: expected a multiple, found 7"
        ' [zt.blob-align §2.4, at objects["a.b"][3], byte 4096, in x.zt] (hint: none)'
    )


def test_importing_and_listing_need_no_numpy(model):
    code = (
        "import sys, tensorark; f = tensorark.open(sys.argv[1]); list(f.items());"
        "f.attributes; tensorark.validate(sys.argv[1]);"
        "heavy = {'numpy', 'torch', 'rich', 'click', 'ml_dtypes'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, str(model[0])], check=True)


def test_the_public_names_are_these():
    """Adding one is a decision; losing one breaks users."""
    assert sorted(tensorark.__all__) == [
        "Amendment",
        "Catalog",
        "Change",
        "Conversion",
        "Diagnosis",
        "Difference",
        "Edit",
        "Encoded",
        "Error",
        "File",
        "Finding",
        "InvalidInput",
        "LimitExceeded",
        "Limits",
        "Merge",
        "NotFound",
        "Overlay",
        "Part",
        "PastGeneration",
        "PlannedShard",
        "Pruning",
        "Raw",
        "ReadFailed",
        "Rejected",
        "Seal",
        "SealCheck",
        "SignatureCheck",
        "SignedStatement",
        "Span",
        "SplitPlan",
        "Statement",
        "Tensor",
        "TensorView",
        "Unsupported",
        "Verification",
        "Writer",
        "append",
        "check_seal",
        "content_digest",
        "convert",
        "delta",
        "diagnose",
        "diff",
        "edit_metadata",
        "load_file",
        "make_key",
        "merge",
        "metadata_of",
        "open",
        "overlay",
        "prune",
        "repack",
        "safe_open",
        "save_file",
        "seal",
        "sign",
        "split",
        "validate",
        "verify",
        "verify_signature",
    ]
    for name in tensorark.__all__:
        value = getattr(tensorark, name)
        assert callable(value) or isinstance(value, type | UnionType)
        assert not hasattr(value, "__path__"), f"{name} is a module"


def test_a_folder_with_one_model_is_that_model(model):
    with tensorark.open(model[0].parent) as file:
        assert len(file) == 20


def test_a_folder_with_two_models_asks_for_a_name(model):
    (model[0].parent / "other.zt").write_bytes(model[0].read_bytes())
    with pytest.raises(tensorark.InvalidInput, match="more than one model"):
        tensorark.open(model[0].parent)


def test_a_path_that_is_missing_is_an_os_error(tmp_path):
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.open(tmp_path / "gone.zt")
    assert isinstance(caught.value, OSError)
    assert caught.value.exit_code == 5


def test_truncating_the_file_under_a_reader_is_an_exception(model):
    """In a child, so that a crash would be seen as one."""
    code = (
        "import sys, os, tensorark; f = tensorark.open(sys.argv[1], io='pread');"
        "os.truncate(sys.argv[1], 70000);\n"
        "try: f['t9'].numpy()\n"
        "except tensorark.ReadFailed as e: print(e.code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model[0])], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in {"changed", "short-read"}


def test_the_file_of_another_format_under_this_name_is_named(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4976698672\n")
    with pytest.raises(tensorark.Rejected, match=r"Git-LFS pointer.*4\.98 GB") as caught:
        tensorark.open(path)
    assert (caught.value.code, caught.value.hint) == ("file.git-lfs-pointer", "run `git lfs pull`")


def test_content_decides_and_not_the_name(model, tmp_path):
    renamed = tmp_path / "m.ckpt"
    os.link(model[0], renamed)
    with tensorark.open(renamed) as file:
        assert file.format.name == "zt"


def test_names_like_a_wrong_one_are_offered(model, monkeypatch):
    path, _ = model
    with tensorark.open(path) as file:
        for call in (
            lambda: file["t33"],
            lambda: tensorark.metadata_of(path, tensor="t33"),
            lambda: tensorark.overlay(path, path, path.with_name("o.zt"), remove=["t33"]),
            lambda: ark.safe_open(path).get_tensor("t33"),
        ):
            with pytest.raises(KeyError, match=r'hint: did you mean .*"t3"') as caught:
                call()
            assert '"t3"' in pickle.loads(pickle.dumps(caught.value)).hint
        with pytest.raises(KeyError, match=r'did you mean "epoch"'):
            tensorark.edit_metadata(path, remove=["epocs"])
        # They are looked for when somebody asks: many a miss is caught unseen.
        monkeypatch.setattr("tensorark.files.file.near", lambda *_: pytest.fail("looked for"))
        assert file.get("t33") is None
        with pytest.raises(KeyError):
            file["t33"]
