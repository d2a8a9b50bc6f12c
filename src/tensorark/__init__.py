"""Reads, explains, validates, verifies and converts the files that carry tensors.

The public names; each is loaded when it is first used, so that importing stays fast and needs no
numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tensorark.api import File, open, validate  # noqa: A004 - the verb users know
    from tensorark.convert import convert
    from tensorark.diff import diff
    from tensorark.errors import (
        Error,
        InvalidInput,
        LimitExceeded,
        NotFound,
        ReadFailed,
        Rejected,
        Unsupported,
    )
    from tensorark.limits import Limits
    from tensorark.model import Catalog, Encoded, Part, Raw, Span, Tensor
    from tensorark.rules import Finding
    from tensorark.verify import content_digest, verify
    from tensorark.view import TensorView
    from tensorark.writer import Writer

__version__: Final = "0.1.0"

_HOMES: Final = {
    "api": ("File", "open", "validate"),
    "convert": ("convert",),
    "diff": ("diff",),
    "errors": (
        "Error",
        "InvalidInput",
        "LimitExceeded",
        "NotFound",
        "ReadFailed",
        "Rejected",
        "Unsupported",
    ),
    "limits": ("Limits",),
    "model": ("Catalog", "Encoded", "Part", "Raw", "Span", "Tensor"),
    "rules": ("Finding",),
    "verify": ("content_digest", "verify"),
    "view": ("TensorView",),
    "writer": ("Writer",),
}
_HOME: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Catalog",
    "Encoded",
    "Error",
    "File",
    "Finding",
    "InvalidInput",
    "LimitExceeded",
    "Limits",
    "NotFound",
    "Part",
    "Raw",
    "ReadFailed",
    "Rejected",
    "Span",
    "Tensor",
    "TensorView",
    "Unsupported",
    "Writer",
    "content_digest",
    "convert",
    "diff",
    "open",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
