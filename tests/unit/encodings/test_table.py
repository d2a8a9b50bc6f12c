"""The table of encodings: each folder keeps what the table promises of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorark import encodings
from tensorark.encodings import WRITTEN, find
from tensorark.encodings.npy.rules import ARRAY, DEFLATE
from tensorark.encodings.zstd.rules import ID
from tensorark.errors import Unsupported


@pytest.mark.parametrize("id_", [ID, ARRAY, DEFLATE])
def test_every_encoding_is_found_by_its_id(id_):
    assert find(id_).id == id_


def test_every_folder_with_a_codec_is_in_the_table():
    home = Path(encodings.__file__).parent
    assert {each.parent.name for each in home.glob("*/codec.py")} == {*encodings._FOLDERS.values()}


def test_what_is_written_is_read():
    assert {find(id_).id for id_ in WRITTEN} == {*WRITTEN}


@pytest.mark.parametrize("id_", ["", "zstd", "npy.array/2", "zt.zstd-seekable/2"])
def test_what_is_not_in_the_table_is_unknown(id_):
    with pytest.raises(Unsupported) as caught:
        find(id_)
    assert caught.value.code == "unknown-encoding"
