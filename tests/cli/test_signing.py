"""`seal`, `verify --seal`, `keygen`, `sign` and `verify-sig`."""

import json
import stat

import pytest

import tensorark


@pytest.fixture
def keys(tark, tmp_path, monkeypatch):
    monkeypatch.delenv("TARK_PASSPHRASE", raising=False)
    assert tark("keygen", tmp_path / "k.pem").code == 0
    return tmp_path / "k.pem", tmp_path / "k.pem.pub"


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_sealed_safetensors_that_is_damaged_names_tensor_and_range(tark, st):
    sealed = f"{st}.seal.json"
    ran = tark("seal", st)
    assert (ran.code, ran.out.split(",")[0]) == (0, f"{sealed}: 4 tensors in 1 file")
    assert tark("verify", st, "--seal", sealed).out == f"{st}: as sealed\n"
    assert tark("verify", st, "--seal", sealed, "--deep", "-q").out == ""
    with tensorark.open(st) as file:
        (span,) = file.catalog.tensors["norm"].parts["data"].blob.spans
    flip(st, span.offset)
    ran = tark("verify", st, "--seal", sealed)
    assert ran.code == 1
    first, second = ran.out.splitlines()
    assert first == f"{st}: damaged"
    assert f"model.safetensors bytes {span.offset} to {span.end}" in second
    assert "objects.norm.parts.data" in second
    (model,) = json.loads(tark("verify", st, "--seal", sealed, "--json").out)["models"]
    assert (model["verdict"], model["findings"][0]["where"][1]) == ("damaged", "norm")


def test_a_seal_says_the_content_digest_that_id_says(tark, st):
    document = json.loads(tark("seal", st, "--digest", "xxh3", "--json").out)
    assert document["content"]["xxh3"] == tark("id", "-q", st).out.strip()


def test_a_seal_is_replaced_only_by_force(tark, st):
    assert tark("seal", st).code == 0
    ran = tark("seal", st)
    assert (ran.code, "[exists" in ran.err) == (2, True)
    assert tark("seal", st, "--force").code == 0
    assert tark("verify", st, "--seal", st).code == 3
    assert tark("verify", st, "--seal", "missing").code == 5


def test_keys_are_made_and_never_replaced(tark, keys, tmp_path):
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    before = [path.read_bytes() for path in keys]
    ran = tark("keygen", keys[0])
    assert (ran.code, "[exists" in ran.err) == (2, True)
    assert [path.read_bytes() for path in keys] == before
    made = json.loads(tark("keygen", tmp_path / "n", "--public", tmp_path / "p", "--json").out)
    assert made["id"].startswith("ed25519:")
    assert "PRIVATE" not in (tmp_path / "p").read_text()


@pytest.mark.parametrize(("model", "kind"), [("zt", "every byte of"), ("st", "the content of")])
def test_a_model_is_signed_and_verified(tark, keys, request, model, kind):
    path = request.getfixturevalue(model)
    ran = tark("sign", path, "--key", keys[0])
    assert ran.code == 0
    assert ran.out.startswith(f"{path}.sig.json: signed {kind} {path}")
    for key in keys:
        ran = tark("verify-sig", path, "--key", key)
        assert (ran.code, ran.out.splitlines()[0]) == (0, f"{path}: authentic")
    assert tark("verify-sig", path, "--key", keys[1], "-q").out == ""
    flip(path, path.stat().st_size - 41)
    ran = tark("verify-sig", path, "--key", keys[1])
    assert (ran.code, ran.out.splitlines()[0]) == (1, f"{path}: not what was signed")
    document = json.loads(tark("verify-sig", path, "--key", keys[1], "--json").out)
    assert (document["verdict"], document["exit"]) == ("not what was signed", 1)
    assert document["findings"][0]["rule"] == "signature-differs"


