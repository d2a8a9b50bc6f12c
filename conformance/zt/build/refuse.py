"""Files of `refuse/`: valid, but in a vocabulary that nobody has defined.

Every one of them opens. The operation named must answer *refuse*: neither numbers nor a rejection.
"""

from __future__ import annotations

from conformance.build.case import ACCEPT, REFUSE, Case

from .case import contents
from .image import FLOOR, image
from .manifest import DATA, Map, part, root, tensor

_UNKNOWN = "conformance.unknown/1"


def _refused(section: str, operation: str, what: str, name: str, tensor_record: Map) -> Case:
    manifest = root(objects={"t": tensor_record})
    blobs = {FLOOR: DATA}
    earlier = {"open": ACCEPT, "decode": ACCEPT} if operation == "verify" else {"open": ACCEPT}
    return Case(
        image=image(manifest, blobs),
        section=section,
        expect={**earlier, operation: REFUSE},
        contents=contents(manifest, blobs),
        notes={"refuses": {"operation": operation, "what": what, "id": name}},
    )


def _layout(name: str, **parts: Map) -> Case:
    record = tensor(layout=name, parts={**(parts or {"data": part()})})
    return _refused("5.2", "decode", "layout", name, record)


def unknown_layout() -> Case:
    """A layout that nobody defined, with two parts over one blob."""
    return _layout(_UNKNOWN, data=part(), scales=part(dtype="f32"))


def unknown_layout__capitals() -> Case:
    """The layout `DENSE`, which is not `dense`."""
    return _layout("DENSE")


def unknown_layout__next_version() -> Case:
    """The layout `zt.sparse_csr/999`, a version that does not exist."""
    return _layout("zt.sparse_csr/999")


def unknown_type() -> Case:
    """A logical type that nobody defined; the size of its elements is unknown."""
    typed = part(type="conformance.unknown")
    record = tensor(shape=[3, 1000], parts={"data": typed})
    return _refused("4.2", "decode", "type", "conformance.unknown", record)


def unknown_type__near_miss() -> Case:
    """The logical type `f8_e4m3`, which is not one of the registered f8 types."""
    record = tensor(parts={"data": part(type="f8_e4m3")})
    return _refused("4.2", "decode", "type", "f8_e4m3", record)


def unknown_encoding() -> Case:
    """An encoding that nobody defined."""
    record = tensor(parts={"data": part(encoding=_UNKNOWN, decoded_length=8)})
    return _refused("5.3", "decode", "encoding", _UNKNOWN, record)


def unknown_encoding__next_version() -> Case:
    """The encoding `zt.zstd-seekable/999`, a version that does not exist."""
    name = "zt.zstd-seekable/999"
    record = tensor(parts={"data": part(encoding=name, decoded_length=8)})
    return _refused("5.3", "decode", "encoding", name, record)


def unknown_encoding__largest_length() -> Case:
    """An encoding that nobody defined turns eight bytes into 2^64 - 1."""
    largest = (1 << 64) - 1
    coded = part(encoding=_UNKNOWN, decoded_length=largest)
    record = tensor(shape=[largest], parts={"data": coded})
    return _refused("5.3", "decode", "encoding", _UNKNOWN, record)


def unknown_digest() -> Case:
    """A digest of an algorithm that nobody registered; it can be neither right nor wrong."""
    record = tensor(parts={"data": part(digest="conformance0:00ff")})
    return _refused("3.4", "verify", "digest", "conformance0", record)
