"""Every source into every target: what the ledger lists is what the difference shows, or nothing.

Sources and targets are those of the tables, so that a new format has to be entered here.
"""

from __future__ import annotations

import itertools
import json
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark.conversion.pipeline import targets
from tensorark.core.ledger import BY_ARTIFACT, BY_LENIENCE, KINDS
from tensorark.edit.prune import prune
from tensorark.formats import FORMATS
from tensorark.formats.ninfer.holdings import DESCRIPTION
from tensorark.formats.zt.encode import encode_tail
from tensorark.wire.cbor import decode, encode

CORPUS = Path(__file__).parents[2] / "conformance"

W = np.arange(32, dtype="f4").reshape(4, 8)
ARTIFACT = bytes(range(16))


def plain(folder: Path) -> Path:
    path = folder / "in.zt"
    with tensorark.Writer(path, attributes={"name": "n", "count": 3}) as writer:
        writer.add("w", W, attributes={"role": "a", "at": [1, 2]})
    return path


def later(folder: Path) -> Path:
    """Lay out a file with fields that readers ignore (§3.1), at every level."""
    path = plain(folder)
    with tensorark.open(path) as file:
        manifest = file.catalog.native
    root = decode(manifest.text)
    root["m"] = root["objects"]["w"]["o"] = root["objects"]["w"]["parts"]["data"]["p"] = 1
    at = manifest.frame.manifest_offset
    (folder / "later.zt").write_bytes(path.read_bytes()[:at] + encode_tail(encode(root), at))
    return folder / "later.zt"


def encoded(folder: Path) -> Path:
    tensorark.convert(plain(folder), folder / "encoded.zt", encoding="zstd")
    return folder / "encoded.zt"


def split(folder: Path) -> Path:
    path = folder / "whole.zt"
    ark.save_file({"w": W, "v": W + 1}, path)
    tensorark.split(path, folder / "root.zt", max_size=70_000)
    return folder / "root.zt"


def carried(folder: Path) -> Path:
    tensorark.convert(artifact(folder), folder / "carried.zt")
    return folder / "carried.zt"


def single(folder: Path) -> Path:
    ark.save_file({"w": W}, folder / "in.safetensors", {"format": "pt"})
    return folder / "in.safetensors"


def annotated(folder: Path) -> Path:
    """Lay out a file with a member that readers ignore."""
    entry = {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128], "note": "by hand"}
    text = json.dumps({"w": entry}).encode()
    path = folder / "annotated.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + W.tobytes())
    return path


def apart(folder: Path) -> Path:
    places = {}
    for at, name in enumerate("wv", 1):
        file = f"m-{at:05}-of-00002.safetensors"
        ark.save_file({name: W + at}, folder / file, {"format": "pt", "at": str(at)})
        places[name] = file
    index = folder / "m.safetensors.index.json"
    index.write_text(
        json.dumps({"metadata": {"total_size": 256, "revision": "abc"}, "weight_map": places})
    )
    return index


def indexed(folder: Path) -> Path:
    """Put a member into an index that nobody relies upon."""
    index = apart(folder)
    index.write_text(json.dumps({**json.loads(index.read_text()), "note": "by hand"}))
    return index


def artifact(folder: Path) -> Path:
    """Lay out an artifact with everything that one can say beside tensors."""
    weights, scale = W.tobytes(), struct.pack("<f", 2.5)
    payload = weights.ljust(256, b"\0") + scale + b"{{ x }}"
    tensor = {"kind": "tensor", "format": "fp32", "layout": "contiguous_le_v1"}
    root = {
        "components": {"text": {"config": {"eps": 1e-6}, "resources": {"template": "r"}}},
        "objects": [
            {"id": "w", **tensor, "shape": [4, 8], "offset": 0, "bytes": 128},
            {"id": "s", **tensor, "shape": [], "offset": 256, "bytes": 4},
            {
                "id": "r",
                "kind": "resource",
                "encoding": "raw_bytes_v1",
                "offset": 260,
                "bytes": 7,
            },
        ],
        "bindings": {"text/a": {"object": "w"}},
        "uses": [
            {
                "parameter": "text/a",
                "input": "text/in",
                "activation_policy": "AllowA4",
                "auxiliaries": {"activation_input_divisor": {"object": "s"}},
            }
        ],
        "metadata": {"name": "n"},
        "provenance": {"from": "z"},
        "files": [{"path": None, "payload_bytes": len(payload)}],
    }
    text = json.dumps(root).encode()
    head = b"NINFER\0\x03" + struct.pack("<Q", len(text)) + ARTIFACT + text
    (folder / "a.ninfer").write_bytes(head.ljust(4096, b"\0") + payload)
    return folder / "a.ninfer"