def test_a_forged_statement_is_not_repeated_as_if_it_were_true(tark, keys, zt):
    tark("sign", zt, "--key", keys[0])
    signature = zt.with_name("model.zt.sig.json")
    signature.write_text(signature.read_text().replace('"model.zt"', '"other.zt"'))
    ran = tark("verify-sig", zt, "--key", keys[1])
    assert ran.code == 1
    assert ran.out.splitlines()[0] == f"{zt}: invalid signature"
    assert "other.zt" not in ran.out
    assert "not to be believed" in ran.out


def test_a_passphrase_comes_from_the_environment(tark, zt, tmp_path, monkeypatch):
    key = tmp_path / "e.pem"
    monkeypatch.setenv("TARK_PASSPHRASE", "correct horse")
    assert tark("keygen", key, "--passphrase").code == 0
    assert "ENCRYPTED" in key.read_text()
    assert tark("sign", zt, "--key", key).code == 0
    monkeypatch.setenv("TARK_PASSPHRASE", "wrong")
    assert tark("sign", zt, "--key", key, "--force").code == 2
    monkeypatch.delenv("TARK_PASSPHRASE")
    ran = tark("sign", zt, "--key", key, "--force")
    assert (ran.code, "[passphrase" in ran.err) == (2, True)
    assert tark("verify-sig", zt, "--key", f"{key}.pub").code == 0


def test_a_renamed_file_and_another_key_are_told(tark, keys, zt, tmp_path):
    tark("sign", zt, "--key", keys[0])
    signature = f"{zt}.sig.json"
    other = zt.rename(zt.with_name("n.zt"))
    check = ["verify-sig", other, "--key", keys[1], "--signature", signature]
    assert tark(*check).out.splitlines()[0] == f"{other}: renamed"
    assert tark(*check, "--any-name").code == 0
    tark("keygen", tmp_path / "o.pem")
    ran = tark("verify-sig", other, "--key", tmp_path / "o.pem.pub", "--signature", signature)
    assert (ran.code, ran.out.splitlines()[0]) == (1, f"{other}: signed by another key")


def test_digests_that_were_taken_as_given_are_told(tark, keys, zt, tmp_path):
    root = tmp_path / "split.zt"
    assert tark("split", zt, root, "--max-size", "5KB", "--align", "4096").code == 0
    assert tark("sign", root, "--key", keys[0]).code == 0
    ran = tark("verify-sig", root, "--key", keys[1], "--trust-digests")
    assert ran.code == 0
    assert "taken as given, not computed" in ran.out
    assert "taken as given" not in tark("verify-sig", root, "--key", keys[1]).out


def test_what_cannot_be_signed_is_refused(tark, keys, zt, tmp_path):
    root = tmp_path / "weak.zt"
    tark("split", zt, root, "--max-size", "5KB", "--align", "4096", "--digest", "xxh3")
    ran = tark("sign", root, "--key", keys[0], "--over", "root")
    assert (ran.code, "[weak-digest §6.5" in ran.err) == (4, True)
    assert tark("sign", zt, "--key", keys[1]).code == 3
    assert tark("sign", zt).code == 2
    assert tark("sign", zt, "--key", keys[0], "--openssf", "--over", "file").code == 2
    assert tark("sign", zt, "--key", keys[0], "--openssf").code == 4


def test_a_bundle_is_made_and_verified(tark, st, tmp_path):
    key = tmp_path / "ec.pem"
    assert tark("keygen", key, "--openssf").code == 0
    ran = tark("sign", st, "--key", key, "--openssf")
    assert (ran.code, ran.out) == (0, f"{st}.sigstore.json: an OpenSSF bundle over 1 file\n")
    ran = tark("verify-sig", st, "--key", f"{key}.pub", "--openssf")
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"{st}: authentic")
    flip(st, 9)
    ran = tark("verify-sig", st, "--key", f"{key}.pub", "--openssf")
    assert (ran.code, ran.out.splitlines()[0]) == (1, f"{st}: not what was signed")
