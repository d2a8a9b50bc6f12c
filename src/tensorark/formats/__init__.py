"""The formats that are read, as values in order of recognition."""

from typing import Final

from tensorark.formats.format import Format
from tensorark.formats.safetensors import SAFETENSORS, SAFETENSORS_INDEX
from tensorark.formats.zt import ZT

FORMATS: Final[tuple[Format, ...]] = (ZT, SAFETENSORS_INDEX, SAFETENSORS)
"""Recognition asks the formats with a magic first, so that the verdict does not depend on luck."""
