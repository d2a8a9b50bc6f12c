"""NInfer v3 (`.ninfer`): artifacts of one file or several, with logical parameters on top.

Frame, directory, rules, reading, address space, layouts, logical parameters and writing. Knows no
other format, touches no file and no number.
"""

from typing import Any, Final

from tensorark.core.rules import Rule
from tensorark.formats.format import Format
from tensorark.formats.ninfer.frame import (
    FRAME_RULES,
    PART_RULES,
    file_size,
    part_header,
    sniff,
)
from tensorark.formats.ninfer.read import NAME, judge, read
from tensorark.formats.ninfer.rules import OBJECT_RULES, OPEN_RULES
from tensorark.formats.ninfer.schema import SCHEMA_RULES
from tensorark.formats.ninfer.syntax import JSON_RULES
from tensorark.formats.ninfer.uses import USE_RULES

RULES: Final[tuple[Rule[Any], ...]] = (
    file_size,
    *FRAME_RULES,
    *JSON_RULES,
    *SCHEMA_RULES,
    *OPEN_RULES,
    *OBJECT_RULES,
    part_header,
    *PART_RULES,
    *USE_RULES,
)

NINFER: Final = Format(
    name=NAME,
    title="NInfer v3",
    suffixes=(".ninfer",),
    sniff=sniff,
    read=read,
    rules=RULES,
    judge=judge,
)
