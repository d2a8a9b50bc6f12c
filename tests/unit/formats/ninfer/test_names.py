"""What a continuation may be called (§3.3): the same when a set is opened, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tests.unit.formats.ninfer.sets import DIRECTORY, PAYLOAD, continuation, dumps, entry, write_set

CUT = 4096
NAMES = st.one_of(
    st.sampled_from(["...", "x.", "x ", " x", "m:1", "C:x", "..x", "-rf", "~", "a\nb", "é", "*"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
)


def written(folder, name):
    """Write the example in two files, the second of which is called `name`."""
    data = PAYLOAD.ljust(2 * CUT, b"\0")
    lines = [{"path": None, "payload_bytes": CUT}, {"path": name, "payload_bytes": len(data) - CUT}]
    (folder / "m.ninfer").write_bytes(entry(dumps(DIRECTORY | {"files": lines}), data[:CUT]))
    return folder / "m.ninfer", continuation(1, data[CUT:])


@given(name=NAMES)
def test_every_name_of_the_rule_is_read_and_no_other_is_opened(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("set")
    path, part = written(folder, name)
    forbidden = name in {".", ".."} or set(name) & {"/", "\\", "\0"}
    if forbidden or name == path.name:
        assert {each.rule for each in tensorark.validate(path)} <= {
            "ninfer.file-path",
            "ninfer.file-path-unique",
        }
        assert tensorark.validate(path)
        return
    try:
        (folder / name).write_bytes(part)
    except OSError:  # longer than this system has names
        return
    with tensorark.open(path) as file:
        assert not file.missing()
        assert [each.name for each in file.paths()] == ["m.ninfer", name]
        assert file.source.read([tensorark.Span(0, 8, name)])[0].tobytes()[:6] == b"NINPRT"


@pytest.mark.parametrize("stem", ["m:1", "x.", "x ", "..."])
def test_what_is_written_under_such_a_name_is_read_again(tmp_path, stem):
    data = bytearray(PAYLOAD) + bytes(20_000)
    large = {"id": "w", "kind": "tensor", "shape": [5000], "format": "fp32"}
    large |= {"layout": "contiguous_le_v1", "offset": len(PAYLOAD), "bytes": 20_000}
    directory = DIRECTORY | {"objects": [*DIRECTORY["objects"], large]}
    source = write_set(tmp_path, directory, bytes(data), name="in.ninfer")
    target = tmp_path / f"{stem}.ninfer"
    tensorark.convert(source, target, max_shard_size=16384)
    with tensorark.open(target) as file, tensorark.open(source) as before:
        assert file.catalog.files == (f"{stem}.ninfer.part-0001",)
        assert [path.parent for path in file.paths()] == [tmp_path] * len(file.paths())
        assert tensorark.diff(before, file).is_equal
