"""What an operation reads, and how operations nest."""

from __future__ import annotations

import pytest

from tensorark.errors import InvalidInput
from tensorark.io.inputs import (
    amending,
    aside,
    may_map,
    note_files,
    note_path,
    operation,
    refuse_input,
)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_nothing_is_mapped_in_an_operation_unless_it_and_the_one_around_it_allow(outer, inner):
    assert may_map()
    with operation(maps=outer):
        assert may_map() == outer
        with operation(maps=inner):
            assert may_map() == (outer and inner)
            with aside():
                assert may_map() == (outer and inner)
        assert may_map() == outer
    assert may_map()


@pytest.fixture
def read(tmp_path):
    path = tmp_path / "folder" / "read"
    path.parent.mkdir()
    path.write_bytes(b"1")
    return path


@pytest.mark.parametrize("listed", [False, True])
def test_what_is_read_inside_is_an_input_until_the_operation_around_it_ends(read, listed):
    with operation():
        with operation():
            if listed:
                note_files(lambda: [read.with_name("gone"), read] if read.exists() else [])
            else:
                note_path(read)
        for target in (read, read.parent):
            with pytest.raises(InvalidInput) as caught:
                refuse_input(target)
            assert caught.value.code == "same-file"
        refuse_input(read.with_name("other"))
        read.with_name("others").mkdir()
        refuse_input(read.with_name("others"))
        with aside():
            refuse_input(read)
    with operation():
        refuse_input(read)


def test_a_file_that_is_amended_may_be_written_meanwhile(read):
    other = read.with_name("other")
    other.write_bytes(b"2")
    with operation():
        note_path(read)
        note_path(other)
        with amending(read):
            refuse_input(read)
            with pytest.raises(InvalidInput):
                refuse_input(other)
        with pytest.raises(InvalidInput):
            refuse_input(read)
