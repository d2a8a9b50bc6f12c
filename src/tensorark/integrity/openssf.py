"""OpenSSF model-signing bundles, made and verified by the package `model-signing` where it is.

Owns which files a bundle is about and that no name in it leads out of the folder of the model. The
format, the signature and the hashing are that package's; nothing here reaches the network.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.rules import Finding, difference
from tensorark.errors import (
    Error,
    InvalidInput,
    ReadFailed,
    Rejected,
    Unsupported,
    printable,
    quoted,
)
from tensorark.files import PathLike
from tensorark.files.folder import entry_of
from tensorark.integrity.comparison import compare, hash_file, verdict_of
from tensorark.integrity.json_documents import Fields, read_object
from tensorark.integrity.keys import require_elliptic
from tensorark.integrity.signature_document import Signed
from tensorark.io.inputs import operation
from tensorark.io.open_file import read_bytes
from tensorark.io.publish import publish
from tensorark.io.safe_names import below

SUFFIX: Final = ".sigstore.json"

_BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD: Final = "application/vnd.in-toto+json"
_PREDICATE: Final = "https://model_signing/signature/v1.0"
_log = logging.getLogger("tensorark")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCheck:
    """What verifying a bundle has shown: the files that it is about, and why it does not hold."""

    __repr__ = brief

    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the signature is valid and covers every file of the model as it is."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """``authentic``, or one of `tensorark.integrity.comparison.VERDICTS`."""
        return verdict_of(self.findings)


def bundle_path(path: PathLike) -> Path:
    """Return where the bundle of the model at `path` is looked for."""
    return Path(path).with_name(Path(path).name + SUFFIX)


@operation()
def sign_bundle(
    path: PathLike,
    key: PathLike,
    target: PathLike | None = None,
    *,
    passphrase: str | None = None,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Sign the files of the model at `path` into a bundle; return their names.

    The bundle is about the folder: the files of the model with their sha256, and, as ignored, the
    names of what else lies there. `key` is an ECDSA key in PEM (`make_key` with kind ``p256``).

    Raises:
        Unsupported: when `model-signing` is not installed, or the key is of another kind.
        InvalidInput: when the target exists and `overwrite` is false.
        ReadFailed: when a file is missing, or is a link out of its folder.
    """
    signing = _package().signing
    require_elliptic(key, passphrase)
    with files.open(path) as file:
        goal = Path(target) if target is not None else bundle_path(file.path)
        paths = [each.absolute() for each in file.paths()]
        missing = file.missing()
    for label in missing:
        detail = "a model that lacks a shard is not signed"
        raise ReadFailed(detail, code="missing-shard", path=os.fspath(path), where=(label,))
    home = paths[0].parent
    names = [_below(home, each) for each in paths]
    hashing = _package().hashing.Config().use_file_serialization(allow_symlinks=True)
    hashing.set_allow_symlinks(True).set_ignored_paths(paths=[*_others(home, paths), goal.name])
    config = signing.Config().set_hashing_config(hashing)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "bundle"
        secret = None if passphrase is None else passphrase.encode()
        config.use_elliptic_key_signer(private_key=Path(key), password=secret)
        config.sign(home, made)
        data = made.read_bytes()
    with publish(goal, overwrite=overwrite) as sink:
        sink.write(data)
    return tuple(names)


def _below(home: Path, path: Path) -> str:
    """Return the name of a file of the model relative to its folder, all links judged."""
    if not path.is_relative_to(home):
        detail = "a file of this model lies outside of its folder"
        raise InvalidInput(detail, code="name", path=str(path))
    name = path.relative_to(home).as_posix()
    below(home, name)
    return name


