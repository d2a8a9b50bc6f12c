"""Ed25519 keys (RFC 8032) in PEM files: made, read, named. The arithmetic is `cryptography`'s.

Owns what a key file may be and the id by which a signature names its key. Must never write a
private key where others could read it, nor over a file that exists, nor show one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tensorark.errors import Hint, InvalidInput, Rejected, Unsupported, printable
from tensorark.files import PathLike
from tensorark.io.open_file import read_bytes
from tensorark.io.publish import StagedFile, sync_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

Kind = Literal["ed25519", "p256"]
"""Ed25519 is what we sign with; P-256 is what OpenSSF bundles take."""

PUBLIC_SUFFIX: Final = ".pub"
_LARGEST: Final = 64 << 10
_PRIVATE: Final = b"PRIVATE KEY-----"
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_log = logging.getLogger("tensorark")


def make_key(
    path: PathLike,
    public: PathLike | None = None,
    *,
    passphrase: str | None = None,
    kind: Kind = "ed25519",
) -> str:
    """Write a new private key to `path` and its public key to `public`; return the key's id.

    The private key is PEM (PKCS#8), encrypted under `passphrase` if one is given, and readable by
    its owner alone; the public key, by default ``<path>.pub``, is PEM (SubjectPublicKeyInfo).

    Raises:
        InvalidInput: when either file exists; none is ever replaced.
        ReadFailed: when the system refuses; none of the two is there then, unless the code is
            ``not-durable``.
        Unsupported: when `cryptography` is not installed.
    """
    _require()
    from cryptography.hazmat.primitives import serialization

    if passphrase == "":
        raise InvalidInput("the passphrase is empty", code="passphrase")
    secret: Ed25519PrivateKey | EllipticCurvePrivateKey
    if kind == "ed25519":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        secret = Ed25519PrivateKey.generate()
    else:
        from cryptography.hazmat.primitives.asymmetric import ec

        secret = ec.generate_private_key(ec.SECP256R1())
    protection = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase.encode())
    )
    text = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
    )
    target = Path(path)
    shown = Path(public) if public is not None else target.with_name(target.name + PUBLIC_SUFFIX)
    if shown.absolute() == target.absolute():
        raise _exists(shown)
    try:
        _write_pair((target, text), (shown, public_pem(secret.public_key())))
    except InvalidInput as error:
        if error.code != "exists":
            raise
        raise _exists(Path(error.path or "")) from error
    return key_id(secret.public_key())


def read_private(path: PathLike, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Read an Ed25519 private key in PEM.

    Raises:
        InvalidInput: when it needs a passphrase, or another one (code ``passphrase``).
        Rejected: when the file is no private key.
        Unsupported: when the key is of another kind, or `cryptography` is not installed.
    """
    _require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = read_bytes(path, _LARGEST)
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        name = printable(os.fspath(path))
        _log.warning("the private key %s can be read by others than its owner", name)
    secret = None if passphrase is None else passphrase.encode()
    found = _load(path, lambda: load_pem_private_key(data, secret))
    if not isinstance(found, Ed25519PrivateKey):
        raise _other_kind(path)
    return found


def read_public(path: PathLike, passphrase: str | None = None) -> Ed25519PublicKey:
    """Read an Ed25519 public key in PEM, or that of a private key.

    Raises:
        Rejected: when the file is no key.
        Unsupported: when the key is of another kind, or `cryptography` is not installed.
    """
    _require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = read_bytes(path, _LARGEST)
    if _PRIVATE in data:
        return read_private(path, passphrase).public_key()
    found = _load(path, lambda: load_pem_public_key(data))
    if not isinstance(found, Ed25519PublicKey):
        raise _other_kind(path)
    require_strong(found, path)
    return found


_FIELD: Final = 2**255 - 19
_EIGHTH: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL: Final = frozenset({0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH})
"""The y of the eight points whose order divides 8: two have each of them but 1 and -1."""


def require_strong(public: Ed25519PublicKey, path: PathLike) -> None:
    """Refuse a key under which signatures verify that nobody made, and one spelled in another way.

    Raises:
        Rejected: when the point is of small order, or its y not below the prime (RFC 8032, 5.1.3).
    """
    y = int.from_bytes(public.public_bytes_raw(), "little") & (1 << 255) - 1
    if y >= _FIELD or y in _SMALL:
        raise Rejected(
            "the key is one that anybody can sign for"
            if y % _FIELD in _SMALL
            else "the key has a spelling that is not canonical",
            code="weak-key",
            path=os.fspath(path),
            expected="a point of large order, canonically encoded",
        )


def require_elliptic(path: PathLike, passphrase: str | None = None) -> None:
    """Check that `path` holds an ECDSA key, private or public, on one of the curves of NIST.

    Raises:
        Unsupported: when it is of another kind.
        Rejected: when it is no key.
    """
    _require()
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )

    data = read_bytes(path, _LARGEST)
    secret = None if passphrase is None else passphrase.encode()
    found = _load(
        path,
        lambda: (
            load_pem_private_key(data, secret) if _PRIVATE in data else load_pem_public_key(data)
        ),
    )
    curves = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
    if isinstance(found, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) and isinstance(
        found.curve, curves
    ):
        return
    raise _other_kind(path, "an ECDSA key, such as one of P-256", _MAKE_P256)


