"""Signatures: the bytes that are signed, computed here by other means, and every way to tamper."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import stat
import subprocess
import sys

import cbor2
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from tensorark.core.model import Part, Raw, Shard, Span, Tensor
from tensorark.errors import InvalidInput, ReadFailed, Rejected, Unsupported
from tensorark.formats.zt.encode import encode_manifest, encode_tail
from tensorark.formats.zt.frame import MAGIC
from tensorark.integrity.keys import (
    key_id,
    make_key,
    public_pem,
    read_private,
    read_public,
    require_elliptic,
)
from tensorark.integrity.sign import sign, signature_path
from tensorark.integrity.signature_document import Signed
from tensorark.integrity.trust import read_sums
from tensorark.integrity.verify_signature import verify_signature

# RFC 8032, section 7.1, test 1: seed, public key, signature of the empty message.
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
EMPTY = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
    "d25bf5f0595bbe24655141438e7a100b"
)
PUBLIC_DER = bytes.fromhex("302a300506032b6570032100") + PUBLIC  # RFC 8410
KEY_ID = "ed25519:" + hashlib.sha256(PUBLIC_DER).hexdigest()

EMPTY_PART = Part(Raw((Span(4096, 0),)), "f32", None, "xxh3:2d06800538d394c2")
WORDS = "correct horse"
ARRAYS = {f"l.{i}.w": np.arange(i, i + 500, dtype="f4") for i in range(3)}


def pem(label: str, der: bytes) -> str:
    body = base64.b64encode(der).decode()
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"


def private_pem(seed: bytes) -> str:
    return pem("PRIVATE KEY", bytes.fromhex("302e020100300506032b657004220420") + seed)


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """The key of the RFC, private and public, and the public key of somebody else."""
    folder = tmp_path_factory.mktemp("keys")
    paths = [folder / "secret.pem", folder / "public.pem", folder / "other.pem.pub"]
    paths[0].write_text(private_pem(SEED))
    paths[0].chmod(0o600)
    paths[1].write_text(pem("PUBLIC KEY", PUBLIC_DER))
    make_key(folder / "other.pem")
    return paths


@pytest.fixture
def zt(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file(ARRAYS, path)
    return path


@pytest.fixture
def root(tmp_path):
    """A root and three shards of one size, one tensor in each."""
    ark.save_file(ARRAYS, tmp_path / "whole.zt")
    folder = tmp_path / "split"
    folder.mkdir()
    tensorark.split(tmp_path / "whole.zt", folder / "m.zt", max_size=6200, align=4096)
    assert len(list(folder.iterdir())) == 4
    return folder / "m.zt"


@pytest.fixture
def index(tmp_path):
    """A model of two safetensors shards and their index."""
    folder = tmp_path / "st"
    folder.mkdir()
    names = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]
    arrays = list(ARRAYS.items())
    ark.save_file(dict(arrays[:1]), folder / names[0])
    ark.save_file(dict(arrays[1:2]), folder / names[1])
    weights = {arrays[0][0]: names[0], arrays[1][0]: names[1]}
    path = folder / "m.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 4000}, "weight_map": weights}))
    return path


def sha256(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def signed_file(path, name=None):
    return {"name": name or path.name, "size": path.stat().st_size, "sha256": sha256(path)}


def golden(statement) -> bytes:
    """The bytes to sign, spelled out: prefix, zero byte, sorted compact JSON."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"))
    return b"tensorark.statement/1\x00" + text.encode("ascii")


def assert_signed(path, statement):
    """The document beside `path` holds `statement` and the signature that the RFC's key gives."""
    document = json.loads(signature_path(path).read_text("ascii"))
    assert document["statement"] == statement
    expected = Ed25519PrivateKey.from_private_bytes(SEED).sign(golden(statement))
    assert document == {
        "schema": "tensorark.signature/1",
        "statement": statement,
        "signature": expected.hex(),
    }


def common(kind, **more):
    return {
        "schema": "tensorark.statement/1",
        "kind": kind,
        "algorithm": "sha256",
        "key": KEY_ID,
        "covers": SAYS[kind][0],
        "omits": SAYS[kind][1],
        **more,
    }


OF_ARTIFACTS = (
    "of a NInfer artifact its resources, components, bindings, uses, metadata and provenance"
)
SAYS = {
    "file": (
        "every byte of each file of the model, and their names, sizes and order",
        "whatever else lies beside these files",
    ),
    "root": (
        "every byte of the root and, by the digests in it, of every shard",
        "what the files of shards are called, and whatever else lies beside them",
    ),
    "content": (
        f"names, shapes, layouts, types, attributes and bytes of all tensors, and {OF_ARTIFACTS}",
        "attributes of files, and in which files, where and how the bytes are stored",
    ),
}


def resign(path, change, seed=SEED):
    """Change the statement and sign it anew: what a dishonest holder of the key could publish."""
    document = json.loads(signature_path(path).read_text())
    change(document["statement"])
    made = Ed25519PrivateKey.from_private_bytes(seed).sign(golden(document["statement"]))
    document["signature"] = made.hex()
    write_document(path, document)


def unchanged(statement):
    """What `resign` need not change."""


def write_document(path, document):
    """Write a document as the library spells it: entries of lists on lines of their own."""
    from tensorark.integrity.json_documents import render

    signature_path(path).write_bytes(render(document))


def codes(found):
    return sorted({each.rule.removeprefix("signature-") for each in found.findings})


def places(found):
    return [each.where for each in found.findings]


def flip(path, offset, mask=1):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


# ------------------------------------------------------------------------------------------- keys


def test_the_vector_of_the_rfc_holds_through_our_keys(keys):
    secret, public, _ = keys
    assert read_private(secret).sign(b"") == EMPTY
    read_public(public).verify(EMPTY, b"")
    read_public(secret).verify(EMPTY, b"")
    assert key_id(read_public(public)) == KEY_ID


