"""Reads, explains, validates, verifies and converts the files that carry tensors.

The public names; each is loaded when it is first used, so that importing stays fast and needs no
numpy. ``load_file``, ``save_file`` and ``safe_open`` are those of `tensorark.numpy`;
`tensorark.torch` has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tensorark import numpy as numpy
    from tensorark import pruning as pruning
    from tensorark import quant as quant
    from tensorark import sparse as sparse
    from tensorark import torch as torch
    from tensorark.amendment import Amendment, append, repack
    from tensorark.comparison import Change, Difference, diff
    from tensorark.conversion import Conversion, convert
    from tensorark.core.limits import Limits
    from tensorark.core.model import Catalog, Encoded, Part, Raw, Span, Tensor
    from tensorark.core.rules import Finding
    from tensorark.diagnosis import Diagnosis, PastGeneration, diagnose
    from tensorark.errors import (
        Error,
        InvalidInput,
        LimitExceeded,
        NotFound,
        ReadFailed,
        Rejected,
        Unsupported,
    )
    from tensorark.files.file import File, open, validate  # noqa: A004 - the verb users know
    from tensorark.files.view import TensorView
    from tensorark.keys import make_key
    from tensorark.merging import Merge, merge
    from tensorark.metadata import Edit, edit_metadata, metadata_of
    from tensorark.numpy import load_file, safe_open, save_file
    from tensorark.overlays import Overlay, delta, overlay
    from tensorark.sealing import Seal, SealCheck, check_seal, seal
    from tensorark.signing import SignatureCheck, sign, verify_signature
    from tensorark.splitting import PlannedShard, SplitPlan, split
    from tensorark.statement import SignedStatement, Statement
    from tensorark.verification import Verification, content_digest, verify
    from tensorark.writer import Writer

__version__: Final = "0.1.0"

_HOMES: Final = {
    "amendment": ("Amendment", "append", "repack"),
    "files.file": ("File", "open", "validate"),
    "comparison": ("Change", "Difference", "diff"),
    "conversion": ("Conversion", "convert"),
    "diagnosis": ("Diagnosis", "PastGeneration", "diagnose"),
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
    "core.limits": ("Limits",),
    "merging": ("Merge", "merge"),
    "metadata": ("Edit", "edit_metadata", "metadata_of"),
    "core.model": ("Catalog", "Encoded", "Part", "Raw", "Span", "Tensor"),
    "numpy": ("load_file", "safe_open", "save_file"),
    "overlays": ("Overlay", "delta", "overlay"),
    "core.rules": ("Finding",),
    "sealing": ("Seal", "SealCheck", "check_seal", "seal"),
    "signing": ("SignatureCheck", "sign", "verify_signature"),
    "splitting": ("PlannedShard", "SplitPlan", "split"),
    "statement": ("SignedStatement", "Statement"),
    "verification": ("Verification", "content_digest", "verify"),
    "files.view": ("TensorView",),
    "writer": ("Writer",),
}
_HOME: Final = {name: module for module, names in _HOMES.items() for name in names}
_MODULES: Final = ("numpy", "pruning", "quant", "sparse", "torch")

__all__ = [
    "Amendment",
    "Catalog",
    "Change",
    "Conversion",
    "Diagnosis",
    "Difference",
    "Edit",
    "Encoded",
    "Error",
    "File",
    "Finding",
    "InvalidInput",
    "LimitExceeded",
    "Limits",
    "Merge",
    "NotFound",
    "Overlay",
    "Part",
    "PastGeneration",
    "PlannedShard",
    "Raw",
    "ReadFailed",
    "Rejected",
    "Seal",
    "SealCheck",
    "SignatureCheck",
    "SignedStatement",
    "Span",
    "SplitPlan",
    "Statement",
    "Tensor",
    "TensorView",
    "Unsupported",
    "Verification",
    "Writer",
    "append",
    "check_seal",
    "content_digest",
    "convert",
    "delta",
    "diagnose",
    "diff",
    "edit_metadata",
    "load_file",
    "make_key",
    "merge",
    "metadata_of",
    "open",
    "overlay",
    "repack",
    "safe_open",
    "save_file",
    "seal",
    "sign",
    "split",
    "validate",
    "verify",
    "verify_signature",
]

if not TYPE_CHECKING:  # who checks types sees the names above, and misses one that is not there

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        home = _HOME.get(name)
        if home is None:
            from tensorark.core.matching import near

            hint = near(name, [*__all__, *_MODULES])
            text = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{text}: {hint}" if hint else text)
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
