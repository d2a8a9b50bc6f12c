"""Planning and writing sets: capacity, determinism, publication, and what failures leave behind."""

from __future__ import annotations

import errno
import json
import os
import random
from pathlib import Path

import pytest

from tensorark import files
from tensorark.conversion.pipeline import convert
from tensorark.edit.metadata import edit_metadata
from tensorark.errors import (
    Error,
    InvalidInput,
    LimitExceeded,
    NotFound,
    ReadFailed,
    Unsupported,
)
from tensorark.formats.ninfer.directory import StoredTensor
from tensorark.formats.ninfer.plan import (
    NewResource,
    NewTensor,
    encode_json,
    object_record,
    part_name,
    payload_size,
    place,
    plan,
    split,
)
from tensorark.ninfer.objects import export_objects, import_objects
from tensorark.ninfer.resources import read_resource, replace_resources
from tensorark.ninfer.resplit import resplit
from tensorark.wire.json import parse
from tensorark.writing.artifact import write_set
from tensorark.writing.writer import Writer
from tests.unit.formats.ninfer.sets import (
    ARTIFACT,
    DIRECTORY,
    OBJECTS,
    PAYLOAD,
    TEMPLATE,
    TOKENS,
    dumps,
    model,
    payload_of,
    shared,
    up,
)
from tests.unit.formats.ninfer.sets import (
    write_set as write_by_hand,
)

PAGE = 4096
NEW = bytes(range(16, 32))


def large(folder, size=50_000, **members):
    """Write a one-file artifact whose payload is `size` pseudo-random bytes, and return both."""
    payload = random.Random(size).randbytes(size)
    record = {"id": "r", "kind": "resource", "encoding": "raw_bytes_v1", "offset": 0, "bytes": size}
    directory = DIRECTORY | {
        "components": {"text": {"config": {}, "resources": {"r": "r"}}},
        "objects": [record],
        "bindings": {},
        "uses": [],
        **members,
    }
    return write_by_hand(folder, directory, payload), payload


def whole_payload(path):
    with files.open(path) as file:
        return payload_of(file)


