"""The committed corpus is what its builders make, complete, and independent of the library."""

from __future__ import annotations

import ast
import re
import shutil

import pytest

from conformance.zt.build import cbor, image
from conformance.zt.build.corpus import CORPUS as BUILT

from .corpus_files import CORPUS, index, shared

LINE = re.compile(r"(?P<section>[\w./<>-]+) \| (?P<words>[^|]+) \| (?P<answer>[^|]+)")


def musts() -> list[list[dict[str, str]]]:
    """Return the two blocks of musts.txt: lines with the word, lines without it."""
    blocks: list[list[dict[str, str]]] = [[]]
    for line in (CORPUS / "zt/musts.txt").read_text().splitlines():
        if line.startswith("# Requirements without"):
            blocks.append([])
        elif line and not line.startswith("#"):
            found = LINE.fullmatch(line)
            assert found, line
            blocks[-1].append(found.groupdict())
    return blocks


def test_a_changed_a_missing_and_a_stray_file_are_reported(tmp_path):
    folder = shutil.copytree(CORPUS, tmp_path / "corpus")
    (folder / "zt/accept/minimal.zt").write_bytes(b"")
    (folder / "zt/reject/version.zt").unlink()
    (folder / "zt/either/stray.zt").write_bytes(b"")
    assert BUILT.problems(folder) == [
        "stray: zt/either/stray.zt",
        "stale: zt/accept/minimal.zt",
        "missing: zt/reject/version.zt",
    ]


def test_every_file_is_asked_for_its_telling_operation():
    outcome = {"accept": "accept", "reject": "reject", "refuse": "refuse"}
    for file in index()["files"]:
        wanted = outcome.get(file["class"])
        assert wanted is None or file["expect"][file["operation"]] == wanted, file["path"]


if (FOLDER := shared()) is not None:

    def test_the_musts_are_as_many_as_in_the_specification():
        text = (FOLDER / "specs/zt-v2-draft4.txt").read_text()
        assert len(musts()[0]) == len(re.findall(r"\bMUST\b", text))


@pytest.mark.parametrize(
    "path", sorted(CORPUS.rglob("*.py")), ids=lambda path: str(path.relative_to(CORPUS))
)
def test_the_corpus_does_not_import_the_library(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not [name for name in imported if name.split(".")[0] == "tensorark"]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [  # RFC 8949, appendix A
        (23, "17"), (24, "1818"), (1000, "1903e8"), (1000000, "1a000f4240"),
        (18446744073709551615, "1bffffffffffffffff"), (-18446744073709551616, "3bffffffffffffffff"),
        (-1, "20"), (-100, "3863"), (0.0, "f90000"), (-0.0, "f98000"), (1.1, "fb3ff199999999999a"),
        (65504.0, "f97bff"), (100000.0, "fa47c35000"), (5.960464477539063e-8, "f90001"),
        (float("inf"), "f97c00"), (float("nan"), "f97e00"), (None, "f6"), (True, "f5"),
        (b"\x01\x02\x03\x04", "4401020304"), ("IETF", "6449455446"), ([1, [2, 3]], "8201820203"),
        ({"a": 1, "b": [2, 3]}, "a26161016162820203"), ({10: 0, "z": 1, 100: 2, "bb": 3, -1: 4},
         "a50a0018640220046 17a0162626203".replace(" ", "")),
    ],
)  # fmt: skip
def test_the_emitter_writes_known_encodings(value, encoded):
    assert cbor.encode(value).hex() == encoded


def test_an_image_is_laid_out_as_the_specification_draws_it():
    built = image.image(b"\xa1\x67objects\xa0", {4096: b"\x07"})
    assert len(built) == 8192 + 10 + 40
    assert built[:8].hex() == built[-8:].hex() == "895a54320d0a1a0a"
    assert built[4096:4097] == b"\x07"
    assert built[8192:8202] == b"\xa1\x67objects\xa0"
    assert built[-40:-24].hex() == "0020000000000000" + "0a00000000000000"
    assert built[-16:-8].hex() == "0200000000000000"
