"""The tokenizer, templates and settings that go with a model: found beside it, or given.

Owns which roles a component has and what makes a file unusable. What the files say is the
frontend's matter, but for the sizes that vision's must share with its config.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tensorark.errors import Hint, InvalidInput, ReadFailed
from tensorark.io.inputs import note_path
from tensorark.wire.json import Malformed, parse

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": (
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
    ),
    "vision": ("preprocessor_config.json", "video_preprocessor_config.json"),
}
"""The files of each component."""

_SHARED: Final = {
    "patch_size": "patch_size",
    "temporal_patch_size": "temporal_patch_size",
    "merge_size": "spatial_merge_size",
}
"""Sizes that the preprocessors state too, and their names in the config."""

_MOST: Final = 1 << 30


def find_resources(
    folder: Path,
    configs: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, str | os.PathLike[str]],
) -> dict[str, dict[str, bytes]]:
    """Return the resources of each component by role: the files `given`, else those in `folder`.

    Raises:
        ReadFailed: when one is missing (code ``missing-resource``).
        InvalidInput: when one is empty, no UTF-8, no JSON, or given for nothing.
    """
    known = {role for name in configs for role in ROLES.get(name, ())}
    strange = sorted(given.keys() - known)
    if strange:
        raise InvalidInput(
            "a resource is given that no component takes",
            code="resource",
            expected=" ".join(sorted(known)),
            found=" ".join(strange),
        )
    found: dict[str, dict[str, bytes]] = {}
    for name in configs:
        roles = {
            role: _read(Path(given.get(role, folder / role)), role) for role in ROLES.get(name, ())
        }
        if roles:
            found[name] = roles
    for role, data in found.get("vision", {}).items():
        _check_sizes(role, data, configs["vision"])
    return found


def _read(path: Path, role: str) -> bytes:
    note_path(path)
    try:
        size = path.stat().st_size
        data = b"" if size > _MOST else path.read_bytes()
    except OSError as error:
        raise ReadFailed(
            f"the resource {role} cannot be read: {error.strerror or error}",
            code="missing-resource",
            path=str(path),
            hint=Hint(
                f"resources={{{role!r}: PATH}} gives another file",
                tark=f"--resource {role}=FILE gives another file",
            ),
        ) from error
    reason = None
    if size > _MOST:
        reason = "is larger than a GiB"
    elif not data:
        reason = "is empty"
    else:
        try:
            data.decode("utf-8")
            if role.endswith(".json"):
                parse(data)
        except UnicodeDecodeError:
            reason = "is not UTF-8"
        except Malformed as error:
            reason = f"is no strict JSON: {error.detail}"
    if reason is not None:
        raise InvalidInput(f"the resource {role} {reason}", code="resource", path=str(path))
    return data


def _check_sizes(role: str, data: bytes, config: Mapping[str, Any]) -> None:
    stated = parse(data)
    for key, field in _SHARED.items():
        if not isinstance(stated, dict) or stated.get(key) != config[field]:
            raise InvalidInput(
                f"{role} and the config of the tower disagree about {key}",
                code="resource",
                where=(role, key),
                expected=config[field],
                found=stated.get(key) if isinstance(stated, dict) else "nothing",
            )
