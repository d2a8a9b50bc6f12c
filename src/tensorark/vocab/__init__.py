"""The published vocabulary: storage types and logical types, as immutable values. No numpy.

Layouts are judged by the format that defines them; numbers are made in `tensorark.codecs`.
"""

from tensorark.vocab.dtypes import DTYPES
from tensorark.vocab.types import TYPES, Type, size_of

__all__ = ["DTYPES", "TYPES", "Type", "size_of"]
