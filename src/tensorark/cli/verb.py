"""What makes a function a verb: the options that all take, and help that ends with examples.

Owns the shape of a verb's help. The function returns its exit code, or None for 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final

import click

from tensorark.cli.error_output import say
from tensorark.cli.options import EVERYWHERE, settings

EXITS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "done",
        2: "wrong usage, or no such tensor",
        3: "malformed or truncated, or no tensor file",
        4: "understood, but not supported or refused",
        5: "a file or shard is missing, or the system refused",
        129: "ended by SIGHUP",
        130: "interrupted",
        141: "the reader of the output went away",
        143: "ended by SIGTERM",
    }
)
"""What exit codes mean to most verbs."""


RENAMED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "--algorithm": ("--digest",),
        "--architecture": ("--architecture-name",),
        "--bf16": ("--cast", "bf16"),
        "--count": ("--limit",),
        "--drop": ("--exclude",),
        "--emit": ("--output",),
        "--groups": ("--limit",),
        "--masks": ("--masking",),
        "--max-file-bytes": ("--max-size",),
        "--max-shard-size": ("--max-size",),
        "--only": ("--include",),
        "--public": ("--key",),
        "--quantised": ("--quantized",),
        "--remove": ("--exclude",),
        "--replace": ("--resource",),
        "--target": ("--output",),
    }
)
"""Words of before each option had one spelling in all verbs: understood, and answered with the new
one, by verbs that have the new option and not the old."""


class Verb(click.Command):
    """A command whose help ends with examples and exit codes."""

    def __init__(
        self,
        *,
        examples: Sequence[tuple[str, str]],
        exits: Mapping[int, str],
        maps: bool,
        **facts: Any,
    ) -> None:
        super().__init__(**facts)
        self.maps = maps
        self.examples = tuple(examples)
        self.exits = dict(sorted({**EXITS, **exits}.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a verb, old spellings of its options too."""
        known = {name for each in self.params for name in each.opts}
        words: list[str] = []
        for at, word in enumerate(args):
            if word == "--":
                words += args[at:]
                break
            old, equals, value = word.partition("=")
            new = RENAMED.get(old, ())
            if new and old not in known and new[0] in known:
                say(f"note: {old} is called {' '.join(new)}")
                words += [new[0] + equals + value, *new[1:]]
            else:
                words.append(word)
        return super().parse_args(ctx, words)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of this verb, then those of every verb."""
        everywhere = [*EVERYWHERE, self.get_help_option(ctx)]
        for title, chosen in (("Options", False), ("Options of every verb", True)):
            params = [each for each in self.get_params(ctx) if (each in everywhere) is chosen]
            rows = [
                row
                for each in params
                if isinstance(each, click.Option) and (row := each.get_help_record(ctx))
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes."""
        with formatter.section("Examples"):
            for command, purpose in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{command}\n")
                formatter.indent()
                formatter.write_text(purpose)
                formatter.dedent()
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.exits.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb as one operation; what the library logs goes to standard error."""
        from tensorark.io.inputs import operation

        logger = logging.getLogger("tensorark")
        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        handler = _Notes()
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR if settings().quiet else levels[min(settings().verbose, 2)])
        try:
            with _stored(), operation(maps=self.maps):
                return super().invoke(ctx)
        finally:
            logger.removeHandler(handler)


def _stored() -> AbstractContextManager[None]:
    """Let files that are opened look for their shards where --store says."""
    folder = settings().store
    if folder is None:
        return nullcontext()
    from tensorark.files import stored_in

    return stored_in(folder)


class _Notes(logging.Handler):
    """Writes what the library logs to standard error, as one escaped line."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def verb(
    name: str,
    *,
    examples: Sequence[tuple[str, str]],
    exits: Mapping[int, str] | None = None,
    maps: bool = False,
) -> Callable[[Callable[..., int | None]], Verb]:
    """Make a function the verb `name`; its docstring is the help, its first line the summary.

    `examples` are (command, purpose); `exits` what exit codes mean where `EXITS` is not enough. One
    that `maps` hashes or compares much and writes nothing of it: see `tensorark.io.inputs`.
    Options and arguments are click's decorators below this one.
    """

    def make(function: Callable[..., int | None]) -> Verb:
        params = list(reversed(getattr(function, "__click_params__", [])))
        return Verb(
            name=name,
            callback=function,
            help=function.__doc__,
            params=[*params, *EVERYWHERE],
            examples=examples,
            exits=exits or {},
            maps=maps,
        )

    return make