def test_a_new_key_is_for_its_owner_alone_and_never_replaced(tmp_path):
    path = tmp_path / "k.pem"
    before = os.umask(0)
    try:
        made = make_key(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made == key_id(read_public(tmp_path / "k.pem.pub")) == key_id(read_public(path))
    secret = path.read_bytes()
    for target, public in ((path, tmp_path / "p"), (tmp_path / "n", tmp_path / "k.pem.pub")):
        with pytest.raises(InvalidInput) as error:
            make_key(target, public)
        assert error.value.code == "exists"
    with pytest.raises(InvalidInput):
        make_key(tmp_path / "n", tmp_path / "n")
    assert path.read_bytes() == secret
    assert sorted(each.name for each in tmp_path.iterdir()) == ["k.pem", "k.pem.pub"]


def test_both_halves_of_a_key_are_on_the_disk_before_they_have_names(tmp_path, monkeypatch):
    synced, real = {}, os.fsync

    def fsync(descriptor):
        real(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and not list(tmp_path.glob("[!.]*")):
            synced[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    make_key(tmp_path / "k")
    made = [each.stat() for each in tmp_path.iterdir()]
    assert len(made) == 2
    assert synced == {each.st_ino: each.st_size for each in made}


def test_a_private_key_is_not_written_through_a_link(tmp_path):
    (tmp_path / "k.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput):
        make_key(tmp_path / "k.pem")
    assert not (tmp_path / "elsewhere").exists()


def test_no_private_key_is_left_when_its_public_key_cannot_be_written(tmp_path):
    with pytest.raises(ReadFailed):
        make_key(tmp_path / "k.pem", tmp_path / "no" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_cannot_be_written_whole_is_not_there(tmp_path, monkeypatch):
    real = os.link

    def refused(*args, **how):
        if args[1].name == "k.pem.pub":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(*args, **how)

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(ReadFailed) as caught:
        make_key(tmp_path / "k.pem")
    assert caught.value.code == "write-failed"
    assert list(tmp_path.iterdir()) == []


def test_both_halves_stand_when_their_folder_cannot_be_synced(tmp_path, monkeypatch):
    real = os.fsync

    def refused(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(ReadFailed) as caught:
        make_key(tmp_path / "k.pem")
    assert caught.value.code == "not-durable"
    secret = read_private(tmp_path / "k.pem").public_key()
    assert key_id(secret) == key_id(read_public(tmp_path / "k.pem.pub"))


def test_a_passphrase_is_needed_and_has_to_be_right(tmp_path, zt):
    path = tmp_path / "k.pem"
    make_key(path, passphrase=WORDS)
    assert b"ENCRYPTED" in path.read_bytes()
    for wrong in (None, "", "wrong"):
        with pytest.raises(InvalidInput) as error:
            read_private(path, wrong)
        assert error.value.code == "passphrase"
    sign(zt, path, passphrase=WORDS)
    assert verify_signature(zt, tmp_path / "k.pem.pub").ok
    with pytest.raises(InvalidInput):
        make_key(tmp_path / "n", passphrase="")
    make_key(tmp_path / "plain")
    with pytest.raises(InvalidInput):
        read_private(tmp_path / "plain", "superfluous")


def test_what_is_no_ed25519_key_is_refused(tmp_path, keys, zt):
    make_key(tmp_path / "ec", kind="p256")
    for read, name in ((read_private, "ec"), (read_public, "ec.pub"), (read_public, "ec")):
        with pytest.raises(Unsupported) as error:
            read(tmp_path / name)
        assert error.value.code == "key-kind"
    with pytest.raises(Rejected) as rejected:
        read_private(keys[1])  # a public key where a private one is needed
    assert rejected.value.code == "key"
    for text in (b"", b"x" * 100, private_pem(SEED)[:70].encode(), zt.read_bytes()[:60_000]):
        (tmp_path / "bad").write_bytes(text)
        with pytest.raises(Rejected):
            read_public(tmp_path / "bad")


def weak_points():
    """Every encoding of a point whose order divides 8, by the arithmetic of RFC 8032, 5.1."""
    p, order = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
    d = -121665 * pow(121666, -1, p) % p

    def plus(a, b):
        (x, y), (u, v) = a, b
        k = d * x * y * u * v
        return (
            (x * v + u * y) * pow(1 + k, -1, p) % p,
            (y * v + x * u) * pow(1 - k, -1, p) % p,
        )

    def times(count, point):
        found = (0, 1)
        for bit in f"{count:b}":
            found = plus(found, found)
            found = plus(found, point) if bit == "1" else found
        return found

    def x_of(y):
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        for root in (1, pow(2, (p - 1) // 4, p)):
            x = pow(square, (p + 3) // 8, p) * root % p
            if x * x % p == square:
                return x
        return None

    for y in range(2, 99):  # most points are of eight times a large order, in full
        point = None if x_of(y) is None else times(order, (x_of(y), y))
        if point is not None and times(4, point) != (0, 1):
            break
    weak = {times(count, point)[1] for count in range(8)}
    spelled = weak | {y + p for y in weak if y + p < 2**255}
    return [(y | side << 255).to_bytes(32, "little") for y in sorted(spelled) for side in (0, 1)]


def test_the_points_of_small_order_are_all_there():
    assert len(weak_points()) == 2 * (5 + 2)


@pytest.mark.parametrize("raw", weak_points(), ids=bytes.hex)
def test_a_key_of_small_order_is_refused(raw, tmp_path, zt, keys):
    sign(zt, keys[0])
    weak = tmp_path / "weak.pub"
    weak.write_text(pem("PUBLIC KEY", bytes.fromhex("302a300506032b6570032100") + raw))
    for act in (lambda: read_public(weak), lambda: verify_signature(zt, weak)):
        with pytest.raises(Rejected) as caught:
            act()
        assert caught.value.code == "weak-key"


@pytest.mark.parametrize("above", range(2, 19))
def test_a_key_that_is_not_canonically_encoded_is_refused(above, tmp_path):
    spelled = tmp_path / "spelled.pub"
    for sign_bit in (0, 1):
        raw = (2**255 - 19 + above | sign_bit << 255).to_bytes(32, "little")
        spelled.write_text(pem("PUBLIC KEY", bytes.fromhex("302a300506032b6570032100") + raw))
        with pytest.raises(Rejected) as caught:
            read_public(spelled)
        assert caught.value.code == "weak-key"


def test_a_key_that_others_can_read_is_worth_a_warning(tmp_path, caplog):
    path = tmp_path / "k.pem"
    path.write_text(private_pem(SEED))
    path.chmod(0o644)
    read_private(path)
    assert "can be read by others" in caplog.text


def test_without_cryptography_the_hint_says_what_to_install(zt):
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import tensorark\n"
        "try: tensorark.sign(sys.argv[1], 'k')\n"
        "except tensorark.Unsupported as e: assert (e.code, 'sign' in e.hint) == "
        "('no-cryptography', True)\n"
        "else: sys.exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(zt)], check=True)


def test_whatever_needs_a_key_needs_cryptography(tmp_path, keys, monkeypatch):
    secret, public, _ = keys
    held = read_public(public)
    for name in [*sys.modules]:  # a module that is loaded would be found beside its package
        if name.partition(".")[0] == "cryptography":
            monkeypatch.setitem(sys.modules, name, None)
    for act in (
        lambda: make_key(tmp_path / "k.pem"),
        lambda: read_private(secret),
        lambda: read_public(public),
        lambda: require_elliptic(secret),
        lambda: key_id(held),
        lambda: public_pem(held),
    ):
        with pytest.raises(Unsupported) as caught:
            act()
        assert caught.value.code == "no-cryptography"
    assert not list(tmp_path.glob("k.*"))


# ------------------------------------------------------------------------------ statements, exactly


def test_a_canonical_file_is_signed_by_its_bytes(zt, keys):
    sign(zt, keys[0])
    assert_signed(zt, common("file", format="zt", files=[signed_file(zt)], uncovered=[]))
    found = verify_signature(zt, keys[1])
    assert (found.verdict, found.checked, found.taken) == ("authentic", 1, 0)


def test_a_root_is_signed_with_its_shards_in_order(root, keys):
    sign(root, keys[0])
    labels = [f"0000{i}-of-00003" for i in (1, 2, 3)]
    shards = [signed_file(root.with_name(f"m-{each}.zt"), each) for each in labels]
    statement = common("root", format="zt", files=[signed_file(root)], shards=shards, uncovered=[])
    assert_signed(root, statement)
    found = verify_signature(root, keys[1])
    assert (found.verdict, found.checked) == ("authentic", 4)


def test_content_is_signed_by_sha256_of_every_part(zt, keys):
    sign(zt, keys[0], over="content")
    entries = {
        name: {
            "shape": list(array.shape),
            "layout": "dense",
            "parts": {
                "data": {
                    "dtype": "f32",
                    "digest": "sha256:" + hashlib.sha256(array.tobytes()).hexdigest(),
                }
            },
        }
        for name, array in ARRAYS.items()
    }

    def digest(value):
        return hashlib.sha256(cbor2.dumps(value, canonical=True)).hexdigest()

    tensors = [
        {"name": name, "size": 2000, "sha256": digest({name: entry})}
        for name, entry in entries.items()
    ]
    content = digest(["zt.content/1", entries])
    assert_signed(zt, common("content", content=content, tensors=tensors))


def test_every_file_of_another_format_is_signed_in_order(index, keys):
    sign(index, keys[0], over="file")
    names = [index.name, "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]
    files = [signed_file(index.with_name(name)) for name in names]
    assert_signed(index, common("file", format="safetensors-index", files=files, uncovered=[]))
    assert verify_signature(index, keys[1]).checked == 3


def test_signing_is_deterministic(zt, keys, tmp_path):
    sign(zt, keys[0], tmp_path / "a", threads=1)
    sign(zt, keys[0], tmp_path / "b", threads=3)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_content_signature_holds_in_every_format_layout_and_number_of_files(zt, keys, tmp_path):
    sign(zt, keys[0], over="content")
    others = [tmp_path / name for name in ("a.safetensors", "aligned.zt", "packed.zt")]
    tensorark.convert(zt, others[0])
    tensorark.convert(zt, others[1], align=4096)
    tensorark.convert(zt, others[2], encoding="zstd")
    tensorark.split(zt, tmp_path / "root.zt", max_size=6200, align=4096, algorithm="xxh3")
    for other in (*others, tmp_path / "root.zt"):
        assert verify_signature(other, keys[1], signature_path(zt)).ok, other
    changed = {**ARRAYS, "l.1.w": ARRAYS["l.1.w"] + 1}
    ark.save_file(changed, tmp_path / "b.safetensors")
    found = verify_signature(tmp_path / "b.safetensors", keys[1], signature_path(zt))
    assert (codes(found), places(found)) == (["differs"], [("objects", "l.1.w")])


def test_a_model_is_signed_in_the_strongest_way_that_fits(zt, root, index, keys, tmp_path):
    weak = tmp_path / "weak.zt"
    tensorark.split(zt, weak, max_size=6200, align=4096, algorithm="xxh3")
    aligned = tmp_path / "aligned.zt"
    tensorark.convert(zt, aligned, align=4096)
    kinds = {zt: "file", root: "root", index: "content", weak: "content", aligned: "content"}
    for path, kind in kinds.items():
        assert sign(path, keys[0]).statement.kind == kind


# ------------------------------------------------------------------------- what is not signed


def test_a_root_with_a_weak_digest_is_not_signed(zt, keys, tmp_path):
    weak = tmp_path / "weak.zt"
    tensorark.split(zt, weak, max_size=6200, align=4096, algorithm="xxh3")
    with pytest.raises(Unsupported) as error:
        sign(weak, keys[0], over="root")
    assert (error.value.code, error.value.exit_code) == ("weak-digest", 4)
    assert error.value.where == ("shards", "00001-of-00003", "digest")
    assert not signature_path(weak).exists()


def test_what_is_not_canonical_is_not_signed_as_a_file(zt, keys, tmp_path):
    other = tmp_path / "aligned.zt"
    tensorark.convert(zt, other, align=4096)
    with pytest.raises(InvalidInput) as error:
        sign(other, keys[0], over="file")
    assert error.value.code == "not-canonical"


def test_a_file_without_shards_is_no_root_and_a_shard_no_model(zt, root, keys):
    with pytest.raises(InvalidInput) as error:
        sign(zt, keys[0], over="root")
    assert error.value.code == "no-root"
    for kind in ("file", "content", None):
        with pytest.raises(InvalidInput) as shard:
            sign(root.with_name("m-00001-of-00003.zt"), keys[0], over=kind)
        assert shard.value.code == "data-shard"


@pytest.mark.parametrize("over", ["file", "content"])
def test_a_damaged_file_is_not_signed(zt, keys, over):
    with tensorark.open(zt) as file:
        (span,) = file.catalog.tensors["l.1.w"].parts["data"].blob.spans
    flip(zt, span.offset)
    with pytest.raises(Rejected) as error:
        sign(zt, keys[0], over=over)
    assert error.value.code == "zt.digest"
    assert error.value.where[:2] == ("objects", "l.1.w")
    assert not signature_path(zt).exists()


def test_a_root_with_a_damaged_shard_is_not_signed(root, keys):
    flip(root.with_name("m-00002-of-00003.zt"), 100)  # padding, which no part digest covers
    with pytest.raises(Rejected) as error:
        sign(root, keys[0])
    assert error.value.code == "wrong-shard"


def test_a_signature_is_not_replaced_unless_asked(zt, keys):
    sign(zt, keys[0])
    before = signature_path(zt).read_bytes()
    with pytest.raises(InvalidInput) as error:
        sign(zt, keys[0], over="content")
    assert error.value.code == "exists"
    assert signature_path(zt).read_bytes() == before
    sign(zt, keys[0], over="content", overwrite=True)
    assert signature_path(zt).read_bytes() != before


# ------------------------------------------------------------------------- tampering with the model


def regions(path):
    """Offsets of each kind of byte in a `.zt`: magic, padding, payload, manifest, footer."""
    size = path.stat().st_size
    with tensorark.open(path) as file:
        frame = file.catalog.native.frame
        spans = [each.parts["data"].blob.spans[0] for each in file.catalog.tensors.values()]
    found = {
        "magic": [0, 7],
        "padding": [8, 65_535, frame.manifest_offset - 1],
        "manifest": [*range(frame.manifest_offset, size - 40, 37), size - 41],
        "footer": range(size - 40, size),
    }
    if spans[0].file is None:
        found["payload"] = [offset for span in spans for offset in (span.offset, span.end - 1)]
        found["padding"] += [span.end for span in spans]
    return [(kind, at) for kind, offsets in found.items() for at in offsets if at < size]


def test_every_kind_of_byte_of_a_file_is_covered(zt, keys):
    sign(zt, keys[0])
    whole = zt.read_bytes()
    for kind, offset in regions(zt):
        flip(zt, offset, 0x40)
        found = verify_signature(zt, keys[1])
        assert found.verdict == "not what was signed", (kind, offset)
        assert found.findings[0].where == ("files", "m.zt")
        if kind == "payload":
            assert found.findings[1].where[:3:2] == ("objects", "parts")
        zt.write_bytes(whole)
    assert verify_signature(zt, keys[1]).ok


def test_the_damaged_tensor_of_a_signed_file_is_named(zt, keys):
    sign(zt, keys[0])
    with tensorark.open(zt) as file:
        (span,) = file.catalog.tensors["l.2.w"].parts["data"].blob.spans
    flip(zt, span.offset + 5)
    assert places(verify_signature(zt, keys[1])) == [
        ("files", "m.zt"),
        ("objects", "l.2.w", "parts", "data"),
    ]


def test_every_kind_of_byte_of_a_root_and_of_its_shards_is_covered(root, keys):
    sign(root, keys[0])
    whole = root.read_bytes()
    for kind, offset in regions(root):  # the shard table lies in the manifest
        flip(root, offset, 0x40)
        found = verify_signature(root, keys[1])
        assert (found.verdict, places(found)) == ("not what was signed", [("files", "m.zt")]), kind
        root.write_bytes(whole)
    for at in (1, 2, 3):
        shard = root.with_name(f"m-0000{at}-of-00003.zt")
        whole = shard.read_bytes()
        for offset in (0, 9, 4096, 6000, len(whole) - 40, len(whole) - 12, len(whole) - 1):
            flip(shard, offset, 0x40)
            found = verify_signature(root, keys[1])
            assert not found.ok, (shard.name, offset)
            assert places(found) == [("shards", f"0000{at}-of-00003")]
            shard.write_bytes(whole)
    assert verify_signature(root, keys[1]).ok


def test_a_root_whose_table_was_made_to_fit_another_shard_is_not_the_signed_one(root, keys):
    """The strongest forgery: a shard is changed, and the root is written anew with its digest."""
    sign(root, keys[0])
    signature = signature_path(root).read_bytes()
    whole = root.parent.parent / "whole.zt"
    ark.save_file({**ARRAYS, "l.0.w": ARRAYS["l.0.w"] * 2}, whole)
    for each in root.parent.iterdir():
        each.unlink()
    tensorark.split(whole, root, max_size=6200, align=4096)
    signature_path(root).write_bytes(signature)
    found = verify_signature(root, keys[1])
    assert (found.verdict, places(found)) == ("not what was signed", [("files", "m.zt")])


def swap(a, b):
    between = a.with_name("between")
    a.rename(between)
    b.rename(a)
    between.rename(b)


@pytest.mark.parametrize(
    ("model", "over", "pattern", "place"),
    [
        ("root", "root", "m-{}-of-00003.zt", "shards"),
        ("index", "file", "m-{}-of-00002.safetensors", "files"),
    ],
)
def test_swapped_names_are_told_from_damage(request, keys, model, over, pattern, place):
    path = request.getfixturevalue(model)
    sign(path, keys[0], over=over)
    first, second = (path.with_name(pattern.format(at)) for at in ("00001", "00002"))
    swap(first, second)
    found = verify_signature(path, keys[1])
    assert found.verdict == "names are swapped"
    assert [each.rule for each in found.findings] == ["signature-swapped"] * 2
    assert "00002-of" in found.findings[0].detail
    assert places(found)[0][0] == place
    swap(first, second)
    assert verify_signature(path, keys[1]).ok


@pytest.mark.parametrize("over", ["root", "content"])
def test_a_missing_shard_is_told(root, keys, over):
    sign(root, keys[0], over=over)
    root.with_name("m-00002-of-00003.zt").unlink()
    found = verify_signature(root, keys[1])
    assert (found.verdict, places(found)) == ("incomplete", [("shards", "00002-of-00003")])


def test_a_shard_that_holds_no_tensor_is_no_content(keys, tmp_path):
    path = tmp_path / "m.zt"
    shards = {"a": Shard(8192, "sha256:" + "0" * 64)}
    manifest = encode_manifest([Tensor("t", (0,), "dense", {"data": EMPTY_PART})], None, shards)
    path.write_bytes(MAGIC.ljust(4096, b"\0") + encode_tail(manifest, 4096))
    sign(path, keys[0], over="content")
    assert verify_signature(path, keys[1]).ok


@pytest.mark.parametrize("over", ["file", "content"])
def test_a_missing_shard_of_another_format_is_told(index, keys, over):
    sign(index, keys[0], over=over)
    index.with_name("m-00002-of-00002.safetensors").unlink()
    assert verify_signature(index, keys[1]).verdict == "incomplete"


def test_a_shard_that_was_cut_or_replaced_is_told(root, keys):
    sign(root, keys[0])
    shard = root.with_name("m-00003-of-00003.zt")
    whole = shard.read_bytes()
    for data in (whole[:-1], whole + b"\0", b"", b"x" * len(whole)):
        shard.write_bytes(data)
        found = verify_signature(root, keys[1])
        assert (found.verdict, places(found)) == (
            "not what was signed",
            [("shards", "00003-of-00003")],
        )


def test_a_missing_model_or_signature_is_an_error(zt, keys):
    with pytest.raises(ReadFailed) as error:
        verify_signature(zt, keys[1])
    assert error.value.code == "missing-file"
    sign(zt, keys[0])
    zt.unlink()
    with pytest.raises(ReadFailed):
        verify_signature(zt, keys[1])


@pytest.mark.parametrize("change", ["value", "name", "more", "less", "shape", "type"])
def test_any_change_of_content_names_the_tensor(zt, keys, tmp_path, change):
    sign(zt, keys[0], over="content")
    arrays = dict(ARRAYS)
    if change == "name":
        arrays["l.x.w"] = arrays.pop("l.1.w")
    elif change == "more":
        arrays["l.9.w"] = arrays["l.1.w"]
    elif change == "less":
        del arrays["l.1.w"]
    else:
        array = arrays["l.1.w"]
        arrays["l.1.w"] = {
            "value": np.nextafter(array, np.inf, dtype="f4"),
            "shape": array.reshape(2, 250),
            "type": array.view("i4"),
        }[change]
    ark.save_file(arrays, tmp_path / "c.safetensors")
    found = verify_signature(tmp_path / "c.safetensors", keys[1], signature_path(zt))
    expected = {
        "name": (["differs", "missing"], [("objects", "l.1.w"), ("objects", "l.x.w")]),
        "more": (["differs"], [("objects", "l.9.w")]),
        "less": (["missing"], [("objects", "l.1.w")]),
    }
    assert (codes(found), places(found)) == expected.get(
        change, (["differs"], [("objects", "l.1.w")])
    )


def test_swapped_tensors_are_both_named(zt, keys, tmp_path):
    sign(zt, keys[0], over="content")
    arrays = {**ARRAYS, "l.0.w": ARRAYS["l.1.w"], "l.1.w": ARRAYS["l.0.w"]}
    ark.save_file(arrays, tmp_path / "s.zt")
    found = verify_signature(tmp_path / "s.zt", keys[1], signature_path(zt))
    assert places(found) == [("objects", "l.0.w"), ("objects", "l.1.w")]


def test_a_renamed_file_is_told_and_may_be_allowed(zt, keys):
    sign(zt, keys[0])
    other = zt.with_name("n.zt")
    zt.rename(other)
    found = verify_signature(other, keys[1], signature_path(zt))
    assert (found.verdict, codes(found)) == ("renamed", ["name"])
    assert verify_signature(other, keys[1], signature_path(zt), any_name=True).ok
    flip(other, 9)
    assert not verify_signature(other, keys[1], signature_path(zt), any_name=True).ok


@settings(max_examples=60)
@given(data=st.data())
def test_any_flip_anywhere_is_found(tmp_path_factory, keys, data):
    folder = tmp_path_factory.mktemp("flip")
    ark.save_file({"a": ARRAYS["l.0.w"], "b": ARRAYS["l.1.w"]}, folder / "whole.zt")
    path = folder / "m.zt"
    tensorark.split(folder / "whole.zt", path, max_size=6200, align=4096)
    sign(path, keys[0])
    files = [path, *folder.glob("m-*.zt"), signature_path(path)]
    chosen = data.draw(st.sampled_from(files))
    offset = data.draw(st.integers(0, chosen.stat().st_size - 1))
    flip(chosen, offset, data.draw(st.integers(1, 255)))
    verdict = judged(path, keys[1])
    assert verdict != "authentic"
    assert verdict != "document" or chosen == signature_path(path)


def judged(path, key) -> str:
    """The verdict, or the code of the error."""
    try:
        return verify_signature(path, key).verdict
    except (Rejected, Unsupported) as error:
        return error.code


# ---------------------------------------------------------------- tampering with the signature file


def test_every_byte_of_a_signature_file_counts(zt, keys):
    sign(zt, keys[0])
    path = signature_path(zt)
    whole = path.read_bytes()
    for offset in range(len(whole)):
        flip(path, offset, 0x20 if offset % 2 else 0x01)
        refusals = {"document", "invalid signature", "signed by another key"}
        assert judged(zt, keys[1]) in refusals, offset
        path.write_bytes(whole)
    for data in (whole[:-1], whole + b"\n", whole[:100], b"", b" " + whole):
        path.write_bytes(data)
        assert judged(zt, keys[1]) == "document"


STATEMENT_CHANGES = {
    "kind": lambda s: s.update(
        kind="root",
        covers=SAYS["root"][0],
        omits=SAYS["root"][1],
        shards=[],
        uncovered=s.pop("uncovered"),
    ),
    "key": lambda s: s.update(key="ed25519:" + "0" * 64),
    "format": lambda s: s.update(format="safetensors"),
    "name": lambda s: s["files"][0].update(name="n.zt"),
    "size": lambda s: s["files"][0].update(size=s["files"][0]["size"] + 1),
    "sha256": lambda s: s["files"][0].update(sha256="0" * 64),
    "more": lambda s: s["files"].append({**s["files"][0], "name": "b.zt"}),
    "uncovered": lambda s: s["uncovered"].append("x"),
}


@pytest.mark.parametrize("field", STATEMENT_CHANGES)
def test_a_changed_field_of_the_statement_is_found(zt, keys, field):
    sign(zt, keys[0])
    document = json.loads(signature_path(zt).read_text())
    STATEMENT_CHANGES[field](document["statement"])
    write_document(zt, document)
    found = verify_signature(zt, keys[1])
    assert codes(found) == (["key"] if field == "key" else ["invalid"])
    assert found.checked == 0  # nothing of the model is read on the word of a forged statement


@pytest.mark.parametrize("member", ["covers", "omits"])
@pytest.mark.parametrize("over", ["file", "content"])
def test_a_statement_says_of_its_kind_what_it_covers(zt, keys, member, over):
    sign(zt, keys[0], over=over)
    resign(zt, lambda statement: statement.update({member: "everything"}))
    with pytest.raises(Rejected) as caught:
        verify_signature(zt, keys[1])
    assert caught.value.where == ("statement", member)


def test_the_order_of_shards_is_signed(root, keys):
    sign(root, keys[0])
    document = json.loads(signature_path(root).read_text())
    document["statement"]["shards"].reverse()
    write_document(root, document)
    assert verify_signature(root, keys[1]).verdict == "invalid signature"
    resign(root, unchanged)  # where the key's holder says so, the root still disagrees
    found = verify_signature(root, keys[1])
    assert (found.verdict, places(found)) == ("not what was signed", [("shards",)])


def test_the_content_digest_is_compared_beside_the_tensors(zt, keys):
    sign(zt, keys[0], over="content")
    resign(zt, lambda statement: statement.update(content="0" * 64))
    assert places(verify_signature(zt, keys[1])) == [("content",)]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema="tensorark.signature/2"),
        lambda d: d.update(more=1),
        lambda d: d.pop("signature"),
        lambda d: d.update(signature=d["signature"].upper()),
        lambda d: d.update(signature=d["signature"][:-2]),
        lambda d: d["statement"].update(schema="tensorark.statement/2"),
        lambda d: d["statement"].update(algorithm="xxh3"),
        lambda d: d["statement"].update(kind="weights"),
        lambda d: d["statement"].update(key="p256:" + "0" * 64),
        lambda d: d["statement"].update(files=[]),
        lambda d: d["statement"].update(shards=[]),
        lambda d: d["statement"]["files"].append(d["statement"]["files"][0]),
        lambda d: d["statement"]["files"][0].update(name=""),
        lambda d: d["statement"]["files"][0].update(size=-1),
        lambda d: d["statement"]["files"][0].update(more=1),
        lambda d: d["statement"].pop("uncovered"),
    ],
)
def test_what_is_no_signature_is_refused(zt, keys, change):
    sign(zt, keys[0])
    document = json.loads(signature_path(zt).read_text())
    change(document)
    write_document(zt, document)
    with pytest.raises(Rejected) as error:
        verify_signature(zt, keys[1])
    assert error.value.code == "document"


def test_another_key_is_told_from_a_broken_signature(zt, keys, tmp_path):
    sign(zt, keys[0])
    found = verify_signature(zt, keys[2])
    assert (found.verdict, codes(found)) == ("signed by another key", ["key"])
    # Another key in the name of the trusted one.
    resign(zt, unchanged, seed=b"\1" * 32)
    assert verify_signature(zt, keys[1]).verdict == "invalid signature"
    # The trusted key in the name of another.
    resign(zt, lambda statement: statement.update(key="ed25519:" + "0" * 64))
    assert verify_signature(zt, keys[1]).verdict == "invalid signature"


def test_a_signature_of_one_model_is_none_of_another(zt, root, keys):
    sign(zt, keys[0])
    sign(root, keys[0])
    signature_path(zt).write_bytes(signature_path(root).read_bytes())
    assert verify_signature(zt, keys[1]).verdict == "not what was signed"


def test_every_flip_in_a_public_key_is_found_or_leaves_the_key(zt, keys, tmp_path):
    sign(zt, keys[0])
    text = keys[1].read_bytes()
    path = tmp_path / "p.pem"
    for offset in range(len(text)):
        path.write_bytes(text)
        flip(path, offset, 0x02)
        if judged(zt, path) == "authentic":
            assert read_public(path).public_bytes_raw() == PUBLIC


def test_the_bytes_of_a_statement_are_signed_behind_a_prefix_of_their_own(zt, keys):
    """A signature that the key made over the same JSON for another purpose is none."""
    sign(zt, keys[0])
    document = json.loads(signature_path(zt).read_text())
    body = golden(document["statement"]).partition(b"\0")[2]
    document["signature"] = Ed25519PrivateKey.from_private_bytes(SEED).sign(body).hex()
    write_document(zt, document)
    assert verify_signature(zt, keys[1]).verdict == "invalid signature"


@pytest.mark.parametrize(
    "name", ["../outside.zt", "/etc/passwd", "a/../../outside.zt", "..", "a\\b"]
)
def test_names_in_a_statement_lead_nowhere(index, keys, name):
    """Not even the holder of the key makes us read outside of the folder."""
    sign(index, keys[0], over="file")
    (index.parent.parent / "outside.zt").write_bytes(b"x")
    resign(index, lambda statement: statement["files"][1].update(name=name))
    with pytest.raises(Rejected) as error:
        verify_signature(index, keys[1])
    assert error.value.code == "unsafe-name"


# ------------------------------------------------------------------------------- digests as given


def test_digests_are_taken_as_given_only_on_request(root, keys):
    sign(root, keys[0])
    signature = signature_path(root).read_bytes()
    for shard in root.parent.glob("m-*.zt"):
        flip(shard, 100)
    assert not verify_signature(root, keys[1]).ok
    found = verify_signature(root, keys[1], trust_digests=True)
    assert (found.ok, found.checked, found.taken) == (True, 1, 3)
    sign(root, keys[0], trust_digests=True, overwrite=True)  # the same statement, nothing read
    assert signature_path(root).read_bytes() == signature
    root.with_name("m-00001-of-00003.zt").unlink()
    assert verify_signature(root, keys[1], trust_digests=True).verdict == "incomplete"


def test_digests_of_files_are_taken_from_a_list(index, keys, tmp_path):
    names = [index.name, "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]
    sums = tmp_path / "SHA256SUMS"
    lines = [f"{sha256(index.with_name(name))}  {name}" for name in names]
    sums.write_text("\n".join([*lines, "0" * 64 + " *other"]) + "\n")
    known = read_sums(sums)
    assert known == {**{line[66:]: line[:64] for line in lines}, "other": "0" * 64}
    sign(index, keys[0], over="file", known=known)
    assert verify_signature(index, keys[1]).ok
    signature = signature_path(index).read_bytes()
    flip(index.with_name(names[2]), -1)
    found = verify_signature(index, keys[1], known=known)
    assert (found.ok, found.checked, found.taken) == (True, 0, 3)
    sign(index, keys[0], over="file", known=known, overwrite=True)  # nothing is read
    assert signature_path(index).read_bytes() == signature
    found = verify_signature(index, keys[1], known={names[0]: "0" * 64})
    assert places(found) == [("files", names[0]), ("files", names[2])]
    for text in ("x", "0" * 64, f"{'0' * 64}  a\n{'1' * 64}  a\n", f"{'A' * 64}  a"):
        sums.write_text(text)
        with pytest.raises(Rejected):
            read_sums(sums)


def test_a_part_digest_that_is_not_cryptographic_is_never_taken(zt, keys):
    sign(zt, keys[0], over="content")
    assert verify_signature(zt, keys[1], trust_digests=True).taken == 0
    with tensorark.open(zt) as file:
        (span,) = file.catalog.tensors["l.1.w"].parts["data"].blob.spans
    flip(zt, span.offset)
    assert not verify_signature(zt, keys[1], trust_digests=True).ok


def with_sha256(path):
    """A `.zt` whose one part carries a sha256 digest, which our writer does not make."""
    data = ARRAYS["l.0.w"].tobytes()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    part = Part(Raw((Span(4096, len(data)),)), "f32", None, digest)
    manifest = encode_manifest([Tensor("a", (500,), "dense", {"data": part})])
    blank = bytes(4096 - len(MAGIC))
    path.write_bytes((MAGIC + blank + data).ljust(8192, b"\0") + encode_tail(manifest, 8192))
    assert tensorark.validate(path) == []
    return path


def test_cryptographic_part_digests_are_taken_on_request(keys, tmp_path):
    path = with_sha256(tmp_path / "s.zt")
    sign(path, keys[0], over="content", trust_digests=True)
    signature = signature_path(path).read_bytes()
    sign(path, keys[0], over="content", overwrite=True)
    assert signature_path(path).read_bytes() == signature
    with tensorark.open(path) as file:
        (span,) = file.catalog.tensors["a"].parts["data"].blob.spans
    flip(path, span.offset)
    assert verify_signature(path, keys[1], trust_digests=True).taken == 1
    assert places(verify_signature(path, keys[1])) == [("objects", "a")]


# ------------------------------------------------------------------------------- folders and links


def test_a_statement_has_to_list_every_file_of_the_model(index, keys):
    sign(index, keys[0], over="file")

    def forget(statement):
        del statement["files"][2:]

    def add(statement):
        (index.parent / "more.txt").write_text("x")
        statement["files"].append(signed_file(index.parent / "more.txt"))

    for change, name in ((forget, "m-00002-of-00002.safetensors"), (add, "more.txt")):
        sign(index, keys[0], over="file", overwrite=True)
        resign(index, change)
        found = verify_signature(index, keys[1])
        assert found.verdict == "not what was signed"
        assert places(found) == [("files", name)]


def test_a_statement_about_an_index_alone_is_not_about_the_model(index, keys):
    sign(index, keys[0], over="file")
    resign(index, lambda statement: statement["files"].__delitem__(slice(1, None)))
    assert len(places(verify_signature(index, keys[1]))) == 2
    for shard in index.parent.glob("*.safetensors"):
        shard.unlink()
    assert verify_signature(index, keys[1]).verdict == "not what was signed"


@pytest.mark.parametrize("over", ["file", "content"])
def test_a_folder_of_blobs_is_signed_with_each_of_them_once(tmp_path, keys, over):
    folder = tmp_path / "blobs"
    folder.mkdir()
    for name in ("a", "b"):
        ark.save_file({name: np.full((4, 4), ord(name), "f4")}, tmp_path / f"{name}.zt")
        tensorark.convert(tmp_path / f"{name}.zt", folder / f"{name}.tb", drop=["shapes"])
    signature = tmp_path / "s.json"
    made = sign(folder, keys[0], signature, over=over).statement
    if over == "file":
        assert made.files == tuple(
            Signed(**signed_file(folder / name)) for name in ("a.tb", "b.tb")
        )
    assert verify_signature(folder, keys[1], signature).verdict == "authentic"
    assert tensorark.check_seal(folder, seal_of(folder, tmp_path / "seal.json"), deep=True).ok
    flip(folder / "b.tb", -1)
    assert verify_signature(folder, keys[1], signature).verdict == "not what was signed"
    assert not tensorark.check_seal(folder, tmp_path / "seal.json").ok


def seal_of(path, target):
    assert len({each.name for each in tensorark.seal(path, target).files}) == 2
    return target


@pytest.mark.parametrize("trusting", [False, True])
def test_digests_that_contradict_are_not_signed(root, keys, trusting):
    table = {each.name: sha256(each) for each in root.parent.glob("m*.zt")}
    sign(root, keys[0], known=table, trust_digests=trusting)
    signature_path(root).unlink()
    for name in table:
        with pytest.raises(InvalidInput, match="contradict") as caught:
            sign(root, keys[0], known={**table, name: "0" * 64}, trust_digests=trusting)
        assert caught.value.code == "known"
    assert not signature_path(root).exists()


def test_known_digests_have_to_be_of_every_shard_unless_the_table_is_trusted(root, keys):
    table = {each.name: sha256(each) for each in root.parent.glob("m-*.zt")}
    sign(root, keys[0])
    wanted = signature_path(root).read_bytes()
    for known in ({}, table):
        sign(root, keys[0], known=known, overwrite=True)
        assert signature_path(root).read_bytes() == wanted
    for name in table:
        some = {key: value for key, value in table.items() if key != name}
        with pytest.raises(InvalidInput, match="no known digest"):
            sign(root, keys[0], known=some, overwrite=True)
        sign(root, keys[0], known=some, trust_digests=True, overwrite=True)
        assert signature_path(root).read_bytes() == wanted


def test_what_else_lies_in_a_folder_is_recorded_and_changes_nothing(index, keys):
    folder = index.parent
    (folder / "README.md").write_text("x")
    (folder / "tokenizer.json").write_text("{}")
    statement = sign(folder, keys[0], over="file").statement
    assert statement.uncovered == ("README.md", "tokenizer.json")
    assert verify_signature(folder, keys[1]).ok
    (folder / "README.md").unlink()
    (folder / "tokenizer.json").write_text("[]")
    found = verify_signature(folder, keys[1])
    assert found.ok
    assert found.statement.uncovered == ("README.md", "tokenizer.json")


@pytest.fixture
def cache(tmp_path, root, index):
    """The cache of a hub: snapshots of links to blobs that are named by their hashes."""
    home = tmp_path / "hub" / "models--a--b"
    snapshot = home / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir()
    for path in [*root.parent.iterdir(), *index.parent.iterdir()]:
        blob = home / "blobs" / sha256(path)
        blob.write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    return snapshot


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("m.zt", "root"),
        ("m.zt", "content"),
        ("m.safetensors.index.json", "file"),
        ("m.safetensors.index.json", "content"),
    ],
)
def test_the_links_of_a_hub_cache_are_followed(cache, keys, name, over):
    path = cache / name
    sign(path, keys[0], over=over)
    assert verify_signature(path, keys[1]).ok
    shard = next(cache.glob(f"m-00001-*{'.zt' if name == 'm.zt' else '.safetensors'}"))
    blob = shard.resolve()
    flip(blob, blob.stat().st_size - 41 if name == "m.zt" else -1)
    assert not verify_signature(path, keys[1]).ok or over == "content"
    blob.unlink()
    assert verify_signature(path, keys[1]).verdict == "incomplete"


@pytest.mark.parametrize(
    ("name", "victim", "over"),
    [
        ("m.zt", "m.zt", "root"),
        ("m.zt", "m-00002-of-00003.zt", "root"),
        ("m.safetensors.index.json", "m-00002-of-00002.safetensors", "file"),
        ("m.safetensors.index.json", "m-00002-of-00002.safetensors", "content"),
    ],
)
def test_a_link_out_of_the_tree_is_refused(cache, keys, tmp_path, name, victim, over):
    """Even where the bytes behind it are the right ones."""
    path = cache / name
    sign(path, keys[0], over=over)
    outside = tmp_path / "outside"
    outside.write_bytes((cache / victim).read_bytes())
    (cache / victim).unlink()
    (cache / victim).symlink_to(outside)
    for attempt in (
        lambda: verify_signature(path, keys[1]),
        lambda: sign(path, keys[0], over=over, overwrite=True),
    ):
        with pytest.raises(ReadFailed) as error:
            attempt()
        assert error.value.code == "unsafe-link"
