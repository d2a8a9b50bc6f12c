"""What `bench.codecs` measures: for each row tensorark's way, and the machine's limit beside it.

A way is a function that prepares (imports, maps, decodes nothing) and returns the call that is
timed. Each runs in a process of its own; files are made once by `make` and lie in the page cache.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import xxhash
import zstandard

import tensorark
from bench.tasks import sync, touch
from tensorark.layouts.ninfer import geometry as ninfer
from tensorark.layouts.nm.rules import Pattern, Sparse
from tensorark.layouts.numbers.dtypes import Array

Run = Callable[[], object]
Way = Callable[[Path, Path], Run]
"""Takes the folder of the files and an empty one to write to; returns what is timed."""

MIB = 1 << 20
CORES = os.cpu_count() or 1
SHARD = 256 * MIB
FRAME = MIB
MATRIX = (8192, 4096)
WEIGHTS = 128 * MIB
TWO_OF_FOUR = Pattern(2, 4)
OBJECTS = 100_000
FORMATS = {
    "q2": "q2_g64_fp16",
    "q4": "q4_g64_fp16",
    "q5": "q5_g64_fp16",
    "q6": "q6_g64_fp16",
    "q8": "q8_g32_fp16",
    "t2": "t2_g128_fp16",
    "nvfp4": ninfer.NVFP4,
    "fp8": "fp8_e4m3fn_row_bf16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: `nbytes` is what both ways are rated by.

    The goal is a `share` of the limit's rate or a `rate` in bytes a second, or there is none.
    """

    title: str
    ours: Way
    limit: Way
    against: str
    nbytes: Callable[[Path], int]
    share: float | None = None
    rate: float | None = None


# ------------------------------------------------------------------------------------------- files


def tensors() -> Iterator[tuple[str, Array]]:
    """Yield 1 GiB of normally distributed bf16 weights, no two tensors equal."""
    values = np.random.default_rng(7).standard_normal(4 * MIB, np.float32)
    block = (values * np.float32(0.02)).astype(ml_dtypes.bfloat16)
    for index in range(128):
        yield f"layers.{index:03d}.weight", np.roll(block, 997 * index).reshape(2048, 2048)


def make(folder: Path) -> None:
    """Write every file that is read by a row."""
    from tensorark.edit.prune import prune

    with tensorark.Writer(folder / "x.zt") as writer:
        for name, array in tensors():
            writer.add(name, array)
    with tensorark.Writer(folder / "small.zt") as writer:
        writer.add("weight", np.ones((2, 4), np.float16))
    tensorark.convert(folder / "x.zt", folder / "z.zt", encoding="zstd", frame_size=FRAME)
    (folder / "shards").mkdir()
    tensorark.split(folder / "x.zt", folder / "shards" / "x.zt", max_size=SHARD, algorithm="xxh3")
    for name in ("x.zt", "small.zt"):
        tensorark.seal(folder / name)
    prune(folder / "x.zt", folder / "x.tbm")
    _make_artifact(folder / "x.ninfer", dict(tensors()))
    bias = np.zeros((8, 16), ml_dtypes.bfloat16)
    text = _make_artifact(folder / "catalog.ninfer", {f"w.{i:06d}": bias for i in range(OBJECTS)})
    (folder / "catalog.json").write_bytes(text)
    for name, format_ in FORMATS.items():
        (folder / f"{name}.object").write_bytes(_encoded(format_))


def _make_artifact(path: Path, arrays: dict[str, Array]) -> bytes:
    """Write an artifact of bf16 objects, one bound parameter each; return its directory's text."""
    from tensorark.formats.ninfer import plan
    from tensorark.writing.artifact import objects_payload, write_set

    new = [
        plan.NewTensor(id=name, shape=array.shape, format="bf16", layout=ninfer.CONTIGUOUS)
        for name, array in arrays.items()
    ]
    placed = plan.place(new)
    config = {"architectures": ["Example"], "hidden_size": 2048, "rms_norm_eps": 1e-06}
    members: dict[str, Any] = {
        "components": {"text": {"config": config, "resources": {}}},
        "objects": [plan.object_record(each) for each in placed],
        "bindings": {f"text/{name}": {"object": name} for name in arrays},
        "uses": [],
    }
    planned = plan.plan(
        members, plan.payload_size(placed), entry=path.name, artifact_id=bytes(range(16))
    )
    payload = objects_payload(placed, lambda each: [arrays[each.id].view(np.uint8).data])
    write_set(planned, payload, path)
    return planned.directory.text