def strayed(folder: Path) -> Path:
    """Lay out an artifact with bytes before and inside of its payload that nothing speaks of."""
    path = artifact(folder)
    data = bytearray(path.read_bytes())
    data[4000] = data[4096 + 200] = 1
    (folder / "strayed.ninfer").write_bytes(data)
    return folder / "strayed.ninfer"


def container(folder: Path) -> Path:
    tensorark.convert(plain(folder), folder / "in.tbm")
    return folder / "in.tbm"


def orphaned(folder: Path) -> Path:
    """Put bytes that no entry speaks of between the blobs and the index."""
    data = container(folder).read_bytes()
    (length,) = struct.unpack("<I", data[-4:])
    at = len(data) - 4 - length
    (folder / "orphaned.tbm").write_bytes(data[:at] + b"left over" + data[at:])
    return folder / "orphaned.tbm"


def directory(folder: Path) -> Path:
    tensorark.convert(plain(folder), folder / "d", format="tensorbit-directory")
    return folder / "d"


def blob(folder: Path) -> Path:
    ark.save_file({"w": W.reshape(-1)}, folder / "flat.zt")
    tensorark.convert(folder / "flat.zt", folder / "w.tb")
    return folder / "w.tb"


def blobs(folder: Path) -> Path:
    inside = folder / "blobs"
    inside.mkdir()
    data = blob(folder).read_bytes()
    for name in ("w", "v"):
        (inside / f"{name}.tb").write_bytes(data)
    return inside


def archive(folder: Path) -> Path:
    path = folder / "in.npz"
    np.savez(path, w=W, words=np.array(["text"]))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("notes.txt", "by hand")
        file.writestr("folder/", "")
    return path


SOURCES = {
    "zt": (plain, later, encoded, split, carried),
    "safetensors": (single, annotated),
    "safetensors-index": (apart, indexed),
    "ninfer": (artifact, strayed),
    "tbm": (container, orphaned),
    "tb": (blob,),
    "tensorbit-directory": (directory,),
    "tensorbit-folder": (blobs,),
    "npz": (archive,),
}
HELD = {
    later: {("fields", "m"), ("fields", "w: o"), ("fields", "w, part data: p")},
    annotated: {("fields", "w: note")},
    indexed: {("fields", "note")},
    strayed: {("gaps", "payload bytes 128 to 256")},
    orphaned: {("gaps", "bytes 4224 to 4233")},
    archive: {("members", "notes.txt"), ("members", "folder/"), ("objects", "words")},
}
"""What a difference does not show, by source."""
KEPT = {(strayed, "zt"), (strayed, "ninfer")}
"""Where all of that is kept."""


def accepted(name):
    """Take the least file of a corpus for a source, of a format that none was made for."""

    def make(folder: Path) -> Path:
        files = (CORPUS / name / "accept").glob("minimal.*")
        found = next(each for each in files if each.suffix != ".json")
        return Path(shutil.copy(found, folder / found.name))

    make.__name__ = name
    return make


SOURCES |= {each.name: (accepted(each.name),) for each in FORMATS if each.name not in SOURCES}
UNSEEN = {"fields", "gaps", "members", "objects"}
CASES = list(itertools.product(itertools.chain(*SOURCES.values()), targets()))


def attempt(source: Path, goal: Path, kind: str, **options: object) -> tuple[object, ...]:
    """Return what came of a conversion: what was lost, or how it was refused."""
    try:
        done = tensorark.convert(source, goal, format=kind, **options)
    except tensorark.Unsupported as error:
        assert not goal.exists()
        return ("refused", error.detail)
    assert goal.exists() != bool(options.get("dry_run"))
    return ("done", done.dropped)


