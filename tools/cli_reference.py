"""Writes what the documentation says of the command line and of its errors, from the code itself.

    python tools/cli_reference.py            write the files
    python tools/cli_reference.py --check    say which of them are out of date, and fail

Owns docs/reference/cli.md, docs/reference/errors.md and the example messages that `tark explain`
shows, which are those that files of the conformance corpus give. Needs the package installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import tensorark
from tensorark import errors
from tensorark.cli.group import TARK, VERBS
from tensorark.core.rules import Finding
from tensorark.errors import Error
from tensorark.report import codes
from tensorark.report.report import finding
from tensorark.report.text import finding_text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 96


def main(words: list[str]) -> int:
    """Write or check the files; return the exit code."""
    stale = []
    for name, make in (
        ("src/tensorark/report/examples.json", examples),
        ("docs/reference/cli.md", cli),
        ("docs/reference/errors.md", errors_page),
    ):
        path = ROOT / name
        text = make()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in words:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            codes._rules.cache_clear()  # noqa: SLF001 - the page below shows the new examples
    for name in stale:
        print(f"{name}: " + ("out of date" if "--check" in words else "written"))
    return 1 if stale and "--check" in words else 0


# ----------------------------------------------------------------------------------------- examples


def examples() -> str:
    """Return, for each rule that a file of a corpus breaks, the message that this gives."""
    found: dict[str, str] = {}
    for index in sorted((ROOT / "conformance").rglob("index.json")):
        lines = json.loads(index.read_bytes())["files"]
        for line in sorted(lines, key=lambda line: line["path"]):
            rule, path = line["rule"], index.parent / line["path"]
            if line["class"] != "reject" or rule in found or path.name.endswith(".sparse.json"):
                continue
            for each in _findings(path):
                if each.rule == rule:
                    found[rule] = finding_text(finding(each))
                    break
    return json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=True) + "\n"


def _findings(path: Path) -> Iterator[Finding]:
    """Yield what is wrong with a file: its rules, then canonical form, then its payload."""
    try:
        yield from tensorark.validate(path)
        yield from tensorark.validate(path, canonical=True)
        with tensorark.open(path) as file:
            yield from tensorark.verify(file).findings
    except Error:
        return


# ------------------------------------------------------------------------------------- command line


def cli() -> str:
    """Return the page about the command line: the help of `tark` and of every verb."""
    lines = [
        "# Command line",
        "",
        "Made from `--help` by `tools/cli_reference.py`; a test keeps it current.",
        "",
        "Data goes to standard output, messages and progress to standard error. `--json` gives one",
        "document whose `schema` field names its form, such as `tensorark.ls/1`; keys stay while",
        "its number does: [a schema](schemas/) says which. An error is one line that ends with a",
        "stable code: see [errors](errors.md). Names and metadata are escaped: no file can steer a",
        "terminal.",
        "",
        "`NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are respected, in this order; `--color` and",
        "`--no-color` win over them. Progress is drawn on a terminal alone, when work takes longer",
        "than half a second.",
        "",
        "## tark",
        "",
        *_help([]),
    ]
    for section, verbs in VERBS.items():
        lines += [f"## {section}", ""]
        for name in verbs:
            lines += [f"### tark {name}", "", *_help([name])]
    return "\n".join(lines).rstrip() + "\n"


def _help(words: list[str]) -> list[str]:
    command: click.Command = TARK
    facts: dict[str, Any] = {
        "terminal_width": WIDTH,
        "max_content_width": WIDTH,
        "help_option_names": ["-h", "--help"],
    }
    context = click.Context(TARK, info_name="tark", **facts)
    for word in words:
        found = TARK.get_command(context, word)
        assert found is not None  # noqa: S101 - a line of the table without a module
        command = found
        context = click.Context(command, info_name=word, parent=context, **facts)
    text = command.get_help(context)
    return ["```text", *(line.rstrip() for line in text.splitlines()), "```", ""]


# ------------------------------------------------------------------------------------------- errors


def errors_page() -> str:
    """Return the page about errors: exit codes, classes, codes, and the rules of every format."""
    lines = [
        "# Errors",
        "",
        "Made from the code by `tools/cli_reference.py`; a test keeps it current.",
        "",
        "Every exception that leaves the library is one of six classes below `tensorark.Error` and",
        "carries `code`, `path`, `where`, `offset`, `expected`, `found`, `hint`, `section`. `code`",
        "is a rule or a word of the second table: match on it, never on the text.",
        "`tark explain CODE` says the same.",
        "",
        "| class | exit code | meaning |",
        "| --- | --- | --- |",
    ]
    for kind in (
        errors.Rejected,
        errors.Unsupported,
        errors.LimitExceeded,
        errors.InvalidInput,
        errors.NotFound,
        errors.ReadFailed,
    ):
        meaning = (kind.__doc__ or "").split("\n")[0]
        lines.append(f"| `{kind.__name__}` | {kind.exit_code} | {_cell(meaning)} |")
    lines += [
        "",
        "Other exit codes: 0 success, equal, valid · 1 the honest no (different, a digest does not",
        "match) · 70 a defect of ours · 130 interrupted · 141 the reader of the output went away.",
        "",
        "## Codes that are no rules",
        "",
        "| code | meaning |",
        "| --- | --- |",
    ]
    every = list(codes.everything())
    lines += [
        f"| `{each.code}` | {_cell(each.requirement)} |" for each in every if not each.is_rule
    ]
    for title in dict.fromkeys(each.format for each in every if each.is_rule):
        lines += ["", f"## Rules of {title}", ""]
        lines += ["| rule | section | stage | requirement |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{each.code}` | {_cell(each.section)} | {each.stage} | {_cell(each.requirement)} |"
            for each in every
            if each.format == title
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
