"""`tark meta`: attributes of a file or a tensor, shown and edited."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from tensorark.cli import dropping
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import near
from tensorark.edit.metadata import Edit, edit_metadata, metadata_of
from tensorark.errors import NotFound, escaped
from tensorark.report.plain import plain
from tensorark.report.text import nbytes_text, value_text


@verb(
    "meta",
    examples=[
        ("tark meta set model.zt epoch 3", "Set an attribute of the file to a number."),
        ("tark meta rm model.safetensors author", "Take one away."),
    ],
    exits={0: "shown, or changed", 2: "wrong usage, or no such tensor or attribute"},
)
@click.argument("action", type=click.Choice(["get", "set", "rm"]))
@click.argument("path", type=click.Path())
@click.argument("words", nargs=-1, metavar="[KEY [VALUE]]")
@click.option("--tensor", metavar="NAME", help="Attributes of this tensor, not of the file.")
@click.option("--text", is_flag=True, help="Take VALUE as text, even if it is JSON.")
@click.option("--repack", is_flag=True, help="Write a .zt anew, canonical, instead of appending.")
@dropping.drop
def command(
    action: str,
    path: str,
    words: tuple[str, ...],
    *,
    tensor: str | None,
    text: bool,
    repack: bool,
    drop: tuple[str, ...],
) -> None:
    """Show or edit attributes of a file, or of one tensor.

    get prints all of them or the value of one KEY, set takes a KEY and a VALUE, rm one or more
    KEYs. VALUE is JSON where it can be, such as 3, true or [1, 2], else text. A .zt gets a new
    generation, which costs its manifest; safetensors is written anew and replaced at once.
    """
    out = terminal()
    if action == "get":
        _get(out, path, tensor, words)
        return
    if action == "set" and len(words) != 2:
        raise click.UsageError("set takes a KEY and a VALUE")
    if action == "rm" and not words:
        raise click.UsageError("rm takes at least one KEY")
    values = {words[0]: words[1] if text else _value(words[1])} if action == "set" else {}
    removed: Sequence[str] = words if action == "rm" else ()
    done = edit_metadata(path, values, remove=removed, tensor=tensor, repack=repack, drop=drop)
    _show(out, done)


def _value(word: str) -> Any:
    """Return the JSON value that a word is, or the word."""
    try:
        return json.loads(word, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return word


def _no_constant(word: str) -> Any:
    """Refuse NaN and Infinity, which are no JSON: they are words."""
    raise ValueError(word)


def _get(out: Terminal, path: str, tensor: str | None, words: tuple[str, ...]) -> None:
    if len(words) > 1:
        raise click.UsageError("get takes one KEY at most")
    held = metadata_of(path, tensor=tensor)
    if words and words[0] not in held:
        hint = near(words[0], held)
        raise NotFound("no such attribute", path=path, where=("attributes", words[0]), hint=hint)
    if out.json:
        out.document("meta", {"path": path, "tensor": tensor, "attributes": plain(held)})
    elif words:
        value = held[words[0]]
        out.line(escaped(value) if isinstance(value, str) else json.dumps(plain(value)))
    else:
        out.facts((escaped(key), value_text(plain(value))) for key, value in held.items())


def _show(out: Terminal, done: Edit) -> None:
    if out.json:
        value = {"path": done.path, "before": done.before, "after": done.after}
        dropped = dropping.losses(done.dropped)
        out.document("meta", {**value, "attributes": plain(done.attributes), "dropped": dropped})
    elif not out.quiet:
        dropping.tell(out, done.dropped)
        out.line(f"{escaped(done.path)}: {nbytes_text(done.before)} → {nbytes_text(done.after)}")
