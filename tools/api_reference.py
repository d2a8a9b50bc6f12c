"""Writes the reference of the Python interface, from the source: signatures as written, docstrings.

    python tools/api_reference.py            write the file
    python tools/api_reference.py --check    say whether it is out of date, and fail

Owns docs/reference/api.md. What `__all__` of a module holds is public, and so is every member of a
class whose name has no underscore before it. Needs the package installed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api.md"
MODULES = (
    "tensorark",
    "tensorark.numpy",
    "tensorark.torch",
    "tensorark.sparse",
    "tensorark.quantize",
    "tensorark.errors",
)
WIDTH = 92
SPECIAL = {"__getitem__", "__call__"}
"""Methods that are used by a sign of the language and say something of their own."""

GIVEN = {"File", "TensorView"}
"""Classes whose values come from functions and are never made by hand."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main(words: list[str]) -> int:
    """Write or check the file; return the exit code."""
    text = page()
    if PAGE.exists() and PAGE.read_text("utf-8") == text:
        return 0
    if "--check" in words:
        print(f"{PAGE.name}: out of date")
        return 1
    PAGE.write_text(text, "utf-8")
    print(f"{PAGE.name}: written")
    return 0


def page() -> str:
    """Return the page: every public name of every module, each described where it comes first."""
    lines = [
        "# Python",
        "",
        "Made from docstrings by `tools/api_reference.py`; a test keeps it current.",
        "",
        "`PathLike` is text or an `os.PathLike[str]`; where a model is read, an opened `File` is",
        "one too. Every exception that leaves the library is one of the six classes below",
        "`tensorark.Error`. A default that is neither a number nor a text is a name of the source.",
    ]
    seen: dict[int, str] = {}
    for name in MODULES:
        module = import_module(name)
        lines += ["", f"## {name}", "", *_prose(inspect.getdoc(module) or "")]
        for each in module.__all__:
            value = getattr(module, each)
            if inspect.ismodule(value):
                continue
            lines += ["", f"### {name}.{each}", ""]
            if (home := seen.setdefault(id(value), f"{name}.{each}")) != f"{name}.{each}":
                lines.append(f"The same as `{home}`.")
            else:
                lines += _described(each, value)
    return re.sub("\n{3,}", "\n\n", "\n".join(lines).rstrip() + "\n")


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        function = _definition(value)
        yield from _code(_signature(name, function))
        yield from _prose(inspect.getdoc(value) or "")
    else:
        yield from _code(f"{name} = {value!r}")


# ------------------------------------------------------------------------------------------ classes


def _class(name: str, kind: type) -> Iterator[str]:
    members: dict[str, ast.stmt] = {}
    fields: dict[str, tuple[ast.AnnAssign, str]] = {}
    for each in reversed(_own(kind)):
        body = _definition(each).body
        members |= {node.name: node for node in body if isinstance(node, Function)}
        if "__dataclass_fields__" in vars(each):
            fields |= _fields(body)
    bases = [base.__name__ for base in kind.__bases__ if base is not object]
    yield from _code(f"class {name}" + (f"({', '.join(bases)})" if bases else ""))
    yield from _prose(inspect.getdoc(kind) or "")
    init = members.get("__init__")
    if isinstance(init, Function) and name not in GIVEN:
        yield ""
        yield from _code(_signature(name, init, method=True))
    if fields:
        yield ""
        for field, text in fields.values():
            yield f"- `{ast.unparse(field)}`" + (f": {text}" if text else "")
    for member, node in members.items():
        if isinstance(node, Function) and (member in SPECIAL or not member.startswith("_")):
            yield from _member(name, node)


def _own(kind: type) -> list[type]:
    """Return the class, and the classes of ours below it that have no entry of their own."""
    public = import_module("tensorark").__all__
    return [
        each
        for each in kind.__mro__
        if each is kind or (each.__module__.startswith("tensorark") and each.__name__ not in public)
    ]


def _fields(body: list[ast.stmt]) -> dict[str, tuple[ast.AnnAssign, str]]:
    """Return the public fields of a dataclass, each with the text that stands below it."""
    found = {}
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id.startswith("_") or "ClassVar" in ast.unparse(node.annotation):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = " ".join(str(after.value.value).split())
        found[node.target.id] = (node, text)
    return found


def _member(name: str, node: Function) -> Iterator[str]:
    marks = {ast.unparse(each) for each in node.decorator_list}
    yield from ("", f"#### {name}.{node.name}", "")
    if marks & {"property", "cached_property"}:
        yield from _code(f"{node.name}: {ast.unparse(node.returns)}" if node.returns else node.name)
    else:
        bound = "staticmethod" not in marks
        yield from _code(_signature(node.name, node, method=bound))
    yield from _prose(ast.get_docstring(node) or "")


# --------------------------------------------------------------------------------- names and prose


def _definition(value: Any) -> Any:
    """Return the syntax of a function or a class, as its source has it."""
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]


def _signature(name: str, node: Function, *, method: bool = False) -> str:
    """Write a signature in one line, or one line an argument where that is too long."""
    arguments = node.args
    if method:
        del (arguments.posonlyargs or arguments.args)[0]
    parts = _arguments(arguments)
    ends = ""
    if node.returns is not None and not (method and node.name == "__init__"):
        ends = f" -> {ast.unparse(node.returns)}"
    line = f"{name}({', '.join(parts)}){ends}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){ends}"])


def _arguments(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    parts = [_argument(*each) for each in zip(plain, [*missing, *arguments.defaults], strict=True)]
    if arguments.posonlyargs:
        parts.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg is not None:
        parts.append("*" + _argument(arguments.vararg, None))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [
        _argument(*each) for each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        parts.append("**" + _argument(arguments.kwarg, None))
    return parts


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    value = ast.unparse(default)
    return f"{text} = {value}" if argument.annotation else f"{text}={value}"


def _code(text: str) -> Iterator[str]:
    yield from ("```python", *text.splitlines(), "```", "")


def _prose(text: str) -> list[str]:
    """Return a docstring as Markdown: a list for each of its sections, the rest as it is."""
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if title := re.fullmatch(r"(Raises|Returns|Yields|Args):", line):
            in_section = True
            lines += [f"{title[1]}:", ""]
        elif in_section and (entry := re.fullmatch(r"    (\w+): (.*)", line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif in_section and line.startswith("    "):
            lines.append("  " + line.strip())
        else:
            in_section = in_section and not line
            lines.append(line)
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