def needs_passphrase(path: PathLike) -> bool:
    """Tell whether the key at `path` is encrypted."""
    data = read_bytes(path, _LARGEST)
    return any(each in data for each in _ENCRYPTED)


def key_id(public: PublicKeyTypes) -> str:
    """Return the id of a key: its kind and the sha256 of its SubjectPublicKeyInfo in DER."""
    _require()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    kind = "ed25519" if isinstance(public, Ed25519PublicKey) else "p256"
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return f"{kind}:{hashlib.sha256(der).hexdigest()}"


def public_pem(public: PublicKeyTypes) -> bytes:
    """Return a public key as PEM."""
    _require()
    from cryptography.hazmat.primitives import serialization

    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _require() -> None:
    try:
        import cryptography  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise Unsupported(
            "signatures need the package cryptography, which is not installed",
            code="no-cryptography",
            hint="pip install 'tensorark[sign]'",
        ) from error


def _load(path: PathLike, load: Callable[[], object]) -> object:
    """Return what `load` makes of the key file at `path`; what it raises becomes an error of ours.

    A wrong passphrase and a key that is no key are told apart as far as the library does.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except TypeError as error:
        raise InvalidInput(
            "the key is encrypted, and no passphrase was given"
            if "not given" in str(error)
            else "a passphrase was given, and the key is not encrypted",
            code="passphrase",
            path=os.fspath(path),
        ) from error
    except UnsupportedAlgorithm as error:
        raise _other_kind(path) from error
    except ValueError as error:
        if needs_passphrase(path):
            raise InvalidInput(
                "the passphrase is wrong, or the key is damaged",
                code="passphrase",
                path=os.fspath(path),
            ) from error
        raise Rejected("this is no key in PEM", code="key", path=os.fspath(path)) from error


_MAKE: Final = Hint("make_key() makes one", tark="`tark keygen` makes one")
_MAKE_P256: Final = Hint("make_key(kind='p256') does", tark="`tark keygen --openssf` makes one")


def _other_kind(
    path: PathLike, expected: str = "an Ed25519 key", hint: Hint = _MAKE
) -> Unsupported:
    return Unsupported(
        "the key is of another kind",
        code="key-kind",
        path=os.fspath(path),
        expected=expected,
        hint=hint,
    )


def _write_pair(private: tuple[Path, bytes], public: tuple[Path, bytes]) -> None:
    """Let two new files appear: one for its owner alone, and one for everybody, or none of them."""
    with ExitStack() as dropping:
        staged = []
        for (path, text), mode in ((private, 0o600), (public, 0o666)):
            staged.append(StagedFile(path, overwrite=False, direct=False, mode=mode))
            dropping.callback(staged[-1].drop)
            staged[-1].sink.write(text)
            staged[-1].sink.sync()
        secret, shown = staged
        try:
            secret.reveal()
            shown.reveal()
        except BaseException:
            if secret.is_revealed() and not shown.is_revealed():
                with suppress(OSError):  # made a moment ago, and nobody has its public half
                    secret.target.unlink()
            raise
    for file in staged:
        sync_name(file.target)


def _exists(path: Path) -> InvalidInput:
    return InvalidInput(
        "the file exists, and keys are never replaced", code="exists", path=str(path)
    )
