"""Files of `accept/`: valid, and read alike by everyone."""

from __future__ import annotations

import struct

from conformance.build.case import Case

from .case import Stored, case
from .image import (
    ABSENT,
    CONFIG,
    DENSE_VALUES,
    SPARSE_MASK,
    SPARSE_VALUES,
    Single,
    container,
    dense,
    dense_entry,
    entry,
    floats,
    folder,
    index,
    sparse,
    usual,
)

FACTS = {"architecture": "llama", "config": CONFIG}
A = Stored(
    shape=(4, 8),
    weights=floats(*SPARSE_VALUES),
    values=floats(*SPARSE_VALUES),
    mask=SPARSE_MASK,
    nm="2:4",
)
B = Stored(shape=(16,), weights=floats(*DENSE_VALUES), values=floats(*DENSE_VALUES))
BOTH = {"a.weight": A, "b.weight": B}
_AFTER = len(sparse().data)


def minimal() -> Case:
    """A container of one tensor at 2:4 and one without a mask."""
    return case(usual(), tensors=BOTH, facts=FACTS)


def single() -> Case:
    """A .tb of 32 weights at 2:4; it has no shape."""
    flat = Stored(shape=(32,), weights=A.weights, values=A.values, mask=A.mask, nm="2:4")
    return case(Single(sparse().data), section="layout", tensors={"single": flat})


def single_dense() -> Case:
    """A .tb without a mask."""
    return case(Single(dense().data), section="layout", tensors={"single-dense": B})


def directory() -> Case:
    """A manifest and two files, one in a folder of its own."""
    files = {"a.tb": sparse().data, "deep/b.tb": dense().data}
    plain = {"num_weights": ABSENT, "num_mask_bytes": ABSENT}
    entries = [
        entry(**plain, offset=ABSENT, file="a.tb"),
        dense_entry(ABSENT, **plain, file="deep/b.tb"),
    ]
    return case(folder(entries, files), section="manifest", tensors=BOTH, facts=FACTS)


def precisions() -> Case:
    """The four precisions, each with 8 weights at 2:4."""
    values = [1.0, -2.0, 0.0, 0.0, 0.5, 0.0, 0.0, 4.0]
    mask = b"\x03\x09"
    blobs, entries, held, at = [], [], {}, 0
    for code, name in enumerate(("fp32", "fp16", "bf16", "fp64")):
        data = floats(*values, code=code)
        blob = sparse(weights=data, mask=mask, count=8, precision=code).data
        claim = {"shape": [2, 4], "num_weights": 8, "num_mask_bytes": 2, "dtype": name}
        entries.append(entry(name=name, offset=at, **claim))
        held[name] = Stored(shape=(2, 4), weights=data, values=data, mask=mask, nm="2:4")
        blobs.append(blob)
        at += len(blob)
    return case(container(blobs, index(entries)), section="precision", tensors=held)


def patterns() -> Case:
    """The patterns 1:2, 1:4, 4:8, 3:5 and, with two and four mask bytes a group, 8:16 and 16:32."""
    blobs, entries, held, at = [], [], {}, 0
    for n, m in ((1, 2), (1, 4), (4, 8), (3, 5), (8, 16), (16, 32)):
        keep = [place < n for place in range(m)] + [place >= m - n for place in range(m)]
        values = floats(*(float(place + 1) if bit else 0.0 for place, bit in enumerate(keep)))
        mask = _mask(keep, m)
        blob = sparse(weights=values, mask=mask, n=n, m=m, count=2 * m).data
        claim = {"shape": [2, m], "nm_n": n, "nm_m": m}
        counts = {"num_weights": 2 * m, "num_mask_bytes": len(mask)}
        name = f"{n}of{m}"
        entries.append(entry(name=name, offset=at, **claim, **counts))
        held[name] = Stored(shape=(2, m), weights=values, values=values, mask=mask, nm=f"{n}:{m}")
        blobs.append(blob)
        at += len(blob)
    return case(container(blobs, index(entries)), section="mask", tensors=held)