@pytest.mark.parametrize(
    ("make", "target"), CASES, ids=[f"{make.__name__}-{kind.name}" for make, kind in CASES]
)
def test_what_is_lost_is_listed_and_allowed_or_refused(make, target, tmp_path):
    source = make(tmp_path)
    (tmp_path / "out").mkdir()
    goal = tmp_path / "out" / ("t" + "".join(target.suffixes[:1]))
    every = KINDS - BY_LENIENCE
    allowed = attempt(source, goal, target.name, dry_run=True, drop=every)
    assert attempt(source, goal, target.name, drop=every) == allowed
    strict = tmp_path / "out" / ("s" + "".join(target.suffixes[:1]))
    refused = attempt(source, strict, target.name, dry_run=True)
    assert attempt(source, strict, target.name) == refused
    if allowed[0] == "refused":  # it cannot hold the tensors, whatever may be left out
        assert refused[0] == "refused"
        return
    lost = allowed[1]
    unseen = {(each.kind, each.name) for each in lost if each.kind in UNSEEN}
    entry = {each for each in unseen if each[1].endswith(" of the entry")}
    assert unseen - entry == (set() if (make, target.name) in KEPT else HELD.get(make, set()))
    assert len(entry) == (make is strayed and target.name != "zt")
    assert (refused[0] == "refused") == bool(lost)
    told = [each for each in lost if each.kind != "tensors"] or lost  # what is told first
    assert all(json.dumps(each.name) in refused[1] for each in told[:8])
    by_kind = {kind: {each.name for each in lost if each.kind == kind} for kind in KINDS}
    with tensorark.open(source) as before, tensorark.open(goal) as after:
        found = tensorark.diff(before, after)
    described = {DESCRIPTION} if any(by_kind[kind] for kind in BY_ARTIFACT) else set()
    gone = by_kind["names"] | by_kind["objects"] | by_kind["resources"] | described
    gone |= by_kind["tensors"]
    if {"names"}.isdisjoint(before.format.keeps.kinds | target.keeps.kinds) and not gone:
        # Both have no name beside that of the file.
        assert len(found.only_left) == len(found.only_right) == 1
        return
    assert set(found.only_left) == gone
    assert len(found.only_right) == len(by_kind["names"])
    # A tensor of another name is compared with nothing.
    changed = {f"{each.name}: {each.what}" for each in found.changes}
    shapes = {f"{name}: shape" for name in by_kind["shapes"] - by_kind["names"]}
    facts = {name.partition(": ")[0] for name in by_kind["tensor-attributes"]} - by_kind["names"]
    assert changed == shapes | {f"{name}: attributes" for name in facts}
    # Beside those of the source: where an artifact had its bytes, its metadata, the order of blobs.
    ours = {"ninfer", "name", "tensorbit"} if source.suffix == ".ninfer" else {"tensorbit"}
    assert set(found.attributes) - ours == by_kind["attributes"] - ours


@pytest.mark.parametrize("drop", [["names"], ["shapes"], ["attributes"]])
def test_a_kind_that_is_not_named_stays_refused(tmp_path, drop):
    with pytest.raises(tensorark.Unsupported, match="keeps not all"):
        tensorark.convert(single(tmp_path), tmp_path / "t.tb", drop=drop)


def test_a_kind_that_is_none_is_refused(tmp_path):
    with pytest.raises(tensorark.InvalidInput, match="no such kind"):
        tensorark.convert(single(tmp_path), tmp_path / "t.zt", drop=["everything"])


def test_what_index_and_shards_say_apart_is_kept(tmp_path):
    tensorark.convert(apart(tmp_path), tmp_path / "t.zt")
    with tensorark.open(tmp_path / "t.zt") as file:
        assert file.attributes["format"] == "pt"
        assert file.attributes["safetensors.set"] == {
            "index": {"revision": "abc"},
            "shards": {
                "m-00001-of-00002.safetensors": {"at": "1"},
                "m-00002-of-00002.safetensors": {"at": "2"},
            },
        }


