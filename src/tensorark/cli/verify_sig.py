"""`tark verify-sig`: whether a model is what a trusted key signed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tensorark.cli import parameters
from tensorark.cli.passphrase import passphrase_of
from tensorark.cli.sign import extent_lines, statement_text
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.rules import Finding
from tensorark.errors import escaped
from tensorark.integrity.trust import read_sums
from tensorark.integrity.verify_signature import verify_signature
from tensorark.report.report import finding
from tensorark.report.text import count_text, finding_text


@verb(
    "verify-sig",
    maps=True,
    examples=[
        ("tark verify-sig model.zt --key signer.pem.pub", "Against model.zt.sig.json."),
        ("tark verify-sig model/ --key ec.pem.pub --openssf", "Against an OpenSSF bundle."),
    ],
    exits={
        0: "authentic",
        1: "not authentic: the signature, the key, a name or the bytes are others, or some missing",
    },
)
@parameters.path
@click.option(
    "--key",
    "public",
    type=click.Path(),
    required=True,
    metavar="KEY",
    help="The key that is trusted: the public one, or its private key.",
)
@click.option("--signature", type=click.Path(), metavar="PATH", help="The signature's file.")
@click.option("--any-name", is_flag=True, help="Let the file have another name than it had.")
@parameters.digests
@click.option("--openssf", is_flag=True, help="Verify an OpenSSF model-signing bundle.")
@parameters.threads
def command(
    path: str,
    *,
    public: str,
    signature: str | None,
    any_name: bool,
    trust_digests: bool,
    digests: str | None,
    openssf: bool,
    threads: int | None,
) -> int:
    """Check that a model is what a trusted key signed.

    The signature is judged first, then everything that it is about is computed anew. Says what
    differs: the signature, the key, a name, a file, a shard or a tensor.
    """
    out = terminal()
    if openssf:
        if any_name or trust_digests or digests:
            raise click.UsageError("an OpenSSF bundle is over files by name, each hashed whole")
        return _bundle(out, path, public, signature)
    with out.progress(0, "verifying") as progress:
        found = verify_signature(
            path,
            public,
            signature,
            passphrase=passphrase_of(public),
            any_name=any_name,
            trust_digests=trust_digests,
            known=read_sums(digests) if digests is not None else {},
            threads=threads,
            progress=progress,
        )
    statement = found.statement
    value = {"checked": found.checked, "taken": found.taken, "statement": statement.as_json()}
    if found.findings and found.findings[0].rule in {"signature-key", "signature-invalid"}:
        lines = ["  nothing of the model was read: the statement is not to be believed"]
    else:
        lines = [f"  signed: {statement_text(statement, path)}", f"  by: {statement.key}"]
        if found.taken:
            lines.append(f"  {count_text(found.taken, 'digest')} taken as given, not computed")
        lines += [f"  {line}" for line in extent_lines(statement)]
    return _show(out, path, found.verdict, found.findings, value, lines)


def _bundle(out: Terminal, path: str, public: str, bundle: str | None) -> int:
    from tensorark.integrity.openssf import verify_bundle

    found = verify_bundle(path, public, bundle)
    lines = [f"  an OpenSSF bundle over {count_text(len(found.files), 'file')}"]
    return _show(out, path, found.verdict, found.findings, {"files": list(found.files)}, lines)


def _show(
    out: Terminal,
    path: str,
    verdict: str,
    findings: Sequence[Finding],
    value: dict[str, Any],
    lines: Sequence[str],
) -> int:
    shown = [finding(each) for each in findings]
    code = 1 if findings else 0
    if out.json:
        out.document(
            "verify-sig",
            {"path": path, "verdict": verdict, "findings": shown, "exit": code, **value},
        )
        return code
    if code or not out.quiet:
        out.line(f"{escaped(path)}: {out.paint(verdict, 'red' if code else 'green')}")
    for each in shown:
        out.line("  " + finding_text(each))
    if not out.quiet:
        for line in lines:
            out.line(line)
    return code
