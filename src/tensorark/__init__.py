"""Reads, explains, validates, verifies and converts the files that carry tensors.

The public names; each is loaded when it is first used, so that importing stays fast and needs no
numpy. ``load_file``, ``save_file`` and ``safe_open`` are those of `tensorark.numpy`;
`tensorark.torch` has its own.
"""

# The names and their homes stand in `__init__.pyi`, where type checkers find them too.

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"


def __getattr__(name: str) -> object:
    from importlib import import_module
    from importlib.util import find_spec

    home = _homes().get(name)
    if home is None and name.isidentifier() and find_spec(f"{__name__}.{name}") is not None:
        home = __name__  # a layer, as our own modules import it
    if name == "__all__":
        value: object = sorted(each for each, home in _homes().items() if home != __name__)
    elif home is None:
        from tensorark.core.matching import near

        hint = near(name, _homes())
        text = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{text}: {hint}" if hint else text)
    elif home == __name__:
        return import_module(f"{home}.{name}")
    else:
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})


def _homes() -> dict[str, str]:
    """Return the public names, each with its module; a public module has this one."""
    import re
    from pkgutil import get_data

    if not _HOMES:
        stub = (get_data(__name__, "__init__.pyi") or b"").decode()
        found = re.findall(r"^from (tensorark\S*) import (\w+) as \w+", stub, re.MULTILINE)
        _HOMES.update((name, home) for home, name in found)
    return _HOMES


_HOMES: Final[dict[str, str]] = {}
