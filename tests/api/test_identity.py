"""One model has one identity, whatever file holds it: source × target, an encoder of its own."""

from __future__ import annotations

import copy
import itertools
import json
import struct

import ml_dtypes
import numpy as np
import pytest
import xxhash

import tensorark
import tensorark.numpy as ark
from tensorark.core.model import Catalog, Part, Raw, Tensor
from tensorark.formats.ninfer.describe import STATEMENTS
from tensorark.formats.ninfer.holdings import description_of
from tensorark.integrity.diff_parameters import diff_parameters
from tensorark.integrity.sign import signature_path
from tensorark.integrity.verify_signature import verify_signature
from tests.unit.formats.ninfer.sets import DIRECTORY, OBJECTS, PAYLOAD, TOKENS, model, write_set

ATTRIBUTES = {"count": 3, "nested": {"a": [1, 2.5, None, True]}, "text": "é"}

FORMS = {
    "zt": ("m.zt", {}),
    "aligned": ("m.zt", {"align": 4096}),
    "encoded": ("m.zt", {"encoding": "zstd"}),
    "split": ("m.zt", None),
    "safetensors": ("m.safetensors", {}),
    "set": ("m.safetensors", {"max_shard_size": 4000}),
    "npz": ("m.npz", {}),
    "tbm": ("m.tbm", {}),
    "directory": ("m", {"format": "tensorbit-directory"}),
}


def made(source, folder, form):
    """Convert `source` to a form in a folder of its own, and return what is to be opened."""
    name, options = FORMS[form]
    folder.mkdir()
    if options is None:
        tensorark.split(source, folder / name, max_size=20_000)
        return folder / name
    done = tensorark.convert(source, folder / name, **options)
    index = [each for each in done.files if each.endswith(".index.json")]
    return index[0] if index else folder / name


def identity(path):
    with tensorark.open(path) as file:
        return tensorark.content_digest(file)


def cbor(value):
    """Encode by RFC 8949 §4.2.1, as far as is needed here."""

    def head(major, count):
        for width, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
            if count < 24:
                return bytes([major << 5 | count])
            if count < 1 << 8 * width:
                return bytes([major << 5 | code]) + count.to_bytes(width, "big")
        raise AssertionError

    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        assert struct.unpack("<e", struct.pack("<e", value))[0] == value
        return b"\xf9" + struct.pack(">e", value)
    if isinstance(value, str):
        data = value.encode()
        return head(3, len(data)) + data
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    pairs = sorted((cbor(key), cbor(item)) for key, item in value.items())
    return head(5, len(pairs)) + b"".join(key + item for key, item in pairs)


def expected(objects):
    """Return the content digest of dense objects: name to shape, dtype, bytes and attributes."""
    described = {}
    for name, (shape, dtype, data, attributes) in objects.items():
        digest = f"xxh3:{xxhash.xxh3_64_hexdigest(data)}"
        described[name] = {
            "shape": list(shape),
            "layout": "dense",
            "parts": {"data": {"dtype": dtype, "digest": digest}},
        }
        if attributes:
            described[name]["attributes"] = attributes
    return f"xxh3:{xxhash.xxh3_64_hexdigest(cbor(['zt.content/1', described]))}"


@pytest.fixture
def arrays():
    rng = np.random.default_rng(8)
    return {
        "b.weight": ("f32", rng.random((20, 40), dtype="f4")),
        "a.bias": ("bf16", rng.random(70).astype(ml_dtypes.bfloat16)),
        "half": ("f16", rng.random((3, 5)).astype("f2")),
        "é": ("f32", np.zeros((2, 2), "f4")),
    }


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_model_has_its_identity(form, arrays, tmp_path):
    with tensorark.Writer(tmp_path / "base.zt", attributes={"step": 7, "by": "us"}) as writer:
        for name, (_, array) in arrays.items():
            writer.add(name, array, attributes=ATTRIBUTES if name == "half" else None)
    wanted = expected(
        {
            name: (array.shape, dtype, array.tobytes(), ATTRIBUTES if name == "half" else None)
            for name, (dtype, array) in arrays.items()
        }
    )
    first = made(tmp_path / "base.zt", tmp_path / "first", form)
    assert identity(tmp_path / "base.zt") == identity(first) == wanted
    for other in FORMS:
        again = made(first, tmp_path / other, other)
        assert identity(again) == wanted, other
        with tensorark.open(first) as a, tensorark.open(again) as b:
            assert tensorark.diff(a, b).is_equal, other
            kept = b.catalog.attributes
            assert (kept["step"], kept["by"]) == (7, "us"), other


