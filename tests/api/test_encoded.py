"""Encoded parts in files: read whole and in pieces, written, converted, verified, and by others."""

from __future__ import annotations

import hashlib
import mmap
import pickle
import struct
from dataclasses import replace
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
import torch
import ztensor

import tensorark
import tensorark.numpy as ark
from conformance import run
from conformance.zt.build import seekable as by_hand
from conformance.zt.build.image import FLOOR, image
from conformance.zt.build.manifest import root
from tensorark import Limits, Writer
from tensorark.core.model import Encoded, Raw, Span
from tensorark.encodings.zstd.rules import ID
from tensorark.integrity.verify import verify
from tensorark.io.open_file import OpenFile
from tests.conformance.corpus_files import CORPUS, index, published, vectors
from tests.conformance.test_zstd import LAXER
from tests.conformance.zstd_judge import decode

pytestmark = pytest.mark.parametrize("io", ["mmap", "pread"])


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(1)
    return {
        "bf16": rng.standard_normal((300, 700)).astype(ml_dtypes.bfloat16),
        "bool": rng.random(1001) < 0.5,
        "empty": np.zeros((0, 3), "f4"),
        "f4": rng.integers(0, 16, 4095, "u1").view(ml_dtypes.float4_e2m1fn),
        "scalar": np.float64(2.5),
        "zeros": np.zeros((64, 1024), "i8"),
    }


