"""What is measured: a function for each task and library, each run in a process of its own.

A sample prepares (imports, opens what is not measured), then times one call. Reading tasks touch
every byte, so that a lazy reader cannot win by not reading.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Task = Callable[[Path, Path], None]
"""Takes the folder of the sets' files for one set, as path without suffix, and a scratch folder."""


def touch(array: np.ndarray) -> None:
    """Read every byte of an array."""
    data = np.frombuffer(array.data if array.flags.c_contiguous else array.tobytes(), np.uint8)
    whole = len(data) & ~7
    int(data[:whole].view(np.uint64).sum())
    int(data[whole:].sum())


def with_suffix(base: Path, suffix: str) -> Path:
    return base.with_name(base.name + suffix)


# open and list


def open_tensorark_zt(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".zt")) as file:
        assert list(file)


def open_tensorark_safetensors(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".safetensors")) as file:
        assert list(file)


def open_ztensor(base: Path, _scratch: Path) -> None:
    import ztensor

    assert list(ztensor.open(str(with_suffix(base, ".zt"))).keys())


def open_safetensors(base: Path, _scratch: Path) -> None:
    import safetensors

    with safetensors.safe_open(with_suffix(base, ".safetensors"), "np") as file:
        assert list(file.keys())


# every tensor as a view, every byte read


def views_tensorark_zt(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".zt")) as file:
        for view in file.values():
            touch(view.numpy().view(np.uint8) if view.ndim else view.numpy())


def views_tensorark_safetensors(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".safetensors")) as file:
        for view in file.values():
            touch(view.numpy())


def views_ztensor(base: Path, _scratch: Path) -> None:
    import ztensor

    file = ztensor.open(str(with_suffix(base, ".zt")))
    for name in file.keys():  # noqa: SIM118 - its interface
        touch(np.frombuffer(file[name], np.uint8))


def views_safetensors(base: Path, _scratch: Path) -> None:
    import safetensors

    with safetensors.safe_open(with_suffix(base, ".safetensors"), "np") as file:
        for name in file.keys():  # noqa: SIM118 - its interface
            touch(file.get_tensor(name))


# every tensor in memory of its own


def load_tensorark_zt(base: Path, _scratch: Path) -> None:
    import tensorark.numpy

    tensorark.numpy.load_file(with_suffix(base, ".zt"))


def load_tensorark_safetensors(base: Path, _scratch: Path) -> None:
    import tensorark.numpy

    tensorark.numpy.load_file(with_suffix(base, ".safetensors"))


def load_ztensor(base: Path, _scratch: Path) -> None:
    import ztensor

    file = ztensor.open(str(with_suffix(base, ".zt")))
    kept = [np.frombuffer(file[name], np.uint8).copy() for name in file.keys()]  # noqa: SIM118
    assert kept


def load_safetensors(base: Path, _scratch: Path) -> None:
    import safetensors.numpy

    safetensors.numpy.load_file(with_suffix(base, ".safetensors"))


# one tensor of the middle


