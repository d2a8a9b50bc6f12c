"""The text of a result: one line, short and escaped, whatever the result holds.

For `repr`, which a prompt, a notebook and a log show unasked: of a thousand names it says that they
are a thousand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from tensorark.errors import escaped, quoted

_FEW: Final = 3
_LONGEST: Final = 80


def brief(value: Any) -> str:
    """Write a dataclass: its fields that say something, those with many items as their number."""
    held = ((each.name, getattr(value, each.name)) for each in fields(value) if each.repr)
    facts = [f"{name}={_show(fact)}" for name, fact in held if not _says_nothing(fact)]
    return f"{type(value).__name__}({', '.join(facts)})"


def _says_nothing(fact: object) -> bool:
    return fact is None or (isinstance(fact, tuple | list | Mapping) and not fact)


def _show(fact: object) -> str:
    if isinstance(fact, str):
        return quoted(fact, _LONGEST)
    if isinstance(fact, bool | int | float | None):
        return repr(fact)
    if isinstance(fact, Mapping) and len(fact) <= _FEW and all(map(_is_plain, fact.values())):
        return "{" + ", ".join(f"{_show(key)}: {_show(each)}" for key, each in fact.items()) + "}"
    if isinstance(fact, tuple | list) and len(fact) <= _FEW and all(map(_is_plain, fact)):
        return f"({', '.join(map(_show, fact))})"
    if isinstance(fact, Collection):
        return f"<{len(fact):,}>"
    has_own = is_dataclass(fact) and type(fact).__repr__ is brief
    return brief(fact) if has_own else f"<{escaped(type(fact).__name__)}>"


def _is_plain(fact: object) -> bool:
    return isinstance(fact, str | bool | int | float | None)