def _encoded(format_: str) -> bytes:
    """Return an object of `MATRIX`: random codes, or random weights where that is the way."""
    from tensorark.layouts.ninfer import groups, make

    rng = np.random.default_rng(11)
    whole = _geometry(format_)
    if format_ not in groups.CODINGS:
        return make.encode(whole, rng.standard_normal(MATRIX, np.float32))
    coding = groups.CODINGS[format_]
    count = MATRIX[1] // coding.group
    codes = rng.integers(coding.low, coding.high, (MATRIX[0], count, coding.group), np.int8, True)  # noqa: FBT003 - numpy's endpoint
    scales = rng.uniform(0.01, 0.02, (MATRIX[0], count)).astype(np.float16)
    return make.join(whole, make.pack_groups(format_, codes, scales))


def _geometry(format_: str) -> ninfer.Geometry:
    return ninfer.geometry(format_, ninfer.LAYOUT_OF[format_], MATRIX)


# ---------------------------------------------------------------------------- digests and seals


def verify(folder: Path, _scratch: Path) -> Run:
    from tensorark.integrity.verify import verify as check

    def run(name: str = "x.zt") -> None:
        with tensorark.open(folder / name) as file:
            assert check(file).complete

    run("small.zt")  # what is imported or made once is there
    return run


def check_seal(folder: Path, _scratch: Path) -> Run:
    from tensorark.integrity.seal_check import check_seal as check

    def run(name: str = "x.zt") -> None:
        assert not check(folder / name).findings

    run("small.zt")
    return run


def hashing(folder: Path, _scratch: Path) -> Run:
    """Hash the file, mapped and in memory, with xxh3, an equal stretch on each core."""
    array = np.memmap(folder / "x.zt", np.uint8, "r")
    touch(array)
    return lambda: _hash(array)


def hashing_mapped(folder: Path, _scratch: Path) -> Run:
    """Map the file first, and hash it then."""
    return lambda: _hash(np.memmap(folder / "x.zt", np.uint8, "r"))


def _hash(array: Array) -> None:
    _on_all_cores(xxhash.xxh3_64_intdigest, np.array_split(array, CORES))


def _on_all_cores(work: Callable[[Any], object], items: list[Any]) -> list[object]:
    with ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(work, items))


# -------------------------------------------------------------------------------------------- zstd


def load_zstd(folder: Path, _scratch: Path) -> Run:
    from tensorark.numpy import load_file

    load_file(folder / "small.zt")
    return partial(load_file, folder / "z.zt")


def load_zstandard(folder: Path, _scratch: Path) -> Run:
    """Decompress the same frames with zstandard itself, straight into arrays."""
    parts = list(_frames(folder / "z.zt"))

    def run() -> None:
        jobs = []
        for nbytes, frames in parts:
            memory = np.empty(nbytes, np.uint8).data
            at = 0
            for data, size in frames:
                jobs.append((data, memory[at : at + size]))
                at += size
        queue = iter(jobs)
        _on_all_cores(lambda _thread: _decompress(queue), list(range(CORES)))

    return run


def _decompress(queue: Iterator[tuple[memoryview, memoryview]]) -> None:
    engine = zstandard.ZstdDecompressor()
    for data, target in queue:
        with engine.stream_reader(data, closefd=False) as reader:
            assert reader.readinto(target) == len(target)


def _frames(path: Path) -> Iterator[tuple[int, list[tuple[memoryview, int]]]]:
    """Yield each part's decoded bytes and its frames, found by its seek table."""
    stored = np.memmap(path, np.uint8, "r").data
    with tensorark.open(path) as file:
        for tensor in file.catalog.tensors.values():
            blob = tensor.parts["data"].blob
            assert isinstance(blob, tensorark.Encoded)
            (span,) = blob.spans
            data = stored[span.offset : span.offset + span.length]
            count, flags, _magic = struct.unpack("<IBI", data[-9:])
            entry = 12 if flags & 0x80 else 8
            table = np.frombuffer(data[-9 - count * entry : -9], "<u4").reshape(count, -1)
            at, frames = 0, []
            for compressed, size in table[:, :2].tolist():
                frames.append((data[at : at + compressed], size))
                at += compressed
            yield blob.nbytes, frames


def write_zstd(folder: Path, scratch: Path) -> Run:
    return lambda: tensorark.convert(
        folder / "x.zt", scratch / "out.zt", encoding="zstd", frame_size=FRAME
    )


def write_zstandard(folder: Path, scratch: Path) -> Run:
    """Compress the same bytes into the same frames with zstandard itself, and sync the file."""
    data = np.memmap(folder / "x.zt", np.uint8, "r").data
    local = threading.local()

    def begin() -> None:
        local.engine = zstandard.ZstdCompressor(level=3, write_checksum=True)

    def compress(start: int) -> bytes:
        done: bytes = local.engine.compress(data[start : start + FRAME])
        return done

    def run() -> None:
        with ThreadPoolExecutor(CORES, initializer=begin) as pool:
            with (scratch / "out").open("wb") as file:
                file.writelines(pool.map(compress, range(0, len(data), FRAME)))
            sync(scratch / "out")

    return run