@pytest.fixture(scope="module")
def path(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("encoded") / "m.zt"
    with Writer(path, encoding="zstd", frame_size=10_000, level=1) as writer:
        for name, values in arrays.items():
            writer.add(name, values)
        writer.add_parts("csr", (2, 3), "zt.sparse_csr/1", csr_parts())
        with writer.stream("streamed", (100_000,), "u32") as stream:
            for start in range(0, 100_000, 777):
                stream.write(np.arange(start, min(start + 777, 100_000), dtype="u4"))
        writer.add("raw", np.arange(9000), encoding="raw")
    return path


def csr_parts():
    def words(*values):
        return (("u32", None), [np.array(values, "<u4").tobytes()])

    values = (("f32", None), [np.arange(1, 4, dtype="<f4").tobytes()])
    return {"indptr": words(0, 2, 3), "indices": words(0, 2, 1), "values": values}


def blobs(path):
    with tensorark.open(path) as file:
        return {
            (name, role): part.blob
            for name, tensor in file.catalog.tensors.items()
            for role, part in tensor.parts.items()
        }


def test_values_survive(arrays, path, io):
    with tensorark.open(path, io=io) as file:
        for name, values in arrays.items():
            found = file[name].numpy()
            assert found.dtype == np.asarray(values).dtype
            assert found.shape == np.shape(values)
            assert found.tobytes() == np.asarray(values).tobytes()
        np.testing.assert_array_equal(file["csr"].numpy(), [[1, 0, 2], [0, 3, 0]])
        np.testing.assert_array_equal(file["streamed"].numpy(), np.arange(100_000, dtype="u4"))
        np.testing.assert_array_equal(file["raw"].numpy(), np.arange(9000))


def test_what_is_encoded_is_everything_that_has_bytes(path, io):
    for (name, _), blob in blobs(path).items():
        assert isinstance(blob, Raw if name in {"empty", "raw"} else Encoded), name
        assert blob.spans[0].offset % 4096 == 0


def test_stored_bytes_are_given_raw_and_hold_by_the_text(arrays, path, io):
    with tensorark.open(path, io=io) as file:
        view = file["bf16"]
        stored = bytes(view.raw())
        assert len(stored) == view.parts["data"].blob.spans[0].length
        assert decode(stored, view.nbytes) == arrays["bf16"].tobytes()


def test_chunks_are_the_payload(path, io):
    with tensorark.open(path, io=io) as file:
        for name in file:
            for part in file[name].parts.values():
                assert b"".join(file.chunks(part)) == bytes(file.payload(part))


@pytest.mark.parametrize(
    "pick",
    [
        np.s_[3],
        np.s_[-1],
        np.s_[10:20],
        np.s_[:, 5],
        np.s_[::7, ::-3],
        np.s_[..., None, 2:9],
        np.s_[0:0],
        np.s_[299, 699],
        np.s_[[1, 2], [3, 4]],
    ],
)
def test_indexing_is_numpys(arrays, path, io, pick):
    with tensorark.open(path, io=io) as file:
        assert np.array_equal(file["bf16"][pick], arrays["bf16"][pick])


def test_packed_and_bool_elements_are_indexed(arrays, path, io):
    with tensorark.open(path, io=io) as file:
        for name in ("f4", "bool"):
            expected = arrays[name][101:907:3].tobytes()
            assert file[name][101:907:3].tobytes() == expected


def test_a_slice_reads_the_table_and_the_frames_that_it_touches(path, io, monkeypatch):
    with tensorark.open(path, io=io) as file:
        (span,) = file["bf16"].parts["data"].blob.spans
        stored = bytes(file["bf16"].raw())
        sizes = [size for size, _ in struct.iter_unpack("<II", stored[-9 - 8 * 42 : -9])]
        assert sum(sizes) == span.length - 17 - 8 * 42  # 420,000 bytes in frames of 10,000
        reads = []
        honest = file.source.read

        def read(spans):
            reads.extend(spans)
            return honest(spans)

        monkeypatch.setattr(type(file.source), "read", lambda _self, spans: read(spans))
        file["bf16"][100:106]  # bytes 140,000 to 148,400: frame 14
        assert sum(each.length for each in reads) == 4096 + sizes[14]
        reads.clear()
        file["bf16"][:, 350]  # every frame, once
        assert sum(each.length for each in reads) == 4096 + sum(sizes)


def test_torch_gets_memory_of_its_own(arrays, path, io):
    before = path.read_bytes()
    with tensorark.open(path, io=io) as file:
        tensor = file["bf16"].torch()
        assert tensor.view(torch.int16).numpy().tobytes() == arrays["bf16"].tobytes()
        tensor.zero_()
        assert file["bf16"].torch().any()
    assert path.read_bytes() == before


def test_load_file_gives_writable_arrays(arrays, path, io):
    loaded = ark.load_file(path)
    assert loaded["bf16"].flags.writeable
    assert loaded["bf16"].tobytes() == arrays["bf16"].tobytes()


def test_verifying_climbs_the_transport_rung(path, io):
    with tensorark.open(path, io=io) as file:
        found = verify(file)
        assert found.complete
        assert found.protected == sum(isinstance(blob, Encoded) for blob in blobs(path).values())


def test_frames_that_were_passed_on_do_not_stay_in_memory(path, io, tmp_path, monkeypatch):
    """The mapped pages of a compressed part are let go of, as those of a raw one are."""
    evicted, real = set(), OpenFile.evict

    def evict(self, span):
        evicted.add(span)
        real(self, span)

    monkeypatch.setattr(OpenFile, "evict", evict)
    spans = {
        span: isinstance(blob, Encoded)
        for blob in blobs(path).values()
        for span in blob.spans
        if span.length >= mmap.PAGESIZE  # of shorter ones no page is theirs alone
    }
    stored, encoded = set(spans), {span for span, is_encoded in spans.items() if is_encoded}
    assert encoded < stored
    with tensorark.open(path, io=io) as file:
        assert verify(file).complete
    assert evicted >= (stored if io == "mmap" else encoded)
    evicted.clear()
    tensorark.convert(path, tmp_path / "raw.zt")  # its reads are calls
    assert evicted >= encoded


def test_verifying_names_every_damaged_frame(path, io, tmp_path):
    (span,) = blobs(path)["zeros", "data"].spans
    data = bytearray(path.read_bytes())
    sizes = [
        size for size, _ in struct.iter_unpack("<II", data[span.end - 9 - 8 * 7 : span.end - 9])
    ]
    for number in (2, 5):
        data[span.offset + sum(sizes[: number + 1]) - 1] ^= 1  # the checksum of the frame
    damaged = tmp_path / "damaged.zt"
    damaged.write_bytes(data)
    with tensorark.open(damaged, io=io) as file:
        found = verify(file)
        whole = len(blobs(path))
        assert (found.ok, found.parts, found.checked) == (False, whole, whole - 1)
        assert [finding.rule for finding in found.findings] == ["zt.zstd-checksum"] * 2
        assert [finding.where[-1] for finding in found.findings] == [2, 5]
        start = span.offset + sum(sizes[:2])
        assert found.findings[0].offset == start
        assert f"bytes {start} to {start + sizes[2]}" in found.findings[0].detail
        with pytest.raises(tensorark.Rejected, match="frame 2") as caught:
            file["zeros"].numpy()
        assert caught.value.path == str(damaged)
        with pytest.raises(tensorark.Rejected):
            list(file.chunks(file["zeros"].parts["data"]))
        assert not file["zeros"][:2].any()  # 16 KiB of the first two frames


def test_verifying_says_what_is_too_large_to_be_judged_and_judges_the_rest(path, io):
    with tensorark.open(path, io=io, limits=Limits(decoded=400_000)) as file:
        large = [
            name
            for name in file
            if any(each.nbytes > 400_000 for each in file[name].parts.values())
        ]
        found = verify(file)
    assert large
    assert [(each.code, each.where[1]) for each in found.refused] == [
        ("decoded-size", name) for name in large
    ]
    assert found.ok
    assert found.checked == found.parts - len(large)


def test_more_than_the_limit_is_not_decoded(path, io):
    with tensorark.open(path, io=io, limits=Limits(decoded=400_000)) as file:
        part = file["bf16"].parts["data"]
        with pytest.raises(tensorark.LimitExceeded) as caught:
            file.payload(part)
        assert caught.value.code == "decoded-size"
        assert b"".join(file.chunks(part))  # piece by piece nothing is too large
        file["bf16"][5]


def test_more_than_the_machine_has_is_not_decoded(io, tmp_path):
    """34 MB are an honest promise of a tebibyte of zeros."""
    frame = by_hand.frame(b"", by_hand.zeros(16 << 20), checksum=0)
    count = (1 << 40) // (16 << 20)
    path = tmp_path / "bomb.zt"
    stored = by_hand.stream(*[(frame, 16 << 20)] * count)
    path.write_bytes(image(root(objects={"t": by_hand.encoded(stored, 1 << 40)}), {FLOOR: stored}))
    with tensorark.open(path, io=io) as file:
        with pytest.raises(tensorark.LimitExceeded) as caught:
            file["t"].numpy()
        assert caught.value.code == "decoded-size"


# --- writing --------------------------------------------------------------------------------------


def test_a_canonical_file_refuses_encoded_tensors(io, tmp_path):
    with (
        pytest.raises(tensorark.InvalidInput) as caught,
        Writer(tmp_path / "m.zt") as writer,
    ):
        writer.add("a", np.arange(3), encoding="zstd")
    assert caught.value.code == "zt.canonical-raw"
    assert list(tmp_path.iterdir()) == []


def test_single_tensors_are_encoded_where_the_file_is_not_canonical(io, tmp_path):
    path = tmp_path / "m.zt"
    with Writer(path, align=8192) as writer:
        writer.add("b", np.zeros(5000), encoding=ID)
        writer.add("a", np.zeros(5000))
        with writer.stream("c", (3,), "u8", encoding="zstd") as part:
            part.write(b"abc")
    kinds = {name: type(blob) for (name, _), blob in blobs(path).items()}
    assert kinds == {"a": Raw, "b": Encoded, "c": Encoded}
    assert all(blob.spans[0].offset % 8192 == 0 for blob in blobs(path).values())
    with tensorark.open(path, io=io) as file:
        assert verify(file).complete


def test_equal_encoded_tensors_share_a_blob_and_raw_ones_another(io, tmp_path):
    path = tmp_path / "m.zt"
    values = np.arange(5000)
    with Writer(path, encoding="zstd") as writer:
        for name in "abc":
            writer.add(name, values, encoding="raw" if name == "c" else None)
    found = blobs(path)
    assert found["a", "data"] == found["b", "data"] != found["c", "data"]
    with tensorark.open(path, io=io) as file:
        assert len({file[name].parts["data"].digest for name in "abc"}) == 1
        np.testing.assert_array_equal(file["b"].numpy(), values)


def test_a_generation_may_be_encoded(io, tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": np.arange(3)}, path)
    with Writer(path, append=True, encoding="zstd") as writer:
        writer.add("b", np.zeros(1000))
    kinds = {name: type(blob) for (name, _), blob in blobs(path).items()}
    assert kinds == {"a": Raw, "b": Encoded}
    with tensorark.open(path, io=io) as file:
        assert verify(file).complete


# --- converting -----------------------------------------------------------------------------------


def digests(path):
    with tensorark.open(path) as file:
        parts = {
            (name, role): part.digest
            for name, tensor in file.catalog.tensors.items()
            for role, part in tensor.parts.items()
        }
        return parts, tensorark.content_digest(file)


def test_there_and_back_changes_no_digest(arrays, io, tmp_path):
    first, coded, back = (tmp_path / name for name in ("first.zt", "coded.zt", "back.zt"))
    ark.save_file(arrays, first)
    tensorark.convert(first, coded, encoding="zstd", level=1, frame_size=5000)
    tensorark.convert(coded, back)
    assert digests(first) == digests(coded) == digests(back)
    assert back.read_bytes() == first.read_bytes()
    found = blobs(coded)
    assert found["empty", "data"] == Raw(found["empty", "data"].spans)
    assert isinstance(found["zeros", "data"], Encoded)
    assert coded.stat().st_size < first.stat().st_size


def test_encoded_models_become_safetensors(arrays, io, tmp_path):
    plain = {name: values for name, values in arrays.items() if name != "f4"}
    ark.save_file(plain, tmp_path / "first.zt")
    tensorark.convert(tmp_path / "first.zt", tmp_path / "coded.zt", encoding="zstd")
    tensorark.convert(tmp_path / "coded.zt", tmp_path / "m.safetensors")
    loaded = ark.load_file(tmp_path / "m.safetensors")
    for name, values in plain.items():
        assert loaded[name].tobytes() == np.asarray(values).tobytes()


@pytest.mark.parametrize("option", [{"encoding": "zstd"}, {"level": 3}, {"frame_size": 1}])
def test_other_targets_take_no_encoding(io, tmp_path, option):
    ark.save_file({"a": np.arange(3)}, tmp_path / "m.zt")
    with pytest.raises(tensorark.InvalidInput) as caught:
        tensorark.convert(tmp_path / "m.zt", tmp_path / "m.safetensors", **option)
    assert caught.value.code == "option"


def test_damage_is_not_passed_on(path, io, tmp_path):
    (span,) = blobs(path)["zeros", "data"].spans
    data = bytearray(path.read_bytes())
    data[span.offset + 10] ^= 1
    (tmp_path / "damaged.zt").write_bytes(data)
    with pytest.raises(tensorark.Rejected):
        tensorark.convert(tmp_path / "damaged.zt", tmp_path / "m.zt")
    assert not (tmp_path / "m.zt").exists()


# --- the public library ---------------------------------------------------------------------------


def test_the_public_library_reads_what_we_write(arrays, path, io):
    with ztensor.open(str(path)) as source, tensorark.open(path, io=io) as file:
        for name, values in arrays.items():
            data = source[name].tobytes()
            assert data == bytes(file.payload(file[name].parts["data"]))
            assert name == "f4" or data == np.asarray(values).tobytes()
    assert ztensor.verify(str(path), deep=True)


def test_we_read_what_the_public_library_writes(arrays, io, tmp_path):
    path = tmp_path / "m.zt"
    large = np.random.default_rng(2).integers(0, 9, (3 << 20) + 7, "u1")
    with ztensor.Writer(str(path), canonical=False) as writer:
        writer.add("large", large, list(large.shape), "u8", encoding=ID)
        writer.add("none", np.zeros(0, "u1"), [0], "u8", encoding=ID)
        writer.add("zeros", arrays["zeros"].tobytes(), [64, 1024], "i64", encoding=ID)
    with tensorark.open(path, io=io) as file:
        np.testing.assert_array_equal(file["large"].numpy(), large)
        np.testing.assert_array_equal(
            file["large"][(1 << 20) - 3 : (1 << 20) + 3], large[(1 << 20) - 3 : (1 << 20) + 3]
        )
        np.testing.assert_array_equal(file["zeros"].numpy(), arrays["zeros"])
        assert file["none"].numpy().size == 0
        assert isinstance(file["none"].parts["data"].blob, Encoded)
        found = verify(file)
        assert found.complete
        assert found.protected == 3


@pytest.mark.parametrize(
    "name",
    [
        file["path"]
        for file in index()["files"]
        if file["class"] == "reject" and str(file["rule"]).startswith("zt.zstd-")
    ],
)
def test_lenient_reading_accepts_what_the_public_library_accepts(name, io):
    """Of the corpus: each file that breaks a rule of the encoding, by its one rule."""
    rule = next(file["rule"] for file in index()["files"] if file["path"] == name)
    lax = name in LAXER or rule in LAXER
    with run.image(CORPUS / name) as path, tensorark.open(path, io=io, lenient=True) as file:
        assert pickle.loads(pickle.dumps(file))["t"].shape == file["t"].shape
        if not lax:
            with pytest.raises(tensorark.Rejected) as caught:
                file["t"].numpy()
            assert caught.value.code == rule
            return
        with ztensor.open(str(path)) as source:
            assert file["t"].tobytes() == source["t"].tobytes()
        found = verify(file)
        assert found.ok
        assert found.protected == (rule != "zt.zstd-checksum-flag")


if MADE := published("ztensor-made"):

    @pytest.mark.parametrize("name", ["zstd-seekable.zt", "enc-root.zt", "enc-root-z.zt"])
    def test_published_files_decode(name, io):
        with tensorark.open(vectors("ztensor-made") / name, io=io) as file:
            for tensor, expected in MADE[name]["tensors"].items():
                for role, part in expected["parts"].items():
                    data = file.payload(file[tensor].parts[role])
                    assert hashlib.sha256(data).hexdigest() == part["sha256"]
            assert verify(file).complete


def test_stored_bytes_may_lie_in_several_pieces(arrays, path, io):
    """No `.zt` has such parts; other formats have."""
    with tensorark.open(path, io=io) as file:
        for name in ("bf16", "raw"):
            part = file[name].parts["data"]
            (span,) = part.blob.spans
            cuts = [0, 1, 5000, span.length - 3, span.length]
            pieces = tuple(Span(span.offset + a, b - a) for a, b in pairwise(cuts))
            torn = replace(part, blob=replace(part.blob, spans=pieces))
            whole = bytes(file.payload(part))
            assert bytes(file.payload(torn)) == whole
            assert b"".join(file.chunks(torn)) == whole
            read = file.ranges(torn)
            for start, length in ((0, len(whole)), (0, 2), (4999, 2), (len(whole) - 5, 5), (7, 0)):
                assert bytes(read(start, length)) == whole[start : start + length]
