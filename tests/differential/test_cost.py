"""No rejected file of the corpus costs more than a moment and little memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest

import tensorark
from conformance import run
from tests.conformance.corpus_files import CORPUS, index
from tests.judge import answer

REJECTED = [file for file in index()["files"] if file["path"].startswith("zt/reject/")]
MEMORY = 64 << 20
SECONDS = 1


@pytest.mark.parametrize("file", REJECTED, ids=lambda file: file["path"].removeprefix("zt/reject/"))
def test_a_rejection_is_cheap(file):
    with run.image(CORPUS / file["path"]) as path:
        start = time.perf_counter()
        tracemalloc.start()
        try:
            outcome, _ = answer(file["operation"], path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert outcome == "reject"
        assert peak < MEMORY
        assert time.perf_counter() - start < SECONDS


def test_a_manifest_above_the_cap_is_refused_before_it_is_read():
    (file,) = [each for each in REJECTED if each["rule"] == "zt.manifest-size"]
    with run.image(CORPUS / file["path"]) as path:
        assert path.stat().st_size > 1 << 30
        for io in ("mmap", "pread"):
            tracemalloc.start()
            try:
                with pytest.raises(tensorark.Rejected, match="too large"):
                    tensorark.open(path, io=io)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 1 << 20
