"""Where a passphrase comes from: the environment, or a person at a terminal; never an argument."""

from __future__ import annotations

import os
import sys
from typing import Final

from tensorark.cli.terminal import is_terminal
from tensorark.errors import InvalidInput

VARIABLE: Final = "TARK_PASSPHRASE"


def passphrase(path: str, *, twice: bool = False) -> str:
    """Return the passphrase for the key at `path`; asked for `twice` when it is a new one.

    Raises:
        InvalidInput: when the environment has none and nobody can be asked.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return given
    if not is_terminal(sys.stdin):
        raise InvalidInput(
            "the key needs a passphrase, and nobody can be asked for it",
            code="passphrase",
            path=path,
            hint=f"put it into the environment variable {VARIABLE}",
        )
    import click

    found: str = click.prompt("passphrase", hide_input=True, confirmation_prompt=twice, err=True)
    return found


def passphrase_of(path: str) -> str | None:
    """Return the passphrase of an existing key; None when it has none."""
    from tensorark.integrity.keys import needs_passphrase

    return passphrase(path) if needs_passphrase(path) else None
