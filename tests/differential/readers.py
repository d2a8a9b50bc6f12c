"""Three readers of `.zt` and what each says of a file, in one form.

Ours, the minimal one of the corpus, and the public `ztensor` package.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import ztensor

import tensorark
from conformance.reference import ztread

Parts = dict[str, dict[str, tuple[str, str | None, str | None]]]
"""Tensor → part → storage type, logical type, and SHA-256 of the decoded bytes where there are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader says: the rules that it found broken, or what it found in the file.

    `crash` is an exception that no caller can expect.
    """

    rules: frozenset[str] = frozenset()
    shapes: dict[str, tuple[list[int], str]] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)
    digest: str | None = None
    crash: str | None = None

    @property
    def accepts(self) -> bool:
        return not self.rules and self.crash is None


def sha256(data) -> str:
    return hashlib.sha256(data).hexdigest()


def ours(path: Path) -> Answer:
    """Open a file with the library, both ways, which must agree."""
    findings = tensorark.validate(path)
    try:
        file = tensorark.open(path)
    except tensorark.Rejected as error:
        rules = [finding.rule for finding in findings]
        if not rules or error.code != rules[0]:
            return Answer(crash=f"open says {error.code}, validate {rules}")
        return Answer(frozenset(rules))
    with file:
        if findings:
            return Answer(crash=f"opens, but validate says {findings}")
        try:
            digest = tensorark.content_digest(file)
        except tensorark.Unsupported:
            digest = None
        return Answer(
            shapes={name: (list(view.shape), view.layout) for name, view in file.items()},
            parts={
                name: {
                    role: (part.dtype, part.type, decoded(view, role))
                    for role, part in view.parts.items()
                }
                for name, view in file.items()
            },
            digest=digest,
        )


def decoded(view: tensorark.TensorView, role: str) -> str | None:
    try:
        return sha256(view.decoded(role))
    except tensorark.Error:
        return None


def reference(path: Path, operation: str = "open") -> Answer:
    """Judge a file with the minimal reader of the corpus."""
    code, report = ztread.judge(operation, path)
    if code == 1:
        return Answer(frozenset(report["rules"]))
    if code == 2:
        return Answer(crash=report["refused"])
    tensors = report["tensors"] or {}
    return Answer(
        shapes={name: (each["shape"], each["layout"]) for name, each in tensors.items()},
        parts={
            name: {
                role: (part["dtype"], part["type"], part.get("sha256"))
                for role, part in each["parts"].items()
            }
            for name, each in tensors.items()
        },
        digest=(report["content_digest"] or {}).get("xxh3"),
    )


def public(path: Path) -> Answer:
    """Open a file with the public package."""
    try:
        source = ztensor.open(str(path))
    except ValueError as error:
        return Answer(frozenset([str(error)]))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return Answer(crash=f"{type(error).__name__}: {error}")
    with source:
        tensors = dict(source.items())
        return Answer(
            shapes={name: (list(each.shape), each.layout) for name, each in tensors.items()},
            parts={
                name: {role: their_part(each[role]) for role in each.parts}
                for name, each in tensors.items()
            },
        )


def their_part(part: ztensor.Tensor) -> tuple[str, str | None, str | None]:
    try:
        data = part.tobytes()
    except Exception:  # noqa: BLE001 - an encoding that is unknown or broken
        return part.dtype, part.logical, None
    return part.dtype, part.logical, sha256(data)


# What only payload tells.


def our_verdict(path: Path) -> frozenset[str]:
    """Return the rules that verifying finds broken."""
    with tensorark.open(path) as file:
        return frozenset(each.rule for each in tensorark.verify(file).findings)


def their_verdict(path: Path) -> str | None:
    """Return why the public package rejects a file when it verifies it; None when it does not.

    None too where it refuses: for an encoding or a digest that it does not know.
    """
    with ztensor.open(str(path)) as source:
        try:
            source.verify()
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            if str(error).startswith("unsupported: "):
                return None
            return f"{type(error).__name__}: {error}"
    return None


def broken_canonical(path: Path) -> frozenset[str]:
    """Return the rules of canonical form that a valid file breaks."""
    return frozenset(each.rule for each in tensorark.validate(path, canonical=True))
