"""Reads, explains, validates, verifies and converts the files that carry tensors.

The public names; each is loaded when it is first used, so that importing stays fast and needs no
numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tensorark.amendment import append, repack
    from tensorark.api import File, open, validate  # noqa: A004 - the verb users know
    from tensorark.comparison import diff
    from tensorark.conversion import convert
    from tensorark.diagnosis import diagnose
    from tensorark.errors import (
        Error,
        InvalidInput,
        LimitExceeded,
        NotFound,
        ReadFailed,
        Rejected,
        Unsupported,
    )
    from tensorark.keys import make_key
    from tensorark.limits import Limits
    from tensorark.merging import merge
    from tensorark.metadata import edit_metadata, metadata_of
    from tensorark.model import Catalog, Encoded, Part, Raw, Span, Tensor
    from tensorark.overlays import delta, overlay
    from tensorark.rules import Finding
    from tensorark.sealing import check_seal, seal
    from tensorark.signing import sign, verify_signature
    from tensorark.splitting import split
    from tensorark.verification import content_digest, verify
    from tensorark.view import TensorView
    from tensorark.writer import Writer

__version__: Final = "0.1.0"

_HOMES: Final = {
    "amendment": ("append", "repack"),
    "api": ("File", "open", "validate"),
    "comparison": ("diff",),
    "conversion": ("convert",),
    "diagnosis": ("diagnose",),
    "errors": (
        "Error",
        "InvalidInput",
        "LimitExceeded",
        "NotFound",
        "ReadFailed",
        "Rejected",
        "Unsupported",
    ),
    "keys": ("make_key",),
    "limits": ("Limits",),
    "merging": ("merge",),
    "metadata": ("edit_metadata", "metadata_of"),
    "model": ("Catalog", "Encoded", "Part", "Raw", "Span", "Tensor"),
    "overlays": ("delta", "overlay"),
    "rules": ("Finding",),
    "sealing": ("check_seal", "seal"),
    "signing": ("sign", "verify_signature"),
    "splitting": ("split",),
    "verification": ("content_digest", "verify"),
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
    "append",
    "check_seal",
    "content_digest",
    "convert",
    "delta",
    "diagnose",
    "diff",
    "edit_metadata",
    "make_key",
    "merge",
    "metadata_of",
    "open",
    "overlay",
    "repack",
    "seal",
    "sign",
    "split",
    "validate",
    "verify",
    "verify_signature",
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
