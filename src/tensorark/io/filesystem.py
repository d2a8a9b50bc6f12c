"""Which filesystem a path lies on, and whether page faults there may be slow or fatal.

Owns the reading of the mount table. Must never fail: an unknown answer is None.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")

# Filesystems that answer a page fault over a network or from another process: faults are 8 to 50
# times slower than reads there, and a lost server kills the process instead of failing a call.
# fmt: off
_REMOTE: Final = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fuse", "fuseblk", "gfs",
    "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs",
    "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
))
# fmt: on


def is_remote(kind: str | None) -> bool:
    """Say whether a filesystem of type `kind` should be read with calls rather than mapped."""
    return kind is not None and kind.partition(".")[0] in _REMOTE


def filesystem(path: str | os.PathLike[str], table: Path = _TABLE) -> str | None:
    """Return the type of the filesystem that holds `path`, or None where nothing tells."""
    try:
        lines = table.read_bytes().splitlines()
        wanted = os.fsencode(os.path.realpath(path))
    except (OSError, ValueError):
        return None
    best, kind = -1, None
    for line in lines:
        # id parent device root mount-point options optional* - type source superblock-options
        before, dash, after = line.partition(b" - ")
        fields = before.split(b" ")
        if not dash or len(fields) < 5:  # the fifth field is the mount point
            continue
        point = _ESCAPED.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), fields[4])
        # A later line of the same point was mounted over the earlier one.
        below = point.rstrip(b"/") + b"/"
        if len(point) >= best and (wanted == point or wanted.startswith(below)):
            best, kind = len(point), after.split(b" ", 1)[0].decode("ascii", "replace")
    return kind
