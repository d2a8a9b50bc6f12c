"""`tark cat`: one tensor, or a slice of it, as an array file, bytes or text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.output import destination
from tensorark.cli.terminal import Terminal, is_terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.model import Encoded, Part, Raw
from tensorark.errors import InvalidInput, NotFound
from tensorark.files import File

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array


@verb(
    "cat",
    examples=[
        ("tark cat model.zt lm_head.weight -o lm_head.npy", "A whole tensor for numpy."),
        ("tark cat model.zt embed.weight --slice '0,:5' --as text", "Five numbers to look at."),
    ],
)
@parameters.path
@click.argument("name")
@parameters.output("A file instead of standard output.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["npy", "raw", "stored", "text"]),
    default="npy",
    show_default=True,
    help="An array file of numpy; decoded bytes; bytes as stored; numbers.",
)
@click.option("--slice", "index", metavar="INDEX", help="Numpy's basic indexing: '0,:5', '::2'.")
@click.option("--part", "role", metavar="ROLE", help="Bytes of this part, for raw and stored.")
@parameters.force
@leniency.opening
def command(
    path: str,
    name: str,
    *,
    output: str | None,
    form: str,
    index: str | None,
    role: str | None,
    overwrite: bool,
    **opening: Any,
) -> None:
    """Write one tensor, or a slice of it.

    Types that numpy lacks (bf16, fp8, fp4) become raw elements of their width in an array file, as
    ml_dtypes has it, and a note says so. A slice reads little more than it needs.
    """
    out = terminal()
    if out.json:
        raise click.UsageError("cat writes a tensor, not a document: see `tark show --decode`")
    if (role or form == "stored") and (index or form in {"npy", "text"}):
        raise click.UsageError("--part and `--as stored` go with whole parts: --as raw or stored")
    steps = None if index is None else parse_index(index)
    if output is None and form != "text" and is_terminal(sys.stdout):
        raise click.UsageError("bytes are not for a terminal: use -o, a pipe, or --as text")
    with leniency.open_model(path, **opening) as file:
        chunks = _chunks(out, file, name, form, steps, role)
        with destination(output, overwrite=overwrite) as write:
            for chunk in chunks:
                write(chunk)


def parse_index(text: str) -> tuple[Any, ...]:
    """Return what `text` means inside square brackets: integers, slices and ``...``.

    Raises:
        InvalidInput: when it is nothing of that kind (code ``slice``).
    """
    steps: list[Any] = []
    for word in text.strip().strip("[]").split(","):
        match = re.fullmatch(
            r"\s*(-?\d{1,18})?\s*(:\s*(-?\d{1,18})?\s*(:\s*(-?\d{1,18})?)?)?\s*", word
        )
        if word.strip() == "...":
            steps.append(...)
        elif match is None or not word.strip():
            detail = "this is no index"
            raise InvalidInput(detail, code="slice", expected="such as 0,:5 or ::2", found=text)
        elif match[2] is None:
            steps.append(int(match[1]))
        else:
            steps.append(
                slice(*(None if each is None else int(each) for each in match.group(1, 3, 5)))
            )
    return tuple(steps)


def _chunks(
    out: Terminal, file: File, name: str, form: str, steps: tuple[Any, ...] | None, role: str | None
) -> Iterator[Any]:
    view = file[name]
    if form == "stored" or (form == "raw" and steps is None):
        yield from _bytes_of(file, name, role, as_stored=form == "stored")
        return
    try:
        values = view.numpy() if steps is None else view[steps]
    except IndexError as error:
        detail = f"the slice does not fit: {error}"
        raise InvalidInput(detail, code="slice", where=("objects", name)) from error
    import numpy as np

    array = np.asarray(values)
    if form == "text":
        yield from _text(array)
        return
    if form == "npy":
        if array.dtype.kind == "V":
            out.note(f"note: numpy has no {view.dtype}; load it and view it as ml_dtypes' type")
        yield _header(array)
    from tensorark.layouts.numbers.dtypes import encode

    if form == "npy" and view.dtype == "f4_e2m1":
        yield array.tobytes()  # one byte an element, as numpy indexes it
        return
    yield from encode(array)


def _bytes_of(file: File, name: str, role: str | None, *, as_stored: bool) -> Iterable[Any]:
    parts = file.catalog.tensors[name].parts
    if role is None and len(parts) > 1:
        expected = "one of " + " ".join(parts)
        raise InvalidInput(
            "the tensor has several parts", code="part", expected=f"--part {expected}"
        )
    chosen = role or next(iter(parts))
    if chosen not in parts:
        expected = "one of " + " ".join(parts)
        raise NotFound("no such part", where=("objects", name), expected=expected, found=chosen)
    part = parts[chosen]
    if as_stored and isinstance(part.blob, Encoded):
        part = Part(Raw(part.blob.spans), part.dtype, part.type)
    return file.chunks(part, ("objects", name, "parts", chosen))


def _header(array: Array) -> bytes:
    """Return the header of an array file for `array` in row-major order."""
    import io

    from numpy.lib import format as npy

    head = io.BytesIO()
    facts = {
        "descr": npy.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    npy.write_array_header_1_0(head, facts)
    return head.getvalue()


def _text(array: Array) -> Iterator[bytes]:
    """Yield one line for each row of the last axis."""
    if not array.size:
        return
    for row in array.reshape(-1, array.shape[-1] if array.ndim else 1):
        yield (" ".join(str(each) for each in row.tolist()) + "\n").encode()
