"""`tark id`: the digest that names a model's content, or a file's bytes."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.models import Success, each_file, show_all
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.files import File
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm
from tensorark.integrity.identity import content_digest, file_digest


@verb(
    "id",
    maps=True,
    examples=[
        ("tark id model.safetensors", "The same for a .zt of the same tensors, in any layout."),
        ("tark id model.zt --file --digest sha256 -q", "What sha256sum says of the file."),
    ],
)
@parameters.paths
@click.option(
    "--digest",
    "algorithm",
    type=click.Choice(ALGORITHMS),
    default="xxh3",
    show_default=True,
    help="Algorithm of the digest.",
)
@click.option("--file", "of_file", is_flag=True, help="Digest the bytes of the opened file.")
@leniency.lenient
def command(paths: tuple[str, ...], *, algorithm: Algorithm, of_file: bool, lenient: bool) -> int:
    """Print the content digest: the name of a model's content.

    The content digest (.zt §6.4) depends on names, shapes, types, attributes and values of tensors,
    and on what a .ninfer says beside them (resources, components, bindings, uses, metadata), not on
    format, order, alignment or sharding. It is computed from the digests that a .zt carries;
    `tark verify` proves those. With --quiet nothing but digests is printed.
    """
    out = terminal()

    def digest(file: File) -> dict[str, Any]:
        if of_file:
            with out.progress(file.source.size(), "hashing") as progress:
                return {"of": "file", "digest": file_digest(file, algorithm, progress)}
        with out.progress(payload_of(file), "hashing") as progress:
            found = content_digest(file, algorithm, progress=progress)
        return {"of": "content", "digest": found}

    def show(each: Success) -> None:
        text = each.value["digest"]
        out.line(text if out.quiet else f"{text}  {escaped(each.path)}")

    return show_all("id", each_file(paths, digest, lenient=lenient), show)
