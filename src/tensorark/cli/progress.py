"""A bar with bytes, rate and time left, on standard error, for work that takes a while.

Nothing is drawn, and rich is not imported, before the work has taken half a second.
"""

from __future__ import annotations

import sys
import time
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Drawing
    from rich.progress import TaskID

PATIENCE: Final = 0.5
"""Seconds before anything is drawn."""


class Bar:
    """Counts bytes of `total` and draws them; a context manager."""

    def __init__(self, total: int, purpose: str) -> None:
        self._total = total
        self._purpose = purpose
        self._done = 0
        self._begun = time.monotonic()
        self._lock = Lock()
        self._drawing: Drawing | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._drawing is not None:
            self._drawing.stop()

    def advance(self, done: int) -> None:
        """Count `done` more bytes."""
        with self._lock:
            self._done += done
            if self._drawing is None and time.monotonic() - self._begun > PATIENCE:
                self._draw()
            if self._drawing is not None and self._task is not None:
                self._drawing.update(self._task, completed=self._done)

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._drawing = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._task = self._drawing.add_task(self._purpose, total=self._total)
        self._drawing.start()
