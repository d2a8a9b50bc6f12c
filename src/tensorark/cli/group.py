"""The verbs of `tark`, in the order of its help, each in a module of its own.

A verb is a line in `VERBS` and a module ``cli/<verb>.py`` (``-`` becomes ``_``) that exports
`command`, made by `tensorark.cli.verb.verb`. It is imported when it is used; its line of help
stands here as well, so that ``tark --help`` imports none (a test compares the two).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

from tensorark.cli.options import EVERYWHERE

VERBS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Look": {
            "ls": "List the tensors of a model.",
            "show": "Describe a file, or one tensor in full.",
            "tree": "Show the names as a tree, with repeated layers folded.",
            "bindings": "Show where each logical parameter of a .ninfer lies.",
            "resources": "List, extract or replace the resources of a .ninfer.",
            "cat": "Write one tensor, or a slice of it.",
            "stat": "Compute minimum, maximum, mean and more of every tensor.",
            "sparsity": "Count zeros and mask bits; reads every weight.",
        },
        "Check": {
            "validate": "Judge files by every rule of their format.",
            "verify": "Check payload against its digests and types.",
            "seal": "Write the digests of a model into a file beside it.",
            "keygen": "Make a pair of keys to sign models with.",
            "sign": "Sign a model with a private key, beside it.",
            "verify-sig": "Check that a model is what a trusted key signed.",
            "id": "Print the content digest: the name of a model's content.",
            "diff": "Compare two models, whatever their formats.",
            "doctor": "Explain a file that does not open; list the generations of a .zt.",
        },
        "Change": {
            "convert": "Convert a model into another format, verbatim.",
            "pack": "Quantize a checkpoint into a .ninfer, by a recipe.",
            "unpack": "Write the weights of a .ninfer as safetensors.",
            "split": "Split a model into a root .zt and shards.",
            "merge": "Merge a model that is split into one .zt.",
            "overlay": "Write a .zt that takes tensors from a base and stores only what differs.",
            "append": "Append the tensors of another model to a .zt.",
            "meta": "Show or edit attributes of a file, or of one tensor.",
            "repack": "Write a .zt anew in canonical form.",
            "prune": "Prune a model: N of each M weights along the rows stay, the largest ones.",
            "mend": "Write a Tensorbit model anew: its index made right, tensors chosen, renamed.",
        },
        "Help": {
            "formats": "List the formats that are read and written.",
            "explain": "Explain a rule or an error code.",
            "completion": "Print the completion script of a shell.",
        },
    }
)


class _Verbs(click.Group):
    """A group that imports a verb when it is asked for it."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names of all verbs, in the order of the help."""
        return [name for section in VERBS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb `cmd_name`; None when there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found = import_module(f"tensorark.cli.{cmd_name.replace('-', '_')}").command
        if not isinstance(found, click.Command):
            raise TypeError(f"`command` of the verb {cmd_name} is no command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; one that does not exist is refused with those that look like it."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], known, 3)
            question = f": did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"there is no verb {args[0]!r}{question}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by section, without importing any."""
        for title, section in VERBS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()), col_max=12)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        from tensorark import __version__

        click.echo(f"tark {__version__}")
        ctx.exit()


TARK: Final = _Verbs(
    "tark",
    help=(
        "Read, explain, check and convert the files that carry tensors. A path names a file, the "
        "index of a shard set, or a folder."
    ),
    epilog="`tark VERB --help` ends with examples and exit codes.",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        *EVERYWHERE,
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Print the version.",
        ),
    ],
)
