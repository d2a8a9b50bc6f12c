"""Writing any model as a `.zt`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tensorark.api import File
from tensorark.carry import brought_home
from tensorark.conversion.target import Options, Target
from tensorark.hub import hub
from tensorark.io.publish import publish
from tensorark.writer import compression_of, rewrite


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one `.zt`, canonical unless an alignment or an encoding is asked for."""
    file = hub(file)
    carried = brought_home(file.catalog)
    compression = compression_of(
        options.encoding, level=options.level, frame_size=options.frame_size
    )
    with publish(target, overwrite=options.overwrite) as sink:
        rewrite(
            file,
            sink,
            align=options.align,
            carried=carried,
            compression=compression,
            progress=options.progress,
        )
    return [str(target)]


ZT: Final = Target(
    name="zt",
    suffixes=(".zt",),
    options=frozenset({"align", "encoding", "level", "frame_size"}),
    write=write,
)
