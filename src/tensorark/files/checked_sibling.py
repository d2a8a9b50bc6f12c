"""Files that an opened file names, each judged by its first bytes before any of it is used.

Owns the one look at a neighbour that comes before it is read. What makes it the right one is the
caller's to say; must never turn a label into a path but through `tensorark.io.safe_names`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensorark.core.model import Span
from tensorark.errors import Error
from tensorark.io.open_file import OpenFile
from tensorark.io.safe_names import beside

_HEAD = 64


@dataclass(frozen=True, slots=True)
class CheckedSibling:
    """Finds the file `label` in `folder`; picklable if `judge` is.

    `judge(label, head, size)` is given its first 64 bytes, or fewer, and raises when it is another
    file than the one that was meant.
    """

    folder: Path
    judge: Callable[[str, bytes, int], None]

    def __call__(self, label: str) -> Path:
        """Return the path of the file `label`, which was judged.

        Raises:
            ReadFailed: when it is missing (code ``missing-file``) or cannot be read.
            Rejected: when it is another file, or the label is no file name.
        """
        path = beside(self.folder, label)
        opened = OpenFile(path, mapped=False)
        head = opened.view(Span(0, min(_HEAD, opened.size)))
        try:
            self.judge(label, bytes(head), opened.size)
        except Error as error:
            error.located(str(path))
            raise
        return path
