"""Opened files: `open`, `File`, views, folders, and the files that one names."""

from tensorark.files.file import File, PathLike
from tensorark.files.open import open, stored_in  # noqa: A004 - the verb users know
from tensorark.files.validate import survey, validate

__all__ = ["File", "PathLike", "open", "stored_in", "survey", "validate"]
