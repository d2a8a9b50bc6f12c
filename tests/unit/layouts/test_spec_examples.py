"""The worked examples of `spec/profiles` are files, and decode to the values that stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tensorark
from conformance.zt.build.image import FLOOR, image
from conformance.zt.build.manifest import part, root, tensor
from tensorark.core.rules import all_rules

PAGES = Path(__file__).resolve().parents[3] / "spec/profiles"
EXAMPLES = [
    (page.stem, json.loads(text))
    for page in sorted(PAGES.glob("*.md"))
    for text in re.findall(r"^```json\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]


def title(page):
    """The id that a page is about, as its first line says."""
    return re.match(r"# (?:`([^`]+)`)?", page.read_text())[1]


OURS = ("zt.sparse_csr/1", "zt.sparse_coo/1", "zt.quant_group/1", "zt.mx/1", "gguf.<type>/1",
        "mlx.affine/1")  # fmt: skip
RULE_PAGES = [page for page in sorted(PAGES.glob("*.md")) if title(page) in OURS]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_examples_decode_to_their_values(tmp_path, page, example):
    heap, parts = {}, {}
    for place, (role, held) in enumerate(example["parts"].items(), 1):
        data = heap[FLOOR * place] = bytes.fromhex(held.get("hex", "00" * held.get("zeros", 0)))
        fields = {key: held[key] for key in ("dtype", "type") if key in held}
        parts[role] = part(blob=[FLOOR * place, len(data)], **fields)
    fields = {key: example[key] for key in ("attributes",) if key in example}
    record = tensor(shape=example["shape"], layout=example["layout"], parts=parts, **fields)
    path = tmp_path / "example.zt"
    path.write_bytes(image(root(objects={"t": record}), heap))
    assert tensorark.validate(path) == []
    with tensorark.open(path) as file:
        assert tensorark.verify(file).refused == ()
        if "values" in example:
            found = file["t"].numpy()
            assert found.dtype == np.float32
            assert found.reshape(-1).tobytes() == np.array(example["values"], "<f4").tobytes()


def test_there_is_an_example_on_every_page():
    assert {title(page) for page in RULE_PAGES} == set(OURS)
    assert {page for page, _ in EXAMPLES} >= {page.stem for page in RULE_PAGES}


@pytest.mark.parametrize("page", RULE_PAGES, ids=lambda page: page.stem)
def test_pages_list_the_rules_of_their_profile(page):
    """All of them, those of payload too, and no others than those of types."""
    known = {rule.id for rule in all_rules() if rule.section == title(page)}
    listed = set(re.findall(r"`((?:zt|mlx)\.[a-z0-9]+(?:-[a-z0-9]+)*)`", page.read_text()))
    assert known
    assert listed - {"zt.f4-padding"} == known
