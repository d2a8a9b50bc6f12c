"""Standard output, and a file in its place; a failure to write there is told apart from others.

Whatever writes to standard output does it inside of `output`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class OutputFailed(Exception):
    """Standard output cannot be written: a full disk, perhaps."""


@contextmanager
def output() -> Iterator[None]:
    """Tell a failure to write as what it is; that the reader went away is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        detail = f"cannot write to standard output: {error.strerror or error}"
        raise OutputFailed(detail) from error


@contextmanager
def destination(path: str | None, *, overwrite: bool) -> Iterator[Callable[[Any], object]]:
    """Give what writes bytes: to standard output, or a file that appears when it is complete."""
    if path is not None:
        from tensorark.io.publish import publish

        with publish(path, overwrite=overwrite) as sink:
            yield sink.write
    else:
        yield _write


def _write(data: Any) -> None:
    if sys.stdout is not None:  # closed by whoever started us
        with output():
            sys.stdout.buffer.write(data)
