"""`tark completion`: what a shell needs to complete verbs, options and files."""

from __future__ import annotations

import click

from tensorark.cli import COMPLETE
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb


@verb(
    "completion",
    examples=[
        ('eval "$(tark completion bash)"', "For this session of bash."),
        ("tark completion fish > ~/.config/fish/completions/tark.fish", "For every one of fish."),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from tensorark.cli.group import TARK

    if terminal().json:
        raise click.UsageError("completion prints a script, not a document")
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    terminal().line(kind(TARK, {}, "tark", COMPLETE).source())