# -------------------------------------------------------------------------------- shards and copies


def split(algorithm: Any, folder: Path, scratch: Path) -> Run:
    return lambda: tensorark.split(
        folder / "x.zt", scratch / "x.zt", max_size=SHARD, algorithm=algorithm
    )


def merge(folder: Path, scratch: Path) -> Run:
    return lambda: tensorark.merge(folder / "shards" / "x.zt", scratch / "out.zt")


def resplit(folder: Path, scratch: Path) -> Run:
    from tensorark.ninfer.resplit import resplit as again

    return lambda: again(folder / "x.ninfer", scratch / "x.ninfer", max_file_bytes=SHARD)


def copying(name: str, folder: Path, scratch: Path) -> Run:
    """Copy the file by the system's own means and bring the copy to the disk."""

    def run() -> None:
        shutil.copyfile(folder / name, scratch / name)
        sync(scratch / name)

    return run


# ------------------------------------------------------------------------------------------ NInfer


def decode(name: str, folder: Path, _scratch: Path) -> Run:
    from tensorark.layouts.ninfer import decoding

    whole = _geometry(FORMATS[name])
    data = memoryview((folder / f"{name}.object").read_bytes())
    decoding.decode(whole, data, 0, whole.unit)  # what is made once is made
    return lambda: decoding.decode(whole, data)