# -------------------------------------------------------------------------------- NInfer artifacts


def described(directory):
    """Return what an artifact says beside its tensors, by the text of its page."""
    value = {
        "bindings": directory["bindings"],
        "components": directory["components"],
        "metadata": directory.get("metadata", {}),
        "provenance": directory.get("provenance", {}),
        "resources": {"r.tok": "raw_bytes_v1", "r.tpl": "raw_bytes_v1"},
        "uses": directory["uses"],
    }
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def test_an_artifact_has_the_identity_of_its_objects_and_its_description(tmp_path):
    directory = {**copy.deepcopy(DIRECTORY), "metadata": {"name": "é"}}
    objects = [each for each in OBJECTS if each["kind"] == "resource" or each["format"] != "q4"]
    directory["objects"] = [each for each in objects if each["id"] != "w.q4"]
    directory["bindings"] = {"text/a": {"object": "w.bf16"}, "text/é": {"object": "a.div"}}
    directory["uses"] = [{"parameter": "text/a", "input": "text/x"}]
    source = write_set(tmp_path, directory, PAYLOAD)
    dtypes = {"w.bf16": "bf16", "a.div": "f32"}
    held = {
        each["id"]: (
            each.get("shape", [each["bytes"]]),
            dtypes.get(each["id"], "u8"),
            PAYLOAD[each["offset"] :][: each["bytes"]],
            None,
        )
        for each in directory["objects"]
    }
    text = described(directory)
    role = {"tensorark.role": "ninfer.description/1"}
    held["tensorark.ninfer"] = ([len(text)], "u8", text, role)
    assert identity(source) == expected(held)


WAYS = {
    "zt": {"suffix": ".zt"},
    "aligned": {"suffix": ".zt", "align": 4096},
    "encoded": {"suffix": ".zt", "encoding": "zstd"},
    "one": {"suffix": ".ninfer"},
    "several": {"suffix": ".ninfer", "max_shard_size": 8192},
}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(WAYS, WAYS)))
def test_an_artifact_keeps_its_identity_on_every_way(first, second, tmp_path):
    source = model(tmp_path, (300, 900))
    wanted, at = identity(source), source
    for number, way in enumerate((first, second)):
        options = dict(WAYS[way])
        target = tmp_path / f"{number}{options.pop('suffix')}"
        tensorark.convert(at, target, **options)
        assert identity(target) == wanted
        at = target
    tensorark.split(at, tmp_path / "parts.zt", max_size=10_000)
    tensorark.merge(tmp_path / "parts.zt", tmp_path / "whole.zt")
    assert identity(tmp_path / "parts.zt") == identity(tmp_path / "whole.zt") == wanted


def same(directory):
    directory["components"]["text"] = dict(reversed(directory["components"]["text"].items()))
    directory["bindings"] = dict(reversed(directory["bindings"].items()))
    directory.setdefault("provenance", {})
    for use in directory["uses"]:
        use.setdefault("auxiliaries", {})


