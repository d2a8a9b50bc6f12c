"""The files of safetensors and npz get exactly the verdict, and the finding, that they name."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import tensorark
from conformance.npz.build import corpus as npz
from conformance.safetensors.build import corpus as safetensors
from tensorark.formats.safetensors.dtypes import NAMES

from .corpus_files import CORPUS

CORPORA = {"safetensors": safetensors.CORPUS, "npz": npz.CORPUS}
FILES = {
    (name, line["path"]): line
    for name, each in CORPORA.items()
    for line in json.loads((each.home / "index.json").read_bytes())["files"]
}
KEPT = [key for key, line in FILES.items() if line["contents"]]


def located(key):
    return CORPUS / key[0] / key[1]


@pytest.mark.parametrize("key", [key for key in KEPT if key[0] == "safetensors"], ids="/".join)
def test_reads_what_was_put_into_a_safetensors_file(key):
    wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
    with tensorark.open(located(key)) as file:
        assert file.attributes == ({} if wanted["metadata"] is None else wanted["metadata"])
        assert list(file) == list(wanted["tensors"])
        for name, known in wanted["tensors"].items():
            view = file[name]
            part = view.parts["data"]
            unknown = (part.type or "").removeprefix("safetensors.").upper()
            assert NAMES.get((part.dtype, part.type), unknown) == known["dtype"]
            assert list(view.shape) == known["shape"]
            assert hashlib.sha256(view.raw("data")).hexdigest() == known["sha256"]


@pytest.mark.parametrize(
    "key", [key for key in KEPT if key[0] == "npz" and "accept/" in key[1]], ids="/".join
)
def test_reads_what_was_put_into_an_archive_and_so_does_numpy(key):
    wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
    with (
        tensorark.open(located(key)) as file,
        np.load(located(key), max_header_size=1 << 20) as public,
    ):
        assert list(file) == list(wanted["tensors"])
        assert list(file.catalog.native.others) == wanted["others"]
        for name, known in wanted["tensors"].items():
            for values in (file[name].numpy(), public[name]):
                little = values.astype(values.dtype.newbyteorder("<"))
                assert (little.dtype.name, list(little.shape)) == (known["dtype"], known["shape"])
                assert hashlib.sha256(little.tobytes()).hexdigest() == known["values"]


@pytest.mark.parametrize(
    "key", [key for key, line in FILES.items() if line["stage"] == "content"], ids="/".join
)
def test_an_archive_with_a_damaged_member_is_not_converted(key, tmp_path):
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.convert(located(key), tmp_path / "m.zt")
    assert caught.value.code == FILES[key]["rule"]
    assert list(tmp_path.iterdir()) == []


def test_the_public_library_reads_every_valid_file():
    public = pytest.importorskip("safetensors")
    for key in KEPT:
        if key[0] == "safetensors" and key[1].startswith(("accept/", "refuse/")):
            wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
            files = [located(key)]
            if key[1].endswith(".index.json"):
                files = [CORPUS / key[0] / part for part in FILES[key]["parts"]]
            found = {}
            for path in files:
                found |= dict(public.deserialize(path.read_bytes()))
            assert set(found) == set(wanted["tensors"])
            for name, tensor in found.items():
                known = wanted["tensors"][name]
                assert hashlib.sha256(tensor["data"]).hexdigest() == known["sha256"], key
                assert tensor["shape"] == known["shape"], key
