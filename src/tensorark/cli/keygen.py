"""`tark keygen`: a pair of keys to sign models with."""

from __future__ import annotations

import os

import click

from tensorark.cli import parameters
from tensorark.cli.passphrase import passphrase
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.integrity.keys import PUBLIC_SUFFIX, make_key


@verb(
    "keygen",
    examples=[
        ("tark keygen signer.pem", "Write signer.pem, which is secret, and signer.pem.pub."),
        ("tark keygen signer.pem --passphrase", "Encrypt it; $TARK_PASSPHRASE, or asked for."),
    ],
    exits={0: "written", 2: "wrong usage, or a file exists: keys are never replaced"},
)
@parameters.target("path")
@click.option(
    "--public", type=parameters.OUTPUT, metavar="PATH", help="The public key's file (PATH.pub)."
)
@click.option("--passphrase", "encrypted", is_flag=True, help="Encrypt the private key.")
@click.option("--openssf", is_flag=True, help="Make an ECDSA P-256 key, as OpenSSF bundles take.")
def command(path: str, *, public: str | None, encrypted: bool, openssf: bool) -> None:
    """Make a pair of keys to sign models with.

    An Ed25519 private key in PEM (PKCS#8), readable by its owner alone, and its public key, which
    is what others verify signatures with. Prints the id by which signatures name the key: the
    sha256 of the public key in DER.
    """
    out = terminal()
    made = make_key(
        path,
        public,
        passphrase=passphrase(path, twice=True) if encrypted else None,
        kind="p256" if openssf else "ed25519",
    )
    shown = public if public is not None else os.fspath(path) + PUBLIC_SUFFIX
    if out.json:
        out.document("keygen", {"private": path, "public": shown, "id": made})
    elif out.quiet:
        out.line(made)
    else:
        out.line(f"{escaped(path)}: private key {made}")
        out.line(f"{escaped(shown)}: its public key")
