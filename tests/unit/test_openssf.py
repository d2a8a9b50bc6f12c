"""OpenSSF bundles: ours are verified by the package's own command, its own by us."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys

import model_signing
import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark.errors import ReadFailed, Rejected, Unsupported
from tensorark.integrity.keys import make_key
from tensorark.integrity.openssf import bundle_path, sign_bundle, verify_bundle

ARRAYS = {f"l.{i}.w": np.arange(i, i + 500, dtype="f4") for i in range(3)}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "ec.pem"
    make_key(path, kind="p256")
    return path


@pytest.fixture
def root(tmp_path):
    ark.save_file(ARRAYS, tmp_path / "whole.zt")
    folder = tmp_path / "model"
    folder.mkdir()
    tensorark.split(tmp_path / "whole.zt", folder / "m.zt", max_size=6200, align=4096)
    return folder / "m.zt"


@pytest.fixture
def signed(root, key):
    (root.parent / "README.md").write_text("x")
    assert sign_bundle(root, key) == ("m.zt", *(f"m-0000{i}-of-00003.zt" for i in (1, 2, 3)))
    return root


def public(key):
    return key.with_name(key.name + ".pub")


def payload_of(path):
    envelope = json.loads(bundle_path(path).read_text())["dsseEnvelope"]
    return json.loads(base64.b64decode(envelope["payload"]))


def rewrite(path, change):
    """Change a bundle without signing it anew."""
    document = json.loads(bundle_path(path).read_text())
    change(document)
    bundle_path(path).write_text(json.dumps(document))


def resign(path, key, names):
    """Let the package sign files under other names: what a dishonest holder of the key could do."""
    made = model_signing.hashing.Config().hash(path.parent, files_to_hash=[path])
    digest = next(iter(made.resource_descriptors())).digest
    made._item_to_digest = {model_signing.manifest._File(each): digest for each in names}
    from model_signing._signing import sign_ec_key, signing

    signing_payload = signing.Payload(made)
    sign_ec_key.Signer(key, None).sign(signing_payload).write(bundle_path(path))


def test_a_bundle_lists_the_files_of_the_model_and_what_was_left_out(signed):
    predicate = payload_of(signed)["predicate"]
    found = {each["name"]: each["digest"] for each in predicate["resources"]}
    names = ["m.zt", *(f"m-0000{i}-of-00003.zt" for i in (1, 2, 3))]
    assert found == {
        name: hashlib.sha256(signed.with_name(name).read_bytes()).hexdigest() for name in names
    }
    assert {"README.md", "m.zt.sigstore.json"} <= {*predicate["serialization"]["ignore_paths"]}


def test_the_package_verifies_our_bundle(signed, key):
    command = [sys.executable, "-m", "model_signing", "verify", "key", signed.parent]
    command += ["--signature", bundle_path(signed), "--public_key", public(key)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_we_verify_a_bundle_of_the_package(root, key):
    bundle = root.parent / "model.sig"
    config = model_signing.signing.Config().use_elliptic_key_signer(private_key=key)
    config.sign(root.parent, bundle)
    found = verify_bundle(root, public(key), bundle)
    assert (found.verdict, len(found.files)) == ("authentic", 4)
    assert verify_bundle(root.parent, public(key), bundle).ok


def test_what_the_bundle_does_not_list_is_no_concern_of_it(signed, key):
    (signed.parent / "README.md").unlink()
    (signed.parent / "new").write_text("x")
    assert verify_bundle(signed, public(key)).ok


@pytest.mark.parametrize("name", ["m.zt", "m-00002-of-00003.zt"])
def test_a_flip_in_any_file_is_found(signed, key, name):
    path = signed.with_name(name)
    for offset in (0, 9, path.stat().st_size - 1):
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)
        found = verify_bundle(signed, public(key))
        assert found.verdict == "not what was signed"
        assert [each.where for each in found.findings] == [("files", name)]
        data[offset] ^= 1
        path.write_bytes(data)
    assert verify_bundle(signed, public(key)).ok


def test_swapped_and_missing_files_are_told(signed, key):
    first, second = (signed.with_name(f"m-0000{i}-of-00003.zt") for i in (1, 2))
    first.rename(signed.with_name("between"))
    second.rename(first)
    assert verify_bundle(signed, public(key)).verdict == "names are swapped"
    signed.with_name("between").unlink()
    first.unlink()
    assert verify_bundle(signed, public(key)).verdict == "incomplete"


def test_another_key_and_a_broken_signature_are_told_apart(signed, key, tmp_path):
    make_key(tmp_path / "other", kind="p256")
    assert verify_bundle(signed, tmp_path / "other.pub").verdict == "signed by another key"

    def spoil(document):
        (each,) = document["dsseEnvelope"]["signatures"]
        data = bytearray(base64.b64decode(each["sig"]))
        data[-1] ^= 1
        each["sig"] = base64.b64encode(data).decode()

    rewrite(signed, spoil)
    assert verify_bundle(signed, public(key)).verdict == "invalid signature"


def test_a_changed_payload_is_found(signed, key):
    def spoil(document):
        payload = json.loads(base64.b64decode(document["dsseEnvelope"]["payload"]))
        payload["predicate"]["resources"].pop()
        text = json.dumps(payload).encode()
        document["dsseEnvelope"]["payload"] = base64.b64encode(text).decode()

    rewrite(signed, spoil)
    assert verify_bundle(signed, public(key)).verdict == "invalid signature"


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(mediaType="x"),
        lambda d: d.update(dsse_envelope=d["dsseEnvelope"]),
        lambda d: d["dsseEnvelope"].update(payload_type="x"),
        lambda d: d["dsseEnvelope"].update(payload="?"),
        lambda d: d["dsseEnvelope"].update(signatures=[]),
        lambda d: d["dsseEnvelope"].update(signatures=5),
        lambda d: d.update(verificationMaterial=[]),
        lambda d: d.update(verificationMaterial={}),
        lambda d: d.pop("dsseEnvelope"),
    ],
)
def test_what_is_no_bundle_is_refused(signed, key, change):
    rewrite(signed, change)
    with pytest.raises(Rejected) as error:
        verify_bundle(signed, public(key))
    assert error.value.code == "document"


@pytest.mark.parametrize("name", ["../m.zt", "/etc/passwd", "."])
def test_names_in_a_bundle_lead_nowhere(signed, key, name):
    resign(signed, key, [name])
    with pytest.raises(Rejected) as error:
        verify_bundle(signed, public(key))
    assert error.value.code == "unsafe-name"


def test_a_bundle_that_leaves_out_a_file_of_the_model_does_not_hold(signed, key):
    resign(signed, key, ["m.zt"])
    found = verify_bundle(signed, public(key))
    assert [each.where for each in found.findings] == [
        ("files", f"m-0000{i}-of-00003.zt") for i in (1, 2, 3)
    ]
    resign(signed, key, [])
    assert len(verify_bundle(signed, public(key)).findings) == 4


def test_a_link_out_of_the_folder_is_refused(signed, key, tmp_path):
    shard = signed.with_name("m-00001-of-00003.zt")
    shard.rename(tmp_path / "outside")
    shard.symlink_to(tmp_path / "outside")
    for attempt in (lambda: verify_bundle(signed, public(key)), lambda: sign_bundle(signed, key)):
        with pytest.raises(ReadFailed):
            attempt()


def test_the_links_of_a_hub_cache_are_followed(root, key, tmp_path):
    snapshot = tmp_path / "hub" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (tmp_path / "hub" / "blobs").mkdir()
    for at, path in enumerate(root.parent.iterdir()):
        path.rename(tmp_path / "hub" / "blobs" / str(at))
        (snapshot / path.name).symlink_to(f"../../blobs/{at}")
    assert len(sign_bundle(snapshot / "m.zt", key)) == 4
    assert verify_bundle(snapshot / "m.zt", public(key)).ok


def test_keys_of_another_kind_are_refused(root, tmp_path):
    make_key(tmp_path / "ed")
    for attempt in (
        lambda: sign_bundle(root, tmp_path / "ed"),
        lambda: verify_bundle(root, tmp_path / "ed.pub"),
    ):
        with pytest.raises(Unsupported) as error:
            attempt()
        assert error.value.code == "key-kind"


def test_an_encrypted_key_signs_with_its_passphrase(root, tmp_path):
    words = "correct horse"
    make_key(tmp_path / "k", kind="p256", passphrase=words)
    sign_bundle(root, tmp_path / "k", passphrase=words)
    assert verify_bundle(root, tmp_path / "k.pub").ok


def test_without_the_package_the_hint_says_what_to_install(root):
    code = (
        "import sys; sys.modules['model_signing'] = None\n"
        "from tensorark.integrity.openssf import sign_bundle\n"
        "from tensorark import Unsupported\n"
        "try: sign_bundle(sys.argv[1], 'k')\n"
        "except Unsupported as e: assert (e.code, 'openssf' in e.hint) == "
        "('no-model-signing', True)\n"
        "else: sys.exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True)
