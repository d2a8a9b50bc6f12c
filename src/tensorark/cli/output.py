"""Standard output that cannot be written, told apart from whatever else the system refuses.

Whatever writes there does it inside of `output`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
