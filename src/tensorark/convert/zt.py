"""Writing any model as a `.zt`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tensorark.api import File
from tensorark.carry import brought_home
from tensorark.convert.target import Options, Target
from tensorark.io.publish import publish
from tensorark.writer import rewrite


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one `.zt`, canonical unless an alignment is asked for."""
    carried = brought_home(file.catalog)
    with publish(target, overwrite=options.overwrite) as sink:
        rewrite(file, sink, align=options.align, carried=carried, progress=options.progress)
    return [str(target)]


ZT: Final = Target(name="zt", suffixes=(".zt",), options=frozenset({"align"}), write=write)