def _others(home: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Yield what lies in a folder and is not of the model, folders as a whole where possible."""
    kept = {each for path in paths for each in (path, *path.parents)}
    for folder in (home, *sorted(each for each in kept if home in each.parents and each.is_dir())):
        for entry in sorted(folder.iterdir()):
            if entry not in kept:
                yield entry.relative_to(home).as_posix()


def verify_bundle(path: PathLike, key: PathLike, bundle: PathLike | None = None) -> BundleCheck:
    """Verify a bundle against the public `key` and the files in the folder of the model at `path`.

    Files that the bundle does not list are no concern of it, but those of the model all have to be
    listed. Every name is judged before anything is read under it.

    Raises:
        Rejected: when the file is no such bundle, or names a file outside of the folder.
        Unsupported: when `model-signing` is not installed, or the bundle is of a kind not read.
    """
    _package()
    require_elliptic(key)
    main = Path(entry_of(path)) if Path(path).is_dir() else Path(path)
    if not main.exists():
        raise ReadFailed("no such file", code="missing-file", path=os.fspath(main))
    source = bundle_path(main) if bundle is None else Path(bundle)
    data = read_bytes(source)
    resources = _resources(data, os.fspath(source))
    names = tuple(each.name for each in resources)
    refusal = _judge_signature(data, key, os.fspath(source))
    if refusal is not None:
        return BundleCheck(files=names, findings=(refusal,))
    home = main.absolute().parent
    paths = [below(home, each.name) for each in resources]
    found = [hash_file(each, name) for each, name in zip(paths, names, strict=True)]
    unsized = [each and replace(each, size=0) for each in found]
    findings = list(compare(resources, unsized, "files"))
    return BundleCheck(files=names, findings=(*findings, *_find_uncovered(main, names)))


def _judge_signature(data: bytes, key: PathLike, path: str) -> Finding | None:
    """Let the package judge the signature alone: about an empty folder, where no file is read.

    What was judged is exactly `data`. A valid signature is then told by the complaint that every
    file is missing, which the package makes only after it has found the signature valid.
    """
    from cryptography.exceptions import InvalidSignature

    config = _package().verifying.Config().use_elliptic_key_verifier(public_key=Path(key))
    said = StringIO()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty"
        empty.mkdir()
        copy = Path(folder) / "bundle"
        copy.write_bytes(data)
        try:
            with redirect_stdout(said):
                config.verify(empty, copy)
        except InvalidSignature:
            detail = "the signature is not one of this key over this payload"
            return difference("signature-invalid", ("dsseEnvelope",), detail)
        except ValueError as error:
            if str(error).startswith("Signature mismatch"):
                return None
            if str(error).startswith("Key mismatch"):
                detail = "the bundle names another key than the trusted one"
                return difference("signature-key", ("verificationMaterial",), detail)
            raise _malformed(path, error) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            raise _malformed(path, error) from error
        finally:
            if said.getvalue():
                _log.warning("%s", printable(said.getvalue().strip()))
    return None  # the bundle is about no file at all


def _resources(data: bytes, path: str) -> list[Signed]:
    """Return what a bundle lists, which nobody has vouched for yet."""
    bundle = read_object(data, path)
    bundle.text("mediaType", _BUNDLE.replace(".", r"\.").replace("+", r"\+"))
    envelope = bundle.object("dsseEnvelope")
    envelope.text("payloadType", _PAYLOAD.replace(".", r"\.").replace("+", r"\+"))
    try:
        payload = base64.b64decode(envelope.text("payload"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise envelope.wrong("the payload is no base64", "payload") from error
    # With these members alone, the package is sure to read the same payload as we do.
    envelope.take("signatures")
    envelope.end()
    bundle.take("verificationMaterial")
    bundle.end()
    statement = read_object(payload, path)
    if statement.text("predicateType") != _PREDICATE:
        raise _unsupported(path, "the bundle is of another version of model signing")
    predicate = statement.object("predicate")
    how = predicate.object("serialization")
    if (how.text("method"), how.text("hash_type")) != ("files", "sha256"):
        raise _unsupported(path, "the bundle hashes files in another way than whole, by sha256")
    return [_resource(each) for each in predicate.objects("resources")]


def _resource(fields: Fields) -> Signed:
    fields.text("algorithm", "sha256")
    digest = fields.text("digest", "[0-9a-f]{64}")
    return Signed(name=fields.text("name", r"(?s).+"), size=0, sha256=digest)


def _find_uncovered(main: Path, names: Sequence[str]) -> Iterator[Finding]:
    """Yield the files of the model that a bundle does not cover; those that lack are told above."""
    home = main.absolute().parent
    try:
        with files.open(main) as file:
            paths = [each.absolute() for each in file.paths()]
    except Error:  # damaged, which the digests say already; the opened file has to be listed anyway
        paths = [main.absolute()]
    for path in paths:
        name = path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)
        if name not in names:
            detail = f"{quoted(name)} is of this model, and the bundle does not cover it"
            yield difference("signature-differs", ("files", name), detail)


def _malformed(path: str, error: Exception) -> Rejected:
    return Rejected(f"the bundle is malformed: {error}", code="document", path=path)


def _unsupported(path: str, detail: str) -> Unsupported:
    return Unsupported(detail, code="bundle", path=path, hint="the command of model-signing may")


def _package() -> Any:
    """Return the package; it comes without types that could be relied on where it is missing."""
    try:
        import model_signing
    except ImportError as error:
        raise Unsupported(
            f"OpenSSF bundles need the package model-signing, which cannot be loaded: {error}",
            code="no-model-signing",
            hint="pip install 'tensorark[openssf]'",
        ) from error
    return model_signing