def files_of(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


# ----------------------------------------------------------------------------------------- capacity


@pytest.mark.parametrize(
    ("payload", "start", "limit", "wanted"),
    [
        (31_999_938_560, 65536, 32_000_000_000, (31_999_934_464, 4096)),  # section 3.3
        (31_999_934_464, 65536, 32_000_000_000, (31_999_934_464,)),
        (140_246_016, 65536, 64_000_000, (63_934_464, 63_995_904, 12_315_648)),  # section 12.2
        (27_610, 4096, 12_288, (8192, 8192, 8192, 3034)),
        (10**15, 4096, None, (10**15,)),
        (1, 4096, 4097, (1,)),
        (2, 4096, 8192, (2,)),
        (4097, 4096, 8192, (4096, 1)),
    ],
)
def test_capacity_is_exact(payload, start, limit, wanted):
    assert split(payload, start, limit) == wanted
    assert sum(wanted) == payload


@pytest.mark.parametrize("limit", [1, 4096, 8191])
def test_a_limit_without_room_is_refused(limit):
    with pytest.raises(InvalidInput) as caught:
        split(100_000, 4096, limit)
    assert caught.value.code == "max-file-bytes"


def test_names_of_continuations():
    assert part_name("a.ninfer", 1) == "a.ninfer.part-0001"
    assert part_name("a.ninfer", 10_000) == "a.ninfer.part-10000"


def test_a_growing_files_table_takes_room_from_what_was_reserved():
    """A text that just fits its page without continuations gets another page with them."""
    base = dict(DIRECTORY)
    room = up(32 + len(dumps(base)), PAGE) - 32
    for spare in range(60, 0, -1):
        members = base | {"provenance": {"x": ""}}
        lone = len(dumps(members | {"files": [{"path": None, "payload_bytes": len(PAYLOAD)}]}))
        members["provenance"]["x"] = "x" * (room - lone - spare)
        single = plan(members, len(PAYLOAD), entry="m", artifact_id=NEW)
        assert single.files[0].size == 4096 + len(PAYLOAD)
    members["objects"] = [OBJECTS[0] | {"offset": 0, "bytes": 50_000}]
    members |= {"bindings": {}, "uses": [], "components": {"text": {"config": {}}}}
    members["provenance"]["x"] = ""
    lone = len(dumps(members | {"files": [{"path": None, "payload_bytes": 50_000}]}))
    members["provenance"]["x"] = "x" * (room - lone - 10)
    planned = plan(members, 50_000, entry="m", artifact_id=NEW, max_file_bytes=12_288)
    assert len(planned.files[0].head) == 8192
    assert [each.payload_bytes for each in planned.files] == [4096, *[8192] * 5, 4944]
    assert all(each.size <= 12_288 for each in planned.files)


@pytest.mark.parametrize("limit", [8192, 12_288, 12_289, 20_000, 40_960, 49_999])
def test_no_file_exceeds_the_limit_and_all_but_the_last_are_full(tmp_path, limit):
    source, payload = large(tmp_path)
    files = resplit(source, tmp_path / "split.ninfer", max_file_bytes=limit)
    sizes = [Path(each).stat().st_size for each in files]
    assert max(sizes) <= limit
    assert all(limit - size < PAGE for size in sizes[:-1])
    assert whole_payload(files[0]) == payload


# ----------------------------------------------------------------------------------------- the text


def test_real_numbers_keep_their_spelling_and_members_their_order():
    text = b'{"b":1e-06,"a":[2.50,-0,1E+3,{"z":0.1,"y":true}],"\xc3\xa9\\n":null}'
    assert encode_json(parse(text, float_text=True)).encode() == text


def test_placing_objects():
    placed = place(
        [
            NewResource("r", 5),
            NewTensor(id="a", shape=(2, 3), format="bf16", layout="contiguous_le_v1"),
            NewResource("s", 1),
            NewTensor(
                id="n",
                shape=(256, 64),
                format="nvfp4",
                layout="block_scale_k16_m128x4_v1",
                divisors=2,
            ),
        ]
    )
    assert [(each.offset, each.nbytes) for each in placed] == [
        (0, 5),
        (256, 12),
        (268, 1),
        (512, 9224),
    ]
    assert payload_size(placed) == 512 + 9224
    assert object_record(placed[3])["divisors"] == 2
    assert "divisors" not in object_record(placed[1])
    assert isinstance(placed[1], StoredTensor)


def test_an_impossible_object_is_refused_by_the_planner():
    with pytest.raises(InvalidInput):
        place(
            [NewTensor(id="a", shape=(3, 64), format="nvfp4", layout="block_scale_k16_m128x4_v1")]
        )
    with pytest.raises(InvalidInput):
        place([NewResource("r", 0)])
    with pytest.raises(Unsupported):
        place([NewTensor(id="a", shape=(3,), format="q9", layout="contiguous_le_v1")])


def test_a_directory_that_no_reader_takes_is_not_planned():
    with pytest.raises(InvalidInput) as caught:
        plan(DIRECTORY | {"uses": {}}, len(PAYLOAD), entry="m", artifact_id=NEW)
    assert caught.value.code == "ninfer.uses"


def test_an_artifact_id_has_sixteen_bytes(tmp_path):
    source, _ = large(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        resplit(source, tmp_path / "x.ninfer", artifact_id=b"short")
    assert caught.value.code == "artifact-id"


# -------------------------------------------------------------------------------- re-split and join


def test_the_same_id_gives_the_same_bytes_and_none_gives_a_new_one(tmp_path):
    source, _ = large(tmp_path)
    sets = []
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
        chosen = NEW if name in "ab" else None
        resplit(source, tmp_path / name / "m.ninfer", max_file_bytes=12_288, artifact_id=chosen)
        sets.append(files_of(tmp_path / name))
    assert sets[0] == sets[1]
    assert len({each["m.ninfer"][16:32] for each in sets[1:]}) == 3


def test_splitting_and_joining_copies_payload_and_catalog_verbatim(tmp_path):
    """Gaps that are not zero, odd spellings, white space and slack all stay."""
    payload = bytearray(PAYLOAD + b"slack" * 2000)
    payload[200] = 7
    text = dumps(DIRECTORY).replace(b'"limit":1000.0', b'"limit": 1E3')
    table = dumps({"files": [{"path": None, "payload_bytes": len(payload)}]})[1:-1]
    text = b" {" + table + b" , " + text[1:].replace(b"2.5", b"2.50") + b"\n"
    from tests.unit.formats.ninfer.sets import entry

    source = tmp_path / "odd.ninfer"
    source.write_bytes(entry(text, bytes(payload)))
    made = resplit(source, tmp_path / "split.ninfer", max_file_bytes=8192)
    assert len(made) == 3
    joined = tmp_path / "joined.ninfer"
    resplit(made[0], joined, artifact_id=ARTIFACT)
    assert whole_payload(joined) == payload
    with files.open(joined) as file:
        assert file.catalog.native.text.rstrip() == text.rstrip()


def test_a_rewritten_file_has_no_leftover_of_the_old_table(tmp_path):
    source, _ = large(tmp_path, provenance={"files": [1], "text": '"files":[]'})
    made = resplit(source, tmp_path / "split.ninfer", max_file_bytes=8192)
    with files.open(made[0]) as file:
        root = file.catalog.native.root
        assert root["provenance"] == {"files": [1], "text": '"files":[]'}
        assert len(root["files"]) == len(made) > 2


# -------------------------------------------------------------------------------------- publication


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path):
    source, _ = large(tmp_path)
    taken = tmp_path / "out.ninfer.part-0003"
    taken.write_bytes(b"mine")
    before = files_of(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        resplit(source, tmp_path / "out.ninfer", max_file_bytes=8192)
    assert caught.value.code == "exists"
    assert files_of(tmp_path) == before


def test_an_entry_that_appears_meanwhile_takes_the_set_back(tmp_path, monkeypatch):
    """The loser of two writers removes the continuations that it had published already."""
    source, payload = large(tmp_path)
    target = tmp_path / "out.ninfer"
    with files.open(source) as file:
        directory = file.catalog.native
        members = dict(directory.root)
        planned = plan(
            members, len(payload), entry=target.name, artifact_id=NEW, max_file_bytes=8192
        )

        def pieces():
            yield payload_of(file)
            target.write_bytes(b"theirs")

        with pytest.raises(InvalidInput):
            write_set(planned, pieces(), target)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.ninfer", "out.ninfer"]
    assert target.read_bytes() == b"theirs"


@pytest.mark.parametrize("spoil", ["short", "long", "raise"])
def test_a_payload_of_another_length_publishes_nothing(tmp_path, spoil):
    members = {**DIRECTORY}
    planned = plan(members, len(PAYLOAD), entry="m.ninfer", artifact_id=NEW)

    def pieces():
        yield PAYLOAD[:-1] if spoil != "long" else PAYLOAD + b"x"
        if spoil == "raise":
            raise ReadFailed("gone")

    with pytest.raises(Error):
        write_set(planned, pieces(), tmp_path / "m.ninfer")
    assert list(tmp_path.iterdir()) == []


def test_a_filesystem_without_hard_links(tmp_path, monkeypatch):
    def no_link(*_args, **_options):
        raise OSError(errno.EPERM, "no links here")

    source, payload = large(tmp_path)
    monkeypatch.setattr(os, "link", no_link)
    files = resplit(source, tmp_path / "out.ninfer", max_file_bytes=12_288)
    assert whole_payload(files[0]) == payload
    assert not [each for each in tmp_path.iterdir() if "partial" in each.name]


def test_continuations_are_published_before_the_entry(tmp_path, monkeypatch):
    order = []
    link = os.link

    def watched(source, target, **how):
        order.append(Path(target).name)
        link(source, target, **how)

    source, _ = large(tmp_path)
    monkeypatch.setattr(os, "link", watched)
    resplit(source, tmp_path / "out.ninfer", max_file_bytes=20_480)
    assert order[-1] == "out.ninfer"
    assert sorted(order[:-1]) == [f"out.ninfer.part-000{i}" for i in range(1, len(order))]


def test_a_source_is_never_a_target(tmp_path):
    source, _ = large(tmp_path)
    (tmp_path / "s").mkdir()
    files = resplit(source, tmp_path / "s/a.ninfer", max_file_bytes=20_480)
    Path(files[0]).rename(tmp_path / "s/b.ninfer")  # its continuations keep their names
    before = files_of(tmp_path / "s")
    with pytest.raises(InvalidInput) as caught:
        resplit(tmp_path / "s/b.ninfer", tmp_path / "s/b.ninfer", overwrite=True)
    assert caught.value.code == "same-file"
    assert files_of(tmp_path / "s") == before
    made = resplit(
        tmp_path / "s/b.ninfer", tmp_path / "s/a.ninfer", max_file_bytes=12_288, overwrite=True
    )
    assert {name: data for name, data in files_of(tmp_path / "s").items() if name in before} == (
        before
    )
    assert not {Path(each).name for each in made} & before.keys()


def test_a_missing_continuation_stops_a_copy_before_anything_appears(tmp_path):
    source = model(tmp_path, (300, 600))
    Path(f"{source}.part-0001").unlink()
    before = files_of(tmp_path)
    with pytest.raises(ReadFailed):
        resplit(source, tmp_path / "out.ninfer")
    assert files_of(tmp_path) == before


# ---------------------------------------------------------------------------------------- resources


def test_a_resource_is_replaced_without_touching_anything_else(tmp_path):
    source = model(tmp_path, (300, 900))
    target = tmp_path / "new.ninfer"
    template = b"{# a longer template #}" * 500
    replace_resources(source, target, {"chat_template.jinja": template})
    with files.open(source) as old, files.open(target) as new:
        assert read_resource(new, "chat_template.jinja") == template
        assert read_resource(new, "text/tokenizer.json") == TOKENS
        assert read_resource(old, "chat_template.jinja") == TEMPLATE
        for name in old:
            assert bytes(old[name].raw()) == bytes(new[name].raw())
        a, b = old.catalog.native, new.catalog.native
        assert list(a.root) == list(b.root)
        for member in ("components", "bindings", "uses", "metadata"):
            assert a.root[member] == b.root[member]
        assert a.ids == b.ids
        assert a.artifact_id != b.artifact_id
    assert b'"rms_norm_eps":1e-06' in target.read_bytes()


def test_a_resource_of_an_unknown_encoding_is_not_read(tmp_path):
    objects = [dict(each) for each in OBJECTS]
    objects[0]["encoding"] = "packed_v9"
    source = model(tmp_path, objects=objects)
    with files.open(source) as file, pytest.raises(Unsupported) as caught:
        read_resource(file, "tokenizer.json")
    assert caught.value.code == "unknown-encoding"


def test_what_has_no_json_text_is_refused():
    with pytest.raises(InvalidInput) as caught:
        encode_json({"a": float("nan")})
    assert caught.value.code == "json"


def test_a_shared_resource_stays_for_its_other_roles(tmp_path):
    components = {
        "text": {"config": {}, "resources": {"a": "r.tok", "b": "r.tok"}},
        "vision": {"config": {}, "target": "text", "resources": {"a": "r.tpl"}},
    }
    source = model(tmp_path, components=components)
    target = tmp_path / "new.ninfer"
    with pytest.raises(InvalidInput):
        replace_resources(source, target, {"a": b"x"})
    with pytest.raises(NotFound):
        replace_resources(source, target, {"c": b"x"})
    with pytest.raises(InvalidInput):
        replace_resources(source, target, {"b": b""})
    replace_resources(source, target, {"text/a": b"fresh"})
    with files.open(target) as file:
        assert read_resource(file, "text/a") == b"fresh"
        assert read_resource(file, "b") == TOKENS
        assert read_resource(file, "vision/a") == TEMPLATE
        assert file.catalog.native.components["text"].resources["a"] == "resource/text/a"


# --------------------------------------------------------------------------- through a .zt and back


def test_through_a_zt_and_back_gives_the_same_file(tmp_path):
    source = model(tmp_path)
    convert(source, tmp_path / "hub.zt")
    with files.open(tmp_path / "hub.zt") as hub, files.open(source) as file:
        assert sorted(hub) == sorted([*file.catalog.native.ids, "tensorark.ninfer"])
        assert hub["w.q4"].layout == "ninfer.row_split_k128_v1"
        assert hub["w.q4"].numpy().tobytes() == file["w.q4"].numpy().tobytes()
        assert hub["r.tpl"].tobytes() == TEMPLATE
    convert(tmp_path / "hub.zt", tmp_path / "back.ninfer")
    assert (tmp_path / "back.ninfer").read_bytes() == source.read_bytes()


def test_a_set_through_a_zt_keeps_catalog_payload_and_odd_bytes(tmp_path):
    payload = bytearray(PAYLOAD + b"behind the last object" * 300)
    payload[200] = 9
    source = write_by_hand(tmp_path, DIRECTORY, bytes(payload), (300, 900))
    convert(source, tmp_path / "hub.zt", align=4096)
    done = convert(
        tmp_path / "hub.zt", tmp_path / "back.ninfer", max_shard_size=8192, artifact_id=NEW
    )
    assert len(done.files) > 1
    assert whole_payload(tmp_path / "back.ninfer") == payload
    with files.open(source) as a, files.open(tmp_path / "back.ninfer") as b:
        left, right = dict(a.catalog.native.root), dict(b.catalog.native.root)
        assert left.pop("files") != right.pop("files")
        assert left == right
        assert b.catalog.native.artifact_id == NEW.hex()


def test_what_an_earlier_version_carried_comes_back(tmp_path):
    source = model(tmp_path)
    convert(source, tmp_path / "hub.zt")
    with files.open(tmp_path / "hub.zt") as hub:
        carried = {"ninfer": hub.attributes["ninfer"]}
        with Writer(tmp_path / "old.zt", attributes=carried) as writer:
            for name in hub.keys() - {"tensorark.ninfer"}:
                part = hub[name].parts["data"]
                data = (part.dtype, part.type), [hub[name].raw()]
                writer.add_parts(name, hub[name].shape, hub[name].layout, {"data": data})
    convert(tmp_path / "old.zt", tmp_path / "back.ninfer")
    assert (tmp_path / "back.ninfer").read_bytes() == source.read_bytes()


SPELLINGS = {
    "newline": lambda text: text + b"\n",
    "spaces": lambda text: text + b" " * 99,
    "newline-spaces": lambda text: text + b" \r\n\t  ",
    "before": lambda text: b"\n \t" + text,
    "indented": lambda text: json.dumps(json.loads(text), indent=2).encode() + b"\n",
    "escaped": lambda text: text.replace(b"text/", b"te\\u0078t/").replace(b"1e-06", b"0.1e-5"),
    "page": lambda text: text.ljust(up(32 + len(text), PAGE) - 32),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("gap", [b"\0", b"\xff"], ids=["clean", "dirty"])
def test_an_artifact_comes_back_from_a_zt_byte_for_byte(tmp_path, spelling, gap):
    lines = [{"path": None, "payload_bytes": len(PAYLOAD)}]
    text = SPELLINGS[spelling](dumps(DIRECTORY | {"files": lines}))
    head = b"NINFER\0\x03" + len(text).to_bytes(8, "little") + ARTIFACT + text
    source = tmp_path / "a.ninfer"
    source.write_bytes(head.ljust(up(len(head), PAGE), gap) + PAYLOAD)
    convert(source, tmp_path / "hub.zt")
    convert(tmp_path / "hub.zt", tmp_path / "back.ninfer")
    assert (tmp_path / "back.ninfer").read_bytes() == source.read_bytes()


def test_a_zt_that_carries_no_artifact_is_refused(tmp_path):
    import numpy as np

    with Writer(tmp_path / "plain.zt") as writer:
        writer.add("w", np.zeros(4, np.float32))
    with pytest.raises(Unsupported) as caught:
        convert(tmp_path / "plain.zt", tmp_path / "x.ninfer")
    assert caught.value.code == "refused"
    assert not (tmp_path / "x.ninfer").exists()


@pytest.mark.parametrize(
    "spoil", ["gone", "changed", "text", "id", "strays", "object", "more", "gap", "described"]
)
def test_a_zt_that_was_altered_is_refused(tmp_path, spoil):
    import numpy as np

    convert(model(tmp_path), tmp_path / "hub.zt")
    with files.open(tmp_path / "hub.zt") as hub:
        attribute = dict(hub.attributes["ninfer"])
        if spoil == "text":
            attribute["directory"] = attribute["directory"].replace("w.q4", "w.q5", 1)
        if spoil == "id":
            attribute["artifact_id"] = "00"
        if spoil == "strays":
            attribute["strays"] = [[250, bytes(100)]]
        if spoil == "object":
            attribute["strays"] = [[256, b"\1"]]
        if spoil == "gap":
            attribute["gap"] = bytes(5)
        if spoil == "described":
            old = attribute["directory"]
            attribute["directory"] = old.replace('"text/row"', '"text/raw"')
            assert attribute["directory"] != old
        with Writer(tmp_path / "bad.zt", attributes={"ninfer": attribute}) as writer:
            if spoil == "more":
                writer.add("another", np.zeros(3, np.float32))
            for name, view in hub.items():
                if spoil == "gone" and name == "a.div":
                    continue
                part = view.parts["data"]
                data = (part.dtype, part.type), [view.raw()]
                if spoil == "changed" and name == "w.bf16":
                    writer.add(name, np.zeros((8, 2), np.float16))
                else:
                    held = view.attributes or None
                    writer.add_parts(name, view.shape, view.layout, {"data": data}, attributes=held)
    with pytest.raises(Unsupported) as caught:
        convert(tmp_path / "bad.zt", tmp_path / "x.ninfer")
    assert caught.value.code == ("refused" if spoil == "id" else "ninfer-altered")
    assert not (tmp_path / "x.ninfer").exists()


if (VECTORS := shared()) is not None:
    KNOWN = json.loads((VECTORS / "index.json").read_bytes())

    @pytest.mark.parametrize("each", KNOWN["files"], ids=lambda each: each["entry"])
    def test_published_sets_are_rewritten_byte_for_byte(each, tmp_path):
        source, name = VECTORS / each["entry"], Path(each["entry"]).name
        artifact = bytes.fromhex(each["artifact_id"])
        limit = each["max_file_bytes"]
        resplit(source, tmp_path / "joined.ninfer")
        convert(source, tmp_path / "hub.zt")
        for start, folder in (("joined.ninfer", "a"), ("hub.zt", "b")):
            (tmp_path / folder).mkdir()
            target = tmp_path / folder / name
            convert(tmp_path / start, target, max_shard_size=limit, artifact_id=artifact)
            wanted = {
                Path(file["path"]).name: (VECTORS / file["path"]).read_bytes()
                for file in each["files"]
            }
            assert files_of(tmp_path / folder) == wanted


@pytest.mark.parametrize("spoil", ["text", "slack"])
@pytest.mark.parametrize("suffix", [".zt", ".safetensors"])
def test_a_small_file_does_not_become_one_of_zeros_that_fills_a_disk(tmp_path, spoil, suffix):
    path, target = tmp_path / f"hub{suffix}", tmp_path / "x.ninfer"
    source = model(tmp_path)
    if suffix == ".zt":
        convert(source, path)
        with files.open(path) as file:
            carried = dict(file.attributes["ninfer"])
    else:
        export_objects(source, path)
        with files.open(path) as file:
            carried = json.loads(file.catalog.attributes["ninfer"])
    if spoil == "text":
        carried["json_bytes"] = 1 << 39
    else:
        old = f'"payload_bytes":{len(PAYLOAD)}'
        assert old in carried["directory"]
        carried["json_bytes"] += 100
        carried["directory"] = carried["directory"].replace(old, f'"payload_bytes":{1 << 60}')
    edit_metadata(path, {"ninfer": carried if suffix == ".zt" else json.dumps(carried)})
    with pytest.raises(LimitExceeded):
        convert(path, target) if suffix == ".zt" else import_objects(path, target)
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name, source.name]