def test_tensors_are_chosen_by_name_and_listed(tmp_path):
    ark.save_file({"w": W, "n": np.arange(3)}, tmp_path / "in.safetensors")
    with pytest.raises(tensorark.Unsupported):
        tensorark.convert(tmp_path / "in.safetensors", tmp_path / "t.tbm")
    done = tensorark.convert(tmp_path / "in.safetensors", tmp_path / "t.tbm", exclude=["n"])
    assert [(each.kind, each.name) for each in done.dropped] == [("tensors", "n")]
    with tensorark.open(tmp_path / "t.tbm") as file:
        assert list(file) == ["w"]
    with pytest.raises(tensorark.NotFound):
        tensorark.convert(tmp_path / "in.safetensors", tmp_path / "u.tbm", exclude=["nn"])


MIXED = {
    "w.weight": W,
    "h.weight": W.astype("f2"),
    "d.weight": W.astype("f8"),
    "q": W.astype("i1"),
    "bn.num_batches_tracked": np.array(3, "i8"),
    "position_ids": np.arange(4, dtype="i4"),
    "attn.mask": np.ones((2, 2), bool),
    "codes": np.arange(4, dtype="u1"),
    "c": np.ones(2, "c8"),
    "e\u0301": W,
}
INTEGERS = {"bn.num_batches_tracked", "position_ids", "attn.mask", "codes", "c"}
UNHELD = {
    "zt": {"e\u0301"},  # canonical form has names in NFC
    "safetensors": set(),
    "npz": set(),
    "tbm": INTEGERS,
    "tensorbit-directory": INTEGERS,
}


@pytest.mark.parametrize("target", UNHELD)
@pytest.mark.parametrize("verb", [tensorark.convert, prune], ids=["convert", "prune"])
def test_tensors_that_a_target_cannot_hold_are_left_out_when_asked(verb, target, tmp_path):
    source, goal = tmp_path / "in.npz", tmp_path / "t"
    np.savez(source, **MIXED)
    for dry in (True, False) if UNHELD[target] else ():
        with pytest.raises(tensorark.Unsupported, match="cannot hold") as caught:
            verb(source, goal, format=target, dry_run=dry)
        assert 'drop=["tensors"]' in str(caught.value)
    plan = verb(source, goal, format=target, dry_run=True, drop=["tensors"])
    assert not goal.exists()
    done = verb(source, goal, format=target, drop=["tensors"])
    assert plan.dropped == done.dropped
    assert {(each.kind, each.name) for each in done.dropped} == {
        ("tensors", name) for name in UNHELD[target]
    }
    with tensorark.open(goal) as file:
        assert {*file} == MIXED.keys() - UNHELD[target]
        for name, view in file.items():
            found = view.numpy()
            assert np.array_equal(found[found != 0], MIXED[name][found != 0])
    if verb is prune:
        named = {each.name for each in done.pruned}
        assert named | done.dense.keys() == MIXED.keys() - UNHELD[target]
        assert done.dense_elements == sum(MIXED[name].size for name in done.dense)


def test_a_blob_is_what_is_left_of_a_model(tmp_path):
    ark.save_file({"w": W.reshape(-1), "n": np.arange(3)}, tmp_path / "in.zt")
    with pytest.raises(tensorark.Unsupported):
        tensorark.convert(tmp_path / "in.zt", tmp_path / "w.tb")
    done = tensorark.convert(tmp_path / "in.zt", tmp_path / "w.tb", drop=["tensors"])
    assert [(each.kind, each.name) for each in done.dropped] == [("tensors", "n")]
    with tensorark.open(tmp_path / "w.tb") as file:
        assert np.array_equal(file["w"].numpy(), W.reshape(-1))


@pytest.mark.parametrize("suffix", ["tbm", "tb"])
def test_saving_names_no_argument_that_it_has_not(suffix, tmp_path):
    with pytest.raises(tensorark.Unsupported) as caught:
        ark.save_file({"w": W, "n": np.arange(3)}, tmp_path / f"t.{suffix}")
    assert "drop" not in str(caught.value)
