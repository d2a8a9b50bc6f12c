"""`tark sign`: a detached signature over a model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from tensorark import files
from tensorark.cli import parameters
from tensorark.cli.passphrase import passphrase_of
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.files.folder import entry_of
from tensorark.integrity.sign import sign, signature_path
from tensorark.integrity.signature_document import COVERS, KINDS, OMITS, Kind, Statement
from tensorark.integrity.trust import read_sums
from tensorark.report.text import count_text

MEANINGS: Final = {
    "file": "every byte of",
    "root": "the root and every byte of its shards",
    "content": "the content of",
}


@verb(
    "sign",
    examples=[
        ("tark sign model.zt --key signer.pem", "Write model.zt.sig.json."),
        ("tark sign model.zt --key ec.pem --openssf", "Write an OpenSSF bundle instead."),
    ],
    exits={
        0: "signed",
        2: "wrong usage, the model cannot be signed in this way, or the target exists",
        3: "malformed, or payload does not match its digests: nothing was signed",
        4: "a shard digest is not cryptographic, or the key is of another kind",
    },
)
@parameters.path
@click.option("--key", type=click.Path(), required=True, metavar="KEY", help="The private key.")
@click.option("--over", type=click.Choice(KINDS), help="What is signed (default: see below).")
@parameters.output("Where to write it, instead of beside the model.")
@parameters.force
@parameters.digests
@click.option("--openssf", is_flag=True, help="Make an OpenSSF model-signing bundle.")
@parameters.threads
def command(
    path: str,
    *,
    key: str,
    over: Kind | None,
    output: str | None,
    overwrite: bool,
    trust_digests: bool,
    digests: str | None,
    openssf: bool,
    threads: int | None,
) -> None:
    """Sign a model with a private key, beside it.

    A canonical .zt is signed as a file, a .zt whose shards have sha256 digests as a root, anything
    else by its content, which holds for the same tensors in any format, layout or number of files.
    Payload is verified first, then hashed with sha256.
    """
    out = terminal()
    secret = passphrase_of(key)
    if openssf:
        if over or trust_digests or digests:
            detail = "an OpenSSF bundle is over files, each hashed whole: --openssf stands alone"
            raise click.UsageError(detail)
        _bundle(out, path, key, output, secret, overwrite=overwrite)
        return
    with files.open(path) as file:
        opened = file.path
        total = payload_of(file)
    goal = output if output is not None else str(signature_path(opened))
    with out.progress(total, "signing") as progress:
        made = sign(
            path,
            key,
            goal,
            over=over,
            passphrase=secret,
            trust_digests=trust_digests,
            known=read_sums(digests) if digests is not None else {},
            overwrite=overwrite,
            threads=threads,
            progress=progress,
        )
    statement = made.statement
    if out.json:
        out.document("sign", {"path": path, "signature": goal, "statement": statement.as_json()})
    elif not out.quiet:
        out.line(f"{escaped(goal)}: signed {statement_text(statement, path)}")
        out.line(f"  by {statement.key}")
        for line in extent_lines(statement):
            out.line(f"  {line}")
        if trust_digests or digests:
            out.line("  some digests were taken as given: their bytes were not read")


def statement_text(statement: Statement, path: str) -> str:
    """Say what a statement is about, for a person."""
    about = f"{MEANINGS[statement.kind]} {escaped(path)}"
    if statement.kind == "content":
        return (
            f"{about} ({count_text(len(statement.tensors), 'tensor')}): sha256:{statement.content}"
        )
    if statement.kind == "root":
        return f"{MEANINGS['root']}: {escaped(path)} ({count_text(len(statement.shards), 'shard')})"
    return f"{about} ({count_text(len(statement.files), 'file')})"


def extent_lines(statement: Statement) -> list[str]:
    """Say what a statement covers and what it leaves open."""
    named = f": {', '.join(map(escaped, statement.uncovered))}" if statement.uncovered else ""
    return [f"covers {COVERS[statement.kind]}", f"not {OMITS[statement.kind]}{named}"]


def _bundle(
    out: Terminal, path: str, key: str, target: str | None, secret: str | None, *, overwrite: bool
) -> None:
    from tensorark.integrity.openssf import bundle_path, sign_bundle

    if target is None:
        target = str(bundle_path(entry_of(path) if Path(path).is_dir() else path))
    names = sign_bundle(path, key, target, passphrase=secret, overwrite=overwrite)
    if out.json:
        out.document("sign", {"path": path, "bundle": target, "files": list(names)})
    elif not out.quiet:
        out.line(f"{escaped(target)}: an OpenSSF bundle over {count_text(len(names), 'file')}")
