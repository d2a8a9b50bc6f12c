"""Writing any model as npz, numpy's archive of arrays.

Data lie stored and aligned, so that they can be mapped. What arrays cannot say, attributes and the
types that numpy has no name for, stands in one more member.
"""

from __future__ import annotations

import zlib

from tensorark.core.model import Catalog
from tensorark.core.writing import Checksums, Copy, Goal, Options, Output, Outputs, Patch, Writing
from tensorark.formats.npz.marker import Marker
from tensorark.formats.npz.plan import CRC_AT, Member, end_records, plan, plan_marker, void_types
from tensorark.wire.attributes import to_text


def write(catalog: Catalog, _options: Options, goal: Goal) -> Writing:
    """Write a model as one archive, its arrays in the order of their names, bytewise."""
    tensors = sorted(catalog.tensors.values(), key=lambda each: each.name.encode("utf-8"))
    metadata, types = to_text(catalog.attributes, catalog.tensor_attributes), void_types(tensors)
    yield Outputs((Output(goal.name),), goal.name)
    written: list[tuple[Member, int, int]] = []
    end = 0
    for tensor in tensors:
        member = plan(tensor)
        local = member.local(end)
        yield local + member.head
        where = ("objects", tensor.name, "parts", "data")
        copied: Checksums = yield Copy(tensor.parts["data"], where, crc=zlib.crc32(member.head))
        written.append((member, end, copied.crc))
        end += len(local) + member.size
    if metadata is not None or types:
        text = Marker(metadata, types).text()
        member = plan_marker(text)
        local = member.local(end)
        yield local + member.head + text
        written.append((member, end, zlib.crc32(text, zlib.crc32(member.head))))
        end += len(local) + member.size
    directory = b"".join(member.entry(offset, crc) for member, offset, crc in written)
    yield directory + end_records(end, len(directory), len(written))
    crcs = ((offset + CRC_AT, crc.to_bytes(4, "little")) for _, offset, crc in written)
    yield Patch(0, tuple(crcs))
