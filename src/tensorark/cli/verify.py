"""`tark verify`: payload against its digests and types, rung by rung."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.models import Success, each_file, show_all
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped, printable, quoted
from tensorark.files import File
from tensorark.integrity.verify import verify
from tensorark.report.integrity import exit_code, verification_facts
from tensorark.report.report import finding
from tensorark.report.text import count_text, finding_text


@verb(
    "verify",
    maps=True,
    examples=[
        ("tark verify model.zt", "Read everything, compare every digest."),
        ("tark verify model/ --complete", "Fail, too, when a part carries no digest."),
    ],
    exits={
        0: "all that carries a digest matches, or all parts hold by the rules of a .ninfer",
        1: "a digest does not match, or payload breaks a rule of its type or layout",
        4: "nothing carries a digest, or one is of an unknown kind: nothing is proven",
        5: "a shard is missing; what is there was judged",
    },
)
@parameters.paths
@click.option("--complete", is_flag=True, help="Demand that every part carries a digest.")
@click.option("--deep", is_flag=True, help="Read shards whole, against their whole-file digests.")
@click.option(
    "--seal", type=click.Path(), metavar="SEAL", help="Compare with a seal (`tark seal`) instead."
)
@parameters.threads
@leniency.lenient
def command(
    paths: tuple[str, ...],
    *,
    complete: bool,
    deep: bool,
    seal: str | None,
    threads: int | None,
    lenient: bool,
) -> int:
    """Check payload against its digests and types.

    Says which rungs of the integrity ladder (.zt §6.1) were climbed. Where nothing carries a
    digest, as in safetensors, nothing can be verified, and that is what is said; a .ninfer is then
    judged by its rules for codes, scales and padding alone, which is "verified in part".
    """
    out = terminal()
    if seal is not None:
        if len(paths) > 1:
            raise click.UsageError("--seal is about one model")
        return _compare(out, paths[0], seal, deep=deep, threads=threads)

    def judge(file: File) -> dict[str, Any]:
        tensors = file.catalog.tensors.values() if file.describes_tensors else ()
        total = sum(tensor.nbytes for tensor in tensors)
        with out.progress(total, "verifying") as progress:
            found = verify(file, threads=threads, progress=progress, deep=deep)
        return verification_facts(file, found, complete=complete)

    return show_all("verify", each_file(paths, judge, exit_code, lenient=lenient), _show)


def _show(each: Success) -> None:
    out = terminal()
    colors = {"verified": "green", "damaged": "red"}
    verdict = each.value["verdict"]
    if not out.quiet or each.exit_code:
        text = out.paint(verdict, colors.get(verdict, "yellow"))
        out.line(f"{escaped(each.path)}: {text}")
    for found in each.value["findings"]:
        out.line("  " + finding_text(found))
    for label, names in each.value["missing"].items():
        out.line(f"  missing: {quoted(label)}, which holds {count_text(len(names), 'tensor')}")
    if out.quiet:
        return
    for refused in each.value["refused"]:
        out.line("  not judged: " + printable(refused))
    for note in each.value["notes"]:
        out.line("  note: " + finding_text(note))
    for rung in each.value["rungs"]:
        out.line(f"  {rung['rung']}: {rung['result']}")


def _compare(out: Terminal, path: str, seal: str, *, deep: bool, threads: int | None) -> int:
    from tensorark.integrity.seal_check import check_seal
    from tensorark.integrity.seal_document import read_seal

    sealed = read_seal(seal)
    total = sum(each.size for each in sealed.files) * (2 if deep else 1)
    with out.progress(total, "verifying") as progress:
        found = check_seal(path, seal, deep=deep, threads=threads, progress=progress)
    model: dict[str, Any] = {
        "verdict": "as sealed" if found.ok else "damaged",
        "parts": found.parts,
        "files": found.files,
        "nbytes": found.nbytes,
        "findings": [finding(each) for each in found.findings],
    }
    if out.json:
        out.document("verify", {"models": [{"path": path, "seal": seal, **model}]})
    elif not out.quiet or not found.ok:
        out.line(f"{escaped(path)}: {out.paint(model['verdict'], 'green' if found.ok else 'red')}")
        for each in model["findings"]:
            out.line("  " + finding_text(each))
    return 0 if found.ok else 1
