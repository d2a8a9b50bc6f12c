"""One sample: a task of a library on a set, in this process, timed once; prints JSON.

python -m bench.sample TASK LIBRARY BASE SCRATCH
"""

from __future__ import annotations

import importlib
import json
import mmap
import resource
import sys
import time
from pathlib import Path

from bench import tasks

_IMPORTS = {
    "tensorark": [
        "tensorark.numpy",
        "tensorark.layouts.gate",
        "tensorark.layouts.dense.values",
        "tensorark.conversion.pipeline",
        "tensorark.integrity.verify",
        "ml_dtypes",
    ],
    "ztensor": ["ztensor", "ztensor.numpy"],
    "safetensors": ["safetensors.numpy"],
    "limit": [],
}


def warm_memory(nbytes: int) -> None:
    """Touch and free memory, so that a virtual machine's host does not serve it on the clock."""
    memory = mmap.mmap(-1, nbytes)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for start in range(0, nbytes, 4096):
        memory[start] = 1
    memory.close()


def main() -> None:
    task, library, base, scratch = sys.argv[1:]
    for name in _IMPORTS[library.split("_")[0]]:
        importlib.import_module(name)
    run = tasks.find(task, library)
    if run is None:
        raise SystemExit(f"{library} has no task {task}")
    prepare = getattr(tasks, f"prepare_{task}", None)
    if prepare:
        prepare(Path(base))
    if task in {"load", "views"}:
        warm_memory(tasks.with_suffix(Path(base), ".safetensors").stat().st_size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    run(Path(base), Path(scratch))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"seconds": seconds, "peak_kib": peak}))


if __name__ == "__main__":
    main()
