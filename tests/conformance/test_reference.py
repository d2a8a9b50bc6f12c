"""The reference reader agrees with every file of this corpus and with the published ones."""

from __future__ import annotations

import json
import random

import pytest

from conformance import run
from conformance.reference import ztread

from .corpus_files import CORPUS, image, index, published, vectors

OUTCOMES = {0: "accept", 1: "reject", 2: "refuse"}
CSR = "zt.sparse_csr/1"
OPERATIONS = ("open", "decode", "verify", "canonical")

OURS = {file["path"]: file for file in index()["files"] if file["requires"] is None}


def judge(operation, path):
    """Return the reader's outcome and the JSON it would print."""
    code, report = ztread.judge(operation, path)
    return OUTCOMES[code], json.loads(json.dumps(report))


@pytest.mark.parametrize("path", OURS)
def test_agrees_with_our_corpus(path):
    file = OURS[path]
    contents = json.loads((CORPUS / file["contents"]).read_bytes()) if file["contents"] else None
    with image(path) as made:
        for operation, expected in file["expect"].items():
            outcome, report = judge(operation, made)
            assert outcome == expected, (operation, report)
            if outcome == "reject" and file["rule"]:
                assert report["rules"] == [file["rule"]]
            if outcome == "accept" and contents:
                assert run.compare(report, contents, operation) == ""
            if outcome == "accept" and contents and operation in ("decode", "verify"):
                for tensor in report["tensors"].values():
                    assert all("sha256" in part for part in tensor["parts"].values())


# --- the corpus of the specification's authors ----------------------------------------------------

# Their rules are coarser than ours; a rule of theirs may show as any of these of ours.
PUBLIC_RULES = {
    "FileTooSmall": {"zt.file-size"},
    "HeaderMagic": {"zt.header-magic"},
    "FooterMagic": {"zt.footer-magic"},
    "Version": {"zt.version"},
    "ManifestBounds": {"zt.manifest-bounds", "zt.data-shard"},
    "ManifestTooLarge": {"zt.manifest-size"},
    "ManifestHash": {"zt.manifest-hash"},
    "CborSyntax": {
        "zt.cbor-truncated", "zt.cbor-trailing", "zt.cbor-indefinite", "zt.cbor-reserved",
        "zt.cbor-tag", "zt.cbor-simple", "zt.cbor-utf8",
    },
    "CborDeterminism": {
        "zt.cbor-shortest", "zt.cbor-key-order", "zt.cbor-float-shortest", "zt.cbor-nan",
    },
    "CborDuplicateKey": {"zt.cbor-key-unique"},
    "CborDepth": {"zt.cbor-depth"},
    "Schema": {
        "zt.root-map", "zt.objects", "zt.shards", "zt.attributes", "zt.name-text", "zt.object-map",
        "zt.object-shape", "zt.object-layout", "zt.object-parts", "zt.parts-empty", "zt.part-map",
        "zt.part-dtype", "zt.part-type", "zt.part-blob", "zt.part-shard", "zt.part-encoding",
        "zt.part-decoded-length", "zt.part-digest", "zt.type-dtype", "zt.shard-name",
        "zt.shard-entry", "zt.shard-size", "zt.shard-digest",
    },
    "Name": {"zt.name-empty", "zt.name-length", "zt.name-nul"},
    "ShardName": {"zt.shard-name", "zt.part-shard"},
    "Shape": {"zt.shape-rank", "zt.shape-product"},
    "ShardRef": {"zt.shard-undeclared"},
    "BlobAlignment": {"zt.blob-align", "zt.manifest-align"},
    "BlobBounds": {"zt.blob-bounds"},
    "BlobOverlap": {"zt.blob-overlap"},
    "LayoutRule": {
        "zt.dense-parts", "zt.csr-rank", "zt.csr-parts", "zt.csr-index-dtype",
        "zt.csr-indices-size", "zt.csr-indptr-count", "zt.csr-values-size",
        "zt.coo-rank", "zt.coo-parts", "zt.coo-coords-dtype", "zt.coo-coords-size",
        "zt.coo-values-size", "zt.quant-parts", "zt.quant-bits", "zt.quant-axis",
        "zt.quant-group-size", "zt.quant-packing", "zt.quant-per-word", "zt.quant-scale-form",
        "zt.quant-zero-point", "zt.quant-data-dtype", "zt.quant-scales-dtype",
        "zt.quant-zeros-dtype", "zt.quant-data-size", "zt.quant-scales-size", "zt.quant-zeros-size",
        "zt.mx-parts", "zt.mx-axis", "zt.mx-block-size", "zt.mx-scale-form", "zt.mx-scales-dtype",
        "zt.mx-data-dtype", "zt.mx-data-size", "zt.mx-scales-size", "zt.gguf-parts",
        "zt.gguf-dtype", "zt.gguf-elems-per-block", "zt.gguf-block-bytes", "zt.gguf-size",
        "mlx.parts", "mlx.bits", "mlx.group-size", "mlx.dtypes", "mlx.data-size",
        "mlx.scales-size",
    },
    "DenseSize": {"zt.dense-size"},
    "LayoutData": {
        "zt.bool-byte", "zt.f4-padding", "zt.csr-indptr-start", "zt.csr-indptr-order",
        "zt.csr-indptr-end", "zt.csr-column-order", "zt.csr-column-bound",
        "zt.coo-coord-bound", "zt.coo-cell-unique",
    },
    "Encoding": {
        "zt.zstd-footer-magic", "zt.zstd-table-size", "zt.zstd-descriptor", "zt.zstd-table-magic",
        "zt.zstd-compressed-sizes", "zt.zstd-decoded-length", "zt.zstd-frame-limit",
        "zt.zstd-equal-frames", "zt.zstd-frame", "zt.zstd-checksum-flag", "zt.zstd-dictionary",
        "zt.zstd-frame-size", "zt.zstd-data", "zt.zstd-checksum", "zt.zstd-table-checksum",
    },
    "Digest": {"zt.digest"},
}  # fmt: skip