CHANGES = {
    "binding": lambda d: d["bindings"].update({"text/row": {"object": "w.q4"}}),
    "binding gone": lambda d: d["bindings"].pop("text/row"),
    "part order": lambda d: d["bindings"]["text/swapped"]["parts"].reverse(),
    "use gone": lambda d: d.update(uses=[]),
    "config": lambda d: d["components"]["text"]["config"].update(rms_norm_eps=1e-05),
    "number kind": lambda d: d["components"]["text"]["config"].update(limit=1000),
    "role": lambda d: d["components"]["text"]["resources"].update({"other": "r.tok"}),
    "roles swapped": lambda d: d["components"]["text"].update(
        resources={"tokenizer.json": "r.tpl", "chat_template.jinja": "r.tok"}
    ),
    "component": lambda d: d["components"].update(more={"config": {}}),
    "metadata": lambda d: d.update(metadata={"name": "another"}),
    "provenance": lambda d: d.update(provenance={"from": "elsewhere"}),
    "encoding": lambda d: d["objects"][0].update(encoding="raw_bytes_v2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_an_artifact_says_is_of_its_identity(change, tmp_path):
    wanted = identity(model(tmp_path))
    directory = copy.deepcopy(DIRECTORY)
    CHANGES[change](directory)
    source = write_set(tmp_path, directory, PAYLOAD, name="other.ninfer")
    assert identity(source) != wanted
    tensorark.convert(source, tmp_path / "other.zt")
    assert identity(tmp_path / "other.zt") == identity(source)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_an_artifact_says_is_told_by_diff_and_signed(change, tmp_path):
    source = model(tmp_path)
    tensorark.make_key(tmp_path / "k.pem")
    tensorark.sign(source, tmp_path / "k.pem")
    tensorark.convert(source, tmp_path / "m.zt")
    with tensorark.open(source) as a, tensorark.open(tmp_path / "m.zt") as b:
        assert not tensorark.diff(a, b)
    assert verdict(tmp_path / "m.zt", source) == "authentic"
    directory = copy.deepcopy(DIRECTORY)
    CHANGES[change](directory)
    with tensorark.open(source) as before:
        write_set(tmp_path, directory, PAYLOAD, name="other.ninfer")
        with tensorark.open(tmp_path / "other.ninfer") as after:
            found = tensorark.diff(before, after)
    assert found
    assert not found.is_equal
    assert {each.what for each in found.changes} <= set(STATEMENTS)
    assert verdict(tmp_path / "other.ninfer", source) == "not what was signed"


@pytest.mark.parametrize("resource", [0, len(TOKENS)])
def test_the_bytes_of_a_resource_are_told_by_diff_and_signed(resource, tmp_path):
    source = model(tmp_path)
    tensorark.make_key(tmp_path / "k.pem")
    tensorark.sign(source, tmp_path / "k.pem")
    payload = bytearray(PAYLOAD)
    payload[resource] ^= 1
    other = write_set(tmp_path, DIRECTORY, bytes(payload), name="other.ninfer")
    with tensorark.open(source) as before, tensorark.open(other) as after:
        (found,) = tensorark.diff(before, after).changes
    assert (found.name, found.what) == ("r.tpl" if resource else "r.tok", "values")
    assert verdict(other, source) == "not what was signed"


def verdict(path, signed):
    key, signature = signed.with_name("k.pem.pub"), signature_path(signed)
    return verify_signature(path, key, signature, any_name=True).verdict


def test_how_an_artifact_is_spelt_is_not_of_its_identity(tmp_path):
    wanted = identity(model(tmp_path))
    directory = copy.deepcopy(DIRECTORY)
    same(directory)
    other = write_set(tmp_path, dict(reversed(directory.items())), PAYLOAD, name="other.ninfer")
    assert identity(other) == wanted


@pytest.mark.parametrize("taken", [["tensorark.ninfer"], ["tensorark.ninfer", "tensorark.ninfer'"]])
def test_an_object_may_have_the_name_of_the_description(taken, tmp_path):
    directory = copy.deepcopy(DIRECTORY)
    for record, name in zip(directory["objects"], taken, strict=False):
        roles = directory["components"]["text"]["resources"]
        directory["components"]["text"]["resources"] = {
            role: name if each == record["id"] else each for role, each in roles.items()
        }
        record["id"] = name
    source = write_set(tmp_path, directory, PAYLOAD)
    tensorark.convert(source, tmp_path / "m.zt")
    with tensorark.open(tmp_path / "m.zt") as file:
        assert taken[-1] + "'" in file
    assert identity(tmp_path / "m.zt") == identity(source)
    tensorark.convert(tmp_path / "m.zt", tmp_path / "back.ninfer")
    assert (tmp_path / "back.ninfer").read_bytes() == source.read_bytes()


def test_a_step_on_the_way_changes_no_more_than_it_says(tmp_path):
    source = model(tmp_path)
    tensorark.convert(source, tmp_path / "m.zt", cast="f16")
    with tensorark.open(source) as a, tensorark.open(tmp_path / "m.zt") as b:
        found = tensorark.diff(a, b)
        assert {each.name for each in found.changes} == {"w.bf16", "a.div"}
        assert {each.what for each in found.changes} == {"type"}
        assert not found.attributes
    with pytest.raises(tensorark.Unsupported) as caught:
        tensorark.convert(tmp_path / "m.zt", tmp_path / "back.ninfer")
    assert caught.value.code == "ninfer-altered"


def test_loading_what_carries_an_artifact_gives_its_tensors(tmp_path):
    tensorark.convert(model(tmp_path), tmp_path / "m.zt")
    loaded = ark.load_file(tmp_path / "m.zt")
    assert loaded["w.q4"].shape == (3, 130)
    assert json.loads(bytes(loaded["tensorark.ninfer"]))["bindings"]


def test_a_seal_says_the_identity_of_an_artifact_and_finds_damage_in_it(tmp_path):
    source = model(tmp_path, (300, 900))
    sealed = tensorark.seal(source)
    assert f"xxh3:{sealed.content['xxh3']}" == identity(source)
    assert tensorark.check_seal(source).ok
    data = source.read_bytes()
    at = data.index(b'"text/row"')
    source.write_bytes(data[: at + 1] + b"T" + data[at + 2 :])
    found = {each.where for each in tensorark.check_seal(source).findings}
    assert ("objects", "tensorark.ninfer", "parts", "data") in found


def renamed(value):
    """Return a directory whose objects have other ids, everywhere."""
    text = json.dumps(value)
    for each in OBJECTS:
        text = text.replace(f'"{each["id"]}"', f'"x.{each["id"]}"')
    return json.loads(text)


AROUND = {
    "nothing": lambda _d: None,
    "policy": lambda d: d["uses"][0].update(activation_policy="AllowA8"),
    "use": lambda d: d.update(uses=[]),
    "auxiliary": lambda d: d["uses"][0].update(auxiliaries={}),
    "config": lambda d: d["components"]["text"]["config"].update(rms_norm_eps=1e-05),
    "role": lambda d: d["components"]["text"]["resources"].update({"other": "r.tok"}),
    "roles": lambda d: d["components"]["text"].update(
        resources={"tokenizer.json": "r.tpl", "chat_template.jinja": "r.tok"}
    ),
    "component": lambda d: d["components"].update(more={"config": {}}),
}


@pytest.mark.parametrize("change", AROUND)
def test_parameters_are_compared_with_what_is_said_around_them(change, tmp_path):
    """What objects are called is no difference; what code gets is."""
    directory = copy.deepcopy(DIRECTORY)
    AROUND[change](directory)
    other = write_set(tmp_path, renamed(directory), PAYLOAD, name="other.ninfer")
    with tensorark.open(model(tmp_path)) as a, tensorark.open(other) as b:
        found = diff_parameters(a, b)
    assert bool(found) == (change != "nothing")
    assert {each.what for each in found.changes} <= {"use", "config", "role", "component"}


@pytest.mark.parametrize(
    ("layout", "role", "dtype", "says", "found"),
    [
        ("dense", "data", "u8", "ninfer.description/1", True),
        ("zt.mx/1", "data", "u8", "ninfer.description/1", False),
        ("dense", "text", "u8", "ninfer.description/1", False),
        ("dense", "data", "i8", "ninfer.description/1", False),
        ("dense", "data", "u8", "ninfer.description/2", False),
        ("dense", "data", "u8", None, False),
    ],
)
@pytest.mark.parametrize("name", ["tensorark.ninfer", "anything"])
def test_a_description_is_known_by_what_it_is(name, layout, role, dtype, says, found):
    held = {role: Part(Raw(()), dtype)}
    attributes = {"tensorark.role": says} if says else None
    tensor = Tensor(name, (0,), layout, held, attributes)
    assert description_of(Catalog("zt", {name: tensor})) == (tensor if found else None)