def one_tensorark_zt(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".zt")) as file:
        names = list(file)
        touch(file[names[len(names) // 2]].numpy())


def one_tensorark_safetensors(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".safetensors")) as file:
        names = list(file)
        touch(file[names[len(names) // 2]].numpy())


def one_ztensor(base: Path, _scratch: Path) -> None:
    import ztensor

    file = ztensor.open(str(with_suffix(base, ".zt")))
    names = list(file.keys())
    touch(np.frombuffer(file[names[len(names) // 2]], np.uint8))


def one_safetensors(base: Path, _scratch: Path) -> None:
    import safetensors

    with safetensors.safe_open(with_suffix(base, ".safetensors"), "np") as file:
        names = list(file.keys())
        touch(file.get_tensor(names[len(names) // 2]))


# verify every digest


def verify_tensorark_zt(base: Path, _scratch: Path) -> None:
    import tensorark

    with tensorark.open(with_suffix(base, ".zt")) as file:
        assert tensorark.verify(file).complete


def verify_ztensor(base: Path, _scratch: Path) -> None:
    import ztensor

    ztensor.open(str(with_suffix(base, ".zt"))).verify()


# convert safetensors to .zt, to the disk


def convert_tensorark_zt(base: Path, scratch: Path) -> None:
    import tensorark

    align = 4096 if base.name == "M" else None
    tensorark.convert(with_suffix(base, ".safetensors"), scratch / "out.zt", align=align)


def convert_tensorark_safetensors(base: Path, scratch: Path) -> None:
    """The way back."""
    import tensorark

    tensorark.convert(with_suffix(base, ".zt"), scratch / "out.safetensors")


def convert_ztensor(base: Path, scratch: Path) -> None:
    import ztensor

    options = {"align": 4096} if base.name == "M" else {}
    ztensor.convert(str(with_suffix(base, ".safetensors")), str(scratch / "out.zt"), **options)
    sync(scratch / "out.zt")


# save arrays that are in memory, to the disk

_arrays: dict[str, np.ndarray] = {}


def prepare_save(base: Path) -> None:
    """Bring the tensors into memory before the clock starts."""
    import safetensors.numpy

    _arrays.update(safetensors.numpy.load_file(with_suffix(base, ".safetensors")))


def save_tensorark_zt(base: Path, scratch: Path) -> None:
    import tensorark

    with tensorark.Writer(scratch / "out.zt", align=4096 if base.name == "M" else None) as writer:
        for name in sorted(_arrays):
            writer.add(name, _arrays[name])


def save_tensorark_safetensors(_base: Path, scratch: Path) -> None:
    import tensorark.numpy

    tensorark.numpy.save_file(_arrays, scratch / "out.safetensors")


def save_ztensor(base: Path, scratch: Path) -> None:
    import ztensor.numpy

    align = 4096 if base.name == "M" else None
    ztensor.numpy.save_file(_arrays, scratch / "out.zt", align=align)
    sync(scratch / "out.zt")


def save_safetensors(_base: Path, scratch: Path) -> None:
    import safetensors.numpy

    safetensors.numpy.save_file(_arrays, scratch / "out.safetensors")
    sync(scratch / "out.safetensors")


# the machine's own limits on the same bytes


def load_limit(base: Path, _scratch: Path) -> None:
    """Read the file into fresh memory with large pages, two threads: the least a loader must do."""
    import mmap
    import threading

    path = with_suffix(base, ".safetensors")
    size = path.stat().st_size
    memory = mmap.mmap(-1, size)
    memory.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(memory)
    descriptor = os.open(path, os.O_RDONLY)
    block = 4 << 20

    def half(first: int) -> None:
        for start in range(first * block, size, 2 * block):
            os.preadv(descriptor, [view[start : min(start + block, size)]], start)

    threads = [threading.Thread(target=half, args=(first,)) for first in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def views_limit(base: Path, _scratch: Path) -> None:
    """Read every byte of the mapped file."""
    touch(np.memmap(with_suffix(base, ".safetensors"), np.uint8, "r"))


def convert_limit(base: Path, scratch: Path) -> None:
    """Copy the file and bring the copy to the disk."""
    shutil.copyfile(with_suffix(base, ".safetensors"), scratch / "out.copy")
    sync(scratch / "out.copy")


def save_limit(base: Path, scratch: Path) -> None:
    """The same: the least that puts these bytes into a file with the system's own means."""
    convert_limit(base, scratch)


def verify_limit(_base: Path, _scratch: Path) -> None:
    """Hash the bytes in memory on two threads, as fast as xxh3 does."""
    import threading

    import xxhash

    whole = _hashed[0]
    halves = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    threads = [threading.Thread(target=xxhash.xxh3_64_intdigest, args=(half,)) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_hashed: list[memoryview] = []


def prepare_verify(base: Path) -> None:
    """Map and touch what `verify_limit` hashes."""
    array = np.memmap(with_suffix(base, ".safetensors"), np.uint8, "r")
    touch(array)
    _hashed.append(memoryview(array))


def sync(path: Path) -> None:
    """Bring a file to the disk, as our writers do before they publish."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def find(task: str, library: str) -> Task | None:
    """Return the function of a task for a library, if it can do it."""
    found = getattr(sys.modules[__name__], f"{task}_{library}", None)
    return found if callable(found) else None
