"""npy, numpy's file of one array, both ways.

Reads it in any order and with any dtype (`read`, `rules`), and writes what `numpy.save` does
(`write`). Knows no other format and touches no file.
"""

from typing import Final

from tensorark.core.ledger import Keeps
from tensorark.formats.format import Format
from tensorark.formats.npy.read import NAME, SUFFIX, holds, read, sniff
from tensorark.formats.npy.rules import RULES
from tensorark.formats.npy.write import keeps, refusals, write

NPY: Final = Format(
    name=NAME,
    title="npy",
    suffixes=(SUFFIX,),
    sniff=sniff,
    read=read,
    rules=RULES,
    holds=holds,
    write=write,
    keeps=Keeps(frozenset({"shapes"}), keeps),
    refusals=refusals,
    holder="npy",
)

__all__ = ["NPY"]
