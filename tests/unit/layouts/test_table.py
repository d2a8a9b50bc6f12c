"""The table of layouts: each folder keeps what the table promises of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorark import layouts
from tensorark.layouts import IDS, LAYOUTS, layout_of
from tensorark.layouts.gate import values_of


def test_every_folder_with_rules_is_in_the_table():
    home = Path(layouts.__file__).parent
    assert {each.parent.name for each in home.glob("*/rules.py")} == {*LAYOUTS}


def test_a_layout_says_whether_a_payload_can_break_it():
    for id_ in (*IDS, "gguf.q4_0/1"):
        layout, values = layout_of(id_), values_of(id_)
        if layout is None or values is None:
            assert id_ == "gguf.<type>/1"
            continue
        assert values.layout is layout
        assert layout.judges_payload == (values.judge is not None)


def test_every_id_leads_to_its_layout():
    known = [layout_of(id_) for id_ in IDS if "<" not in id_]
    assert None not in known
    assert {each.id for each in known if each} | {"gguf.<type>/1"} == {
        each.id for each in LAYOUTS.values()
    }


@pytest.mark.parametrize("id_", ["gguf.q4_k/1", "gguf.of_tomorrow/1"])
def test_the_family_of_gguf_is_open(id_):
    assert layout_of(id_) is LAYOUTS["gguf"]


@pytest.mark.parametrize(
    "id_", ["", "gguf.<type>/1", "ninfer.<layout>", "ninfer.contiguous_le_v2", "dense/1"]
)
def test_what_is_in_no_folder_is_unknown(id_):
    assert layout_of(id_) is None
    assert values_of(id_) is None