def scaling(_folder: Path, _scratch: Path) -> Run:
    """Turn int8 codes that lie ready into scaled floats: the least that numpy does for any code."""
    rng = np.random.default_rng(11)
    codes = rng.integers(-8, 8, (MATRIX[0], MATRIX[1] // 64, 64), np.int8)
    scales = rng.uniform(0.01, 0.02, (*codes.shape[:2], 1)).astype(np.float32)

    def run() -> None:
        out = np.empty(codes.shape, np.float32)
        for row in range(0, len(out), 64):
            block = out[row : row + 64]
            block[...] = codes[row : row + 64]
            block *= scales[row : row + 64]

    return run


def open_catalog(folder: Path, _scratch: Path) -> Run:
    tensorark.open(folder / "x.ninfer").close()  # what is imported once is imported

    def run() -> None:
        with tensorark.open(folder / "catalog.ninfer") as file:
            assert len(file) == OBJECTS

    return run


def load_json(folder: Path, _scratch: Path) -> Run:
    return partial(json.loads, (folder / "catalog.json").read_bytes())


# --------------------------------------------------------------------------------------- Tensorbit


def _masked() -> tuple[Array, Array, Sparse]:
    """Return fp16 weights, a 2:4 mask of them, and how the two belong together."""
    from tensorark.layouts.nm.magnitude import magnitudes, select
    from tensorark.layouts.nm.masks import pack_mask

    weights = _weights()
    mask = pack_mask(select(magnitudes(weights), TWO_OF_FOUR), TWO_OF_FOUR)
    return weights, mask, _sparse()


def _sparse() -> Sparse:
    return Sparse(elements=WEIGHTS, pattern=TWO_OF_FOUR, packing="groups", dtype="f16")


def _weights() -> Array:
    block = np.random.default_rng(13).standard_normal(4 * MIB, np.float32).astype(np.float16)
    return np.tile(block, WEIGHTS // block.size)


def expand(_folder: Path, _scratch: Path) -> Run:
    from tensorark.layouts.nm.masks import unpack_mask

    _values, mask, sparse = _masked()
    return lambda: unpack_mask(mask, sparse)


def densify(_folder: Path, _scratch: Path) -> Run:
    from tensorark.layouts.nm.masks import apply

    weights, mask, sparse = _masked()
    return lambda: apply(weights, mask, sparse, out=None)


def prune_weights(_folder: Path, _scratch: Path) -> Run:
    """Choose, make the mask, and clear what it does not keep, all in memory on one core."""
    from tensorark.layouts.nm.magnitude import magnitudes, select
    from tensorark.layouts.nm.masks import apply, pack_mask

    weights, sparse = _weights(), _sparse()

    def run() -> None:
        mask = pack_mask(select(magnitudes(weights), TWO_OF_FOUR), TWO_OF_FOUR)
        apply(weights, mask, sparse, out=None)

    return run


def copy_memory(_folder: Path, _scratch: Path) -> Run:
    """Copy the weights to memory that was written to before."""
    weights = _weights()
    return partial(np.copyto, np.ones_like(weights), weights)


def prune_file(folder: Path, scratch: Path) -> Run:
    from tensorark.edit.prune import prune

    prune(folder / "small.zt", scratch / "small.tbm")
    return partial(prune, folder / "x.zt", scratch / "out.tbm")


def load_tensorbit(folder: Path, _scratch: Path) -> Run:
    tensorark.open(folder / "x.tbm").close()

    def run() -> None:
        with tensorark.open(folder / "x.tbm") as file:
            for view in file.values():
                for role in view.parts:
                    touch(np.frombuffer(view.raw(role), np.uint8))

    return run


def read_mapped(folder: Path, _scratch: Path) -> Run:
    return lambda: touch(np.memmap(folder / "x.tbm", np.uint8, "r"))


# ------------------------------------------------------------------------------------------- table


def size_of(name: str) -> Callable[[Path], int]:
    return lambda folder: (folder / name).stat().st_size


_COPY = partial(copying, "x.zt")
_ZT = size_of("x.zt")
_FP16 = 2 * WEIGHTS
_XXH3 = "xxh3 of the same bytes, all cores"
_MEMCPY = "copy of the weights in memory, one core"
_NUMPY = "int8 codes cast and scaled by numpy, one core"
_FILE_COPY = "file copy and sync"

ROWS = {
    "verify": Row(
        title="verify every digest of a `.zt`",
        ours=verify,
        limit=hashing,
        against=_XXH3,
        nbytes=_ZT,
        share=0.8,
    ),
    "verify_mapped": Row(
        title="the same",
        ours=verify,
        limit=hashing_mapped,
        against=_XXH3 + ", mapping included",
        nbytes=_ZT,
    ),
    "seal": Row(
        title="check the seal of a `.zt`",
        ours=check_seal,
        limit=hashing,
        against=_XXH3,
        nbytes=_ZT,
    ),
    "zstd_load": Row(
        title="load `zt.zstd-seekable/1`",
        ours=load_zstd,
        limit=load_zstandard,
        against="`zstandard`, same frames and threads",
        nbytes=_ZT,
        share=0.85,
    ),
    "zstd_write": Row(
        title="write `zt.zstd-seekable/1`",
        ours=write_zstd,
        limit=write_zstandard,
        against="`zstandard`, same frames and threads, and sync",
        nbytes=_ZT,
        share=0.85,
    ),
    "split_xxh3": Row(
        title="split a `.zt`, xxh3",
        ours=partial(split, "xxh3"),
        limit=_COPY,
        against=_FILE_COPY,
        nbytes=_ZT,
        share=0.9,
    ),
    "split_sha256": Row(
        title="split a `.zt`, sha256",
        ours=partial(split, "sha256"),
        limit=_COPY,
        against=_FILE_COPY,
        nbytes=_ZT,
        share=0.9,
    ),
    "merge": Row(
        title="merge a `.zt`",
        ours=merge,
        limit=_COPY,
        against=_FILE_COPY,
        nbytes=_ZT,
        share=0.9,
    ),
    "resplit": Row(
        title="re-split a `.ninfer`",
        ours=resplit,
        limit=partial(copying, "x.ninfer"),
        against=_FILE_COPY,
        nbytes=size_of("x.ninfer"),
        share=0.9,
    ),
    "catalog": Row(
        title="open a `.ninfer` of 100,000 objects",
        ours=open_catalog,
        limit=load_json,
        against="`json.loads` of its text",
        nbytes=size_of("catalog.json"),
        share=0.5,
    ),
    **{
        f"decode_{name}": Row(
            title=f"decode {name} to float32",
            ours=partial(decode, name),
            limit=scaling,
            against=_NUMPY,
            nbytes=lambda _folder: 4 * MATRIX[0] * MATRIX[1],
        )
        for name in FORMATS
    },
    "expand": Row(
        title="expand 2:4 masks of fp16 weights",
        ours=expand,
        limit=copy_memory,
        against=_MEMCPY,
        nbytes=lambda _folder: _FP16,
        rate=1e9,
    ),
    "densify": Row(
        title="densify 2:4 fp16 weights",
        ours=densify,
        limit=copy_memory,
        against=_MEMCPY,
        nbytes=lambda _folder: _FP16,
        rate=1e9,
    ),
    "prune": Row(
        title="prune fp16 weights to 2:4 in memory",
        ours=prune_weights,
        limit=copy_memory,
        against=_MEMCPY,
        nbytes=lambda _folder: _FP16,
    ),
    "prune_file": Row(
        title="prune a bf16 `.zt` to 2:4 into a `.tbm`",
        ours=prune_file,
        limit=_COPY,
        against=_FILE_COPY,
        nbytes=_ZT,
    ),
    "tensorbit": Row(
        title="open a `.tbm` and read every byte",
        ours=load_tensorbit,
        limit=read_mapped,
        against="reading the mapped file",
        nbytes=size_of("x.tbm"),
        share=0.9,
    ),
}
