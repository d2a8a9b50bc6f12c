"""How work says how far it has come."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int], None]
"""Called with the number of bytes that were just done; may be called from several threads."""