def _mask(keep: list[bool], m: int) -> bytes:
    groups = (keep[at : at + m] for at in range(0, len(keep), m))
    return b"".join(
        sum(1 << place for place, bit in enumerate(group) if bit).to_bytes(-(-m // 8), "little")
        for group in groups
    )


def out_of_order() -> Case:
    """The order of the index is not that of the blobs."""
    entries = [dense_entry(_AFTER), entry()]
    held = {"b.weight": B, "a.weight": A}
    return case(usual(entries=entries), section="index", tensors=held, facts=FACTS)


def architecture_first() -> Case:
    """`architecture` stands before `config`, as the specification shows and the tools write."""
    document = {
        "architecture": "llama",
        "config": CONFIG,
        "tensors": [entry(), dense_entry(_AFTER)],
    }
    image = container([sparse().data, dense().data], document)
    return case(image, section="index", tensors=BOTH, facts=FACTS)


def spaces() -> Case:
    """The index is written with white space, some of it before the object, all of it counted."""
    text = b'   \n{ "tensors" : [ '
    text += b'{"name":"a.weight","offset":0,"shape":[4,8],"nm_n":2,"nm_m":4,"dtype":"fp32",'
    text += b'"num_weights":32,"num_mask_bytes":8} ]\r\n\t} '
    return case(container([sparse().data], text), section="index", tensors={"a.weight": A})


def names() -> Case:
    """Names are any text: not ASCII, with escapes, of 200 characters."""
    entries = [entry(name='wörd "q" /\\ \t'), dense_entry(_AFTER, name="n" * 200)]
    held = {'wörd "q" /\\ \t': A, "n" * 200: B}
    return case(usual(entries=entries), section="index", tensors=held)


def escaped_name() -> Case:
    """A name is written with an escape, which the public runtime reads as six characters."""
    text = b'{"tensors":[{"name":"caf\\u00e9","offset":0,"shape":[4,8],"nm_n":2,"nm_m":4,'
    text += b'"dtype":"fp32","num_weights":32,"num_mask_bytes":8}]}'
    return case(container([sparse().data], text), section="index", tensors={"café": A})


def members_left_out() -> Case:
    """Entries without pattern, dtype and counts: the header has them."""
    gone = dict.fromkeys(("nm_n", "nm_m", "dtype", "num_weights", "num_mask_bytes"), ABSENT)
    entries = [entry(**gone), dense_entry(_AFTER, **gone)]
    return case(usual(entries=entries), section="index", tensors=BOTH)


def odd_addresses() -> Case:
    """A mask of 15 bytes makes the next blob begin at an odd offset."""
    values = [1.0, 0.0, 0.0, 2.0] * 15
    first = sparse(weights=floats(*values), mask=b"\x09" * 15, count=60)
    claim = {"shape": [15, 4], "num_weights": 60, "num_mask_bytes": 15}
    entries = [entry(**claim), dense_entry(len(first.data))]
    held = {
        "a.weight": Stored(
            shape=(15, 4),
            weights=first.weights,
            values=first.weights,
            mask=first.mask,
            nm="2:4",
        ),
        "b.weight": B,
    }
    return case(usual(first=first, entries=entries), section="layout", tensors=held)


def six_hundred_tensors() -> Case:
    """600 tensors, more than the public runtime loads, on one blob."""
    entries = [entry(name=f"t{number}") for number in range(600)]
    image = container([sparse().data], index(entries))
    held = {f"t{number}": A for number in range(600)}
    return case(image, section="index", tensors=held)


def special_values() -> Case:
    """Weights are infinite, not a number, subnormal, and zeros of both signs."""
    words = (0x7F800000, 0x80000000, 0x7FC12345, 0x00000000, 0xFF800000, 0x80000000, 0x00000001, 0)
    data = struct.pack("<8I", *words) * 4
    mask = bytes([0x05] * 8)
    values = b"".join(
        data[4 * at : 4 * at + 4] if at % 4 in {0, 2} else bytes(4) for at in range(32)
    )
    held = Stored(shape=(4, 8), weights=data, values=values, mask=mask, nm="2:4")
    image = container([sparse(weights=data, mask=mask).data], index([entry()]))
    return case(image, section="precision", tensors={"a.weight": held})
