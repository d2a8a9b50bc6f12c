"""The CSR files of this corpus, and the public ones, under a second opinion.

The reference reader takes zt.sparse_csr/1 for an unknown layout, so these files get a judge of
their own: the profile's rules, from its text, over what the reference reader finds structurally.
"""

from __future__ import annotations

import itertools
import math
import struct

import pytest

from conformance.reference import ztread

from .corpus_files import CORPUS, index, published, vectors

CSR = "zt.sparse_csr/1"
OURS = {file["path"]: file for file in index()["files"] if file["requires"] == CSR}
PUBLIC = {path: known for path, known in published("ztensor-corpus").items() if "/csr" in path}


def size(part, count):
    """Return the bytes of `count` elements."""
    bits = {"f4_e2m1": 4, "complex64": 64, "complex128": 128}.get(part.type or "")
    return math.ceil(count * (bits or 8 * ztread.WIDTHS[part.dtype]) / 8)


def metadata(tensor):
    """Yield the rules broken by what the manifest says of a CSR object."""
    if len(tensor.shape) != 2:
        yield "csr-rank"
    if set(tensor.parts) != {"values", "indices", "indptr"}:
        yield "csr-parts"
        return
    values, indices, indptr = (tensor.parts[role] for role in ("values", "indices", "indptr"))
    if (
        indices.dtype != indptr.dtype
        or indices.dtype not in ("u32", "u64")
        or indices.type is not None
        or indptr.type is not None
    ):
        yield "csr-index-dtype"
        return
    width = ztread.WIDTHS[indices.dtype]
    if indices.nbytes % width:
        yield "csr-indices-size"
    elif values.nbytes != size(values, indices.nbytes // width):
        yield "csr-values-size"
    if len(tensor.shape) == 2 and indptr.nbytes != (tensor.shape[0] + 1) * width:
        yield "csr-indptr-count"


def payload(tensor, data):
    """Yield the rules broken by the bytes of a CSR object whose sizes are right."""
    form = {"u32": "I", "u64": "Q"}[tensor.parts["indices"].dtype]
    indices, indptr = (
        struct.unpack(f"<{len(data[role]) // struct.calcsize('<' + form)}{form}", data[role])
        for role in ("indices", "indptr")
    )
    if indptr[0] != 0:
        yield "csr-indptr-start"
    ordered = list(indptr) == sorted(indptr)
    if not ordered:
        yield "csr-indptr-order"
    if indptr[-1] != len(indices):
        yield "csr-indptr-end"
    if any(index >= tensor.shape[1] for index in indices):
        yield "csr-column-bound"
    if ordered:
        rows = [indices[a:b] for a, b in itertools.pairwise(indptr)]
        if any(sorted(set(row)) != list(row) for row in rows):
            yield "csr-column-order"
    kind, values = tensor.parts["values"].type, data["values"]
    if kind == "bool" and set(values) - {0, 1}:
        yield "bool-byte"
    if kind == "f4_e2m1" and len(indices) % 2 and values[-1] >> 4:
        yield "f4-padding"


def second_opinion(path):
    """Return the stage at which a file fails and the rules it breaks, or ("", [])."""
    with path.open("rb") as file:
        frame = ztread.read_frame(file)
        root = ztread.read_manifest(file, frame)
        tensors = ztread.tensors(root)
        found = [rule for rule, _ in ztread.claims(root, tensors, frame)]
        matrices = [tensor for tensor in tensors if tensor.layout == CSR]
        assert matrices
        found += [rule for matrix in matrices for rule in metadata(matrix)]
        if found:
            return "open", [f"zt.{rule}" for rule in found]
        for matrix in matrices:
            data = {role: ztread.payload(file, part) for role, part in matrix.parts.items()}
            found += [f"zt.{rule}" for rule in payload(matrix, data)]
    return ("content", found) if found else ("", [])


@pytest.mark.parametrize("path", OURS)
def test_breaks_exactly_its_rule(path):
    file = OURS[path]
    wanted = (file["stage"], [file["rule"]]) if file["class"] == "reject" else ("", [])
    assert second_opinion(CORPUS / path) == wanted


if PUBLIC:

    @pytest.mark.parametrize("path", PUBLIC)
    def test_the_second_opinion_agrees_with_the_public_corpus(path):
        stage, rules = second_opinion(vectors("ztensor-corpus") / path)
        known = PUBLIC[path]
        assert bool(rules) == (known["expect"] == "reject")
        if rules:
            assert len(rules) == 1
            assert stage == {"LayoutRule": "open", "LayoutData": "content"}[known["rule"]]