# Their files with a second fault, which follows from the one they are about.
ALSO_BROKEN = {
    "reject/manifest-too-large.zt": {"zt.manifest-bounds"},  # 2 GiB in a small file
    "reject/blob-out-of-bounds.zt": {"zt.blob-overlap"},  # 2^40 bytes cover the manifest
    "reject/shape-product-overflow.zt": {"zt.dense-size"},  # no blob has so many bytes
}

PUBLIC = published("ztensor-corpus")


def test_the_map_names_every_rule_of_ours_that_is_not_canonical():
    ours = {rule["id"] for rule in index()["rules"] if rule["stage"] != "canonical"}
    assert set().union(*PUBLIC_RULES.values()) == ours


if PUBLIC:

    @pytest.mark.parametrize("path", [path for path in PUBLIC if not path.startswith("reject/csr")])
    def test_agrees_with_the_public_corpus(path):
        known = PUBLIC[path]
        file = vectors("ztensor-corpus") / path
        outcome, report = judge("open", file)
        if known["expect"] == "reject" and known["stage"] == "open":
            assert outcome == "reject"
            also = ALSO_BROKEN.get(path, set())
            (rule,) = [rule for rule in report["rules"] if rule not in also]
            assert rule in PUBLIC_RULES[known["rule"]]
            assert set(report["rules"]) == {rule} | also
            return
        assert outcome == "accept"
        if known["expect"] == "reject":
            outcome, report = judge(known["stage"], file)
            assert outcome == "reject"
            assert len(report["rules"]) == 1
            assert report["rules"][0] in PUBLIC_RULES[known["rule"]]
        for operation, answer in known.get("then", {}).items():
            if operation in OPERATIONS:
                assert answer.startswith(judge(operation, file)[0])


# --- files written by the library of the specification's authors ----------------------------------

MADE = {
    path: known
    for path, known in published("ztensor-made").items()
    if known["provenance"] == "root" and "shards" not in known
}

# Canonical by the text and by their writer; their checker disagrees (facts: zero-length blobs).
FALSELY_NOT_CANONICAL = {"zero-first-canonical.zt"}

if MADE:

    @pytest.mark.parametrize("path", MADE)
    def test_agrees_with_files_of_the_public_library(path):
        known = MADE[path]
        file = vectors("ztensor-made") / path
        outcome, report = judge("verify", file)
        encoded = any(
            "encoding" in part
            for tensor in known["tensors"].values()
            for part in tensor["parts"].values()
        )
        if encoded:
            assert outcome == "refuse"
            outcome, report = judge("open", file)
        assert outcome == "accept"
        assert run.same(report["attributes"], known.get("attributes"))
        assert report["tensors"].keys() == known["tensors"].keys()
        for name, tensor in report["tensors"].items():
            wanted = known["tensors"][name]
            assert tensor["shape"] == wanted["shape"]
            assert tensor["layout"] == wanted["layout"]
            assert run.same(tensor["attributes"], wanted.get("attributes"))
            assert tensor["parts"].keys() == wanted["parts"].keys()
            for role, part in tensor["parts"].items():
                for field in ("dtype", "type", "digest", "nbytes"):
                    assert part[field] == wanted["parts"][role].get(field)
                assert encoded or part["sha256"] == wanted["parts"][role]["sha256"]
        digest = known["content_digest"]
        assert report["content_digest"] == (None if "undefined" in digest else digest)

    @pytest.mark.parametrize("path", MADE)
    def test_judges_canonical_form_as_the_public_library_does(path):
        outcome, report = judge("canonical", vectors("ztensor-made") / path)
        clean = not MADE[path]["canonical_violations"] or path in FALSELY_NOT_CANONICAL
        assert outcome == ("accept" if clean else "reject"), report


# --- anything else --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["attributes", "shards", "logical-types", "canonical-empty"])
def test_answers_every_mutation_of_a_valid_file(path, tmp_path):
    """Whatever happens to a file, the answer is a verdict: no exception leaves the reader."""
    rng = random.Random(path)
    valid = (CORPUS / f"zt/accept/{path}.zt").read_bytes()
    start = int.from_bytes(valid[-40:-32], "little")
    for _ in range(200):
        mutant = bytearray(valid)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(start, len(mutant))
            mutant[at] = rng.choice((rng.randrange(256), mutant[at] ^ 1 << rng.randrange(8)))
        length = len(mutant) - 40 - start
        digest = ztread.xxhash.xxh3_64_intdigest(bytes(mutant[start:-40]))
        if rng.random() < 0.8:  # mostly let the mutation reach the manifest
            mutant[-40:-16] = b"".join(n.to_bytes(8, "little") for n in (start, length, digest))
            mutant[-16:] = valid[-16:]
        file = tmp_path / "mutant.zt"
        file.write_bytes(mutant)
        for operation in OPERATIONS:
            assert judge(operation, file)[0] in OUTCOMES.values()
