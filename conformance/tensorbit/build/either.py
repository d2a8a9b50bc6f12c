"""Files of `either/`: the specification is silent, and each file records what we do and why."""

from __future__ import annotations

import struct

from conformance.build.case import ACCEPT, Case

from .accept import BOTH, FACTS, A, B
from .case import FAULTY, Stored, case
from .image import (
    ABSENT,
    CONFIG,
    HEADER,
    SPARSE_MASK,
    SPARSE_VALUES,
    Blob,
    Single,
    alone,
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

_AFTER = len(sparse().data)


def no_tensors() -> Case:
    """The list of tensors is empty."""
    return case(
        container([], index([])),
        section="index",
        facts=FACTS,
        choice="accepted: a model of nothing. The public runtime refuses it.",
    )


def no_config() -> Case:
    """There is neither configuration nor architecture."""
    return case(
        usual(config=ABSENT, architecture=ABSENT),
        section="index",
        tensors=BOTH,
        facts={"architecture": None, "config": None},
        choice="accepted: everything that is needed stands in the entries.",
    )


def empty_config() -> Case:
    """The configuration is an empty object."""
    return case(
        usual(config={}),
        section="index",
        tensors=BOTH,
        facts={"architecture": "llama", "config": {}},
        choice="accepted. The public runtime stops there and reports no tensors.",
    )


def unknown_members() -> Case:
    """There are members that nobody defined, at every level, fractions among them."""
    extra = {"x": [1, {"y": "z"}], "t": True, "u": None, "f": 0.5}
    config = {**CONFIG, "attention_dropout": 0.1}
    entries = [entry(extra=extra), dense_entry(_AFTER)]
    return case(
        usual(entries=entries, config=config, note=1.5),
        section="index",
        tensors=BOTH,
        facts={"architecture": "llama", "config": config},
        choice="accepted and kept. The public runtime cannot parse numbers with a fraction there.",
    )


def one_dimension() -> Case:
    """Sixteen weights in one dimension are written [16], [16, 1] and [16, 0]."""
    entries = [
        dense_entry(0, name="plain", shape=[16]),
        dense_entry(0, name="one", shape=[16, 1]),
        dense_entry(0, name="zero", shape=[16, 0]),
    ]
    return case(
        container([dense().data], index(entries)),
        section="index",
        tensors={"plain": B, "one": B, "zero": B},
        choice="accepted, and read as one dimension each: real files have all three.",
    )


def three_dimensions() -> Case:
    """A shape has three dimensions."""
    cube = Stored(shape=(2, 2, 8), weights=A.weights, values=A.values, mask=A.mask, nm="2:4")
    return case(
        alone(sparse(), {"shape": [2, 2, 8]}),
        section="index",
        tensors={"a.weight": cube},
        choice="accepted: nothing forbids it. The public runtime cannot parse it.",
    )


def no_weights() -> Case:
    """A tensor has no weights."""
    blob = dense(weights=b"", count=0)
    claim = dense_entry(0, shape=[0, 4], num_weights=0)
    return case(
        container([blob.data], index([claim])),
        section="layout",
        tensors={"b.weight": Stored(shape=(0, 4), weights=b"", values=b"")},
        choice="accepted: 0 is a number of weights.",
    )


def tied() -> Case:
    """Two tensors lie at one offset."""
    entries = [entry(), entry(name="alias.weight")]
    return case(
        container([sparse().data], index(entries)),
        section="file",
        tensors={"a.weight": A, "alias.weight": A},
        choice="accepted: that is how tied weights are stored once.",
    )


def gap() -> Case:
    """Zeros lie between two blobs, so that the second begins at a multiple of 4096."""
    first = sparse().data.ljust(2 * HEADER, b"\0")
    entries = [entry(), dense_entry(2 * HEADER)]
    return case(
        container([first, dense().data], index(entries)),
        section="file",
        tensors=BOTH,
        choice="accepted: offsets are explicit, and padding makes mapped weights aligned.",
    )


def gap_before_the_first() -> Case:
    """The first blob begins at 4096, behind bytes that are none."""
    entries = [entry(offset=HEADER)]
    return case(
        container([b"\xff" * HEADER, sparse().data], index(entries)),
        section="file",
        tensors={"a.weight": A},
        choice="accepted: offsets are explicit, and a container has no magic of its own.",
    )


def unused_blob() -> Case:
    """A blob has no entry in the index."""
    return case(
        usual(entries=[entry()]),
        section="index",
        tensors={"a.weight": A},
        choice="accepted: the index says what there is.",
    )


def weights_offset_5000() -> Case:
    """The weights begin at 5000."""
    return case(
        alone(sparse(filler=b"\xaa" * 904)),
        section="header",
        tensors={"a.weight": A},
        choice="accepted, though the offset is called 4096 always: the header says where they lie.",
    )


def gap_before_the_mask() -> Case:
    """Three bytes lie between weights and mask."""
    blob = sparse()
    data = blob.data[:-8].replace(
        struct.pack("<Q", HEADER + 128), struct.pack("<Q", HEADER + 131), 1
    )
    image = container([data + b"\1\2\3" + SPARSE_MASK], index([entry()]))
    return case(
        image,
        section="layout",
        tensors={"a.weight": A},
        choice="accepted: the header says where the mask lies.",
    )


def reserved() -> Case:
    """The reserved bytes of a header are not zero."""
    return case(
        alone(sparse(reserved=b"reserved")),
        section="header",
        tensors={"a.weight": A},
        choice="accepted: nobody reads them.",
    )


def masks_offset_without_a_mask() -> Case:
    """A blob without a mask says that its mask lies at 2^60."""
    blob = dense(masks_offset=1 << 60)
    return case(
        container([blob.data], index([dense_entry(0)])),
        section="header",
        tensors={"b.weight": B},
        choice="accepted: nothing lies there.",
    )


def no_mask() -> Case:
    """A tensor at 2:4 has no mask."""
    held = Stored(shape=(4, 8), weights=A.weights, values=A.values, nm="2:4")
    return case(
        alone(sparse(mask=b""), {"num_mask_bytes": 0}),
        section="mask",
        tensors={"a.weight": held},
        choice="accepted: weights that are not zero are the kept ones.",
    )


def nothing_kept() -> Case:
    """No weight of each four is kept."""
    data = bytes(128)
    held = Stored(shape=(4, 8), weights=data, values=data, mask=bytes(8), nm="0:4")
    return case(
        alone(sparse(weights=data, mask=bytes(8), n=0), {"nm_n": 0}),
        section="mask",
        tensors={"a.weight": held},
        choice="accepted: 0 is at most 4.",
    )


def bits_above_m() -> Case:
    """The bits above M are set, those below are right."""
    mask = bytes([0xF5, 0xFA] * 4)
    held = Stored(shape=(4, 8), weights=A.weights, values=A.values, mask=mask, nm="2:4")
    return case(
        alone(sparse(mask=mask)),
        section="mask",
        tensors={"a.weight": held},
        choice="accepted, and ignored: they stand for no weight.",
    )


def _tail(count: int, mask: bytes) -> tuple[Blob, bytes]:
    values = [*([1.0, 0.0, 2.0, 0.0] * 3)[: count - 1], 9.0]
    data = floats(*values)
    return sparse(weights=data, mask=mask, count=count), data


def short_group() -> Case:
    """Ten weights at 2:4 have a mask byte for the short last group."""
    blob, data = _tail(10, b"\5\5\3")
    held = Stored(shape=(10,), weights=data, values=data, mask=blob.mask, nm="2:4")
    return case(
        Single(blob.data),
        section="mask",
        tensors={"short-group": held},
        choice="accepted: the last group is short, and its unused bits are nothing.",
    )


def tail_without_a_mask() -> Case:
    """Ten weights at 2:4 have mask bytes for the two whole groups alone."""
    blob, data = _tail(10, b"\5\5")
    held = Stored(shape=(10,), weights=data, values=data, mask=blob.mask, nm="2:4")
    return case(
        Single(blob.data),
        section="mask",
        tensors={"tail-without-a-mask": held},
        choice="accepted, as a public tool writes it: weights without a bit are kept.",
    )


def one_mask_byte_at_8_of_16() -> Case:
    """A mask of 8:16 has one byte a group; weights that it does not cover are not zero."""
    values = [float(number + 1) for number in range(32)]
    data = floats(*values)
    kept = floats(*(v if at % 16 < 4 else 0.0 for at, v in enumerate(values)))
    blob = sparse(weights=data, mask=b"\x0f\x0f", n=8, m=16, count=32)
    held = Stored(shape=(32,), weights=data, values=kept, mask=blob.mask, nm="8:16")
    return case(
        Single(blob.data),
        section="mask",
        expect={"open": ACCEPT, "decode": ACCEPT},
        tensors={"one-mask-byte-at-8-of-16": held},
        choice="opened, as the public tool writes it; weights 8 and up of a group count as pruned.",
    )


def rows_cut_groups() -> Case:
    """Rows of six are cut by groups of four."""
    values = [1.0, 2.0, 0.0, 0.0] * 3
    data = floats(*values)
    held = Stored(shape=(2, 6), weights=data, values=data, mask=b"\3" * 3, nm="2:4")
    blob = sparse(weights=data, mask=b"\3" * 3, count=12)
    claim = {"shape": [2, 6], "num_weights": 12, "num_mask_bytes": 3}
    return case(
        alone(blob, claim),
        section="mask",
        tensors={"a.weight": held},
        choice="accepted: groups are cut from the flat array. The public runtime cuts rows.",
    )


def values_under_clear_bits() -> Case:
    """Weights are random and masks keep the first two, as the runtime's mock model has them."""
    values = [float(number + 1) for number in range(32)]
    data = floats(*values)
    kept = floats(*(v if at % 4 < 2 else 0.0 for at, v in enumerate(values)))
    held = Stored(shape=(4, 8), weights=data, values=kept, mask=b"\3" * 8, nm="2:4")
    return case(
        alone(sparse(weights=data, mask=b"\3" * 8)),
        section="layout",
        expect=FAULTY,
        rule="tb.pruned-zero",
        tensors={"a.weight": held},
        choice="opened and decoded as the mask says; verifying finds weights that are not zero.",
    )


def int8() -> Case:
    """Eight int8 weights have two scales, one for each four."""
    codes = [-128, -1, 0, 1, 127, 64, -64, 100]
    scales = (0.5, 2.0)
    values = floats(*(code * scales[at // 4] for at, code in enumerate(codes)))
    data = struct.pack("<8b", *codes)
    blob = dense(weights=data, scales=floats(*scales), count=8)
    claim = dense_entry(0, shape=[2, 4], dtype="int8", num_weights=8, scale_count=2, group_size=4)
    return case(
        container([blob.data], index([claim])),
        section="precision",
        tensors={"b.weight": Stored(shape=(2, 4), weights=data, values=values, nm="0:0")},
        choice="accepted, as the public runtime reads it; the specification has no int8.",
    )


def int4() -> Case:
    """Five int4 weights in three bytes, two scales at an odd address, and a mask at 2:4."""
    codes = [-8, 7, 0, 0, 3]
    data = bytes([0x78, 0x00, 0x03])
    scales = (0.25, 2.0)
    values = floats(*(code * scales[at // 4] for at, code in enumerate(codes)))
    blob = sparse(weights=data, scales=floats(*scales), mask=b"\3\1", count=5)
    claim = {
        "shape": [5],
        "dtype": "int4",
        "num_weights": 5,
        "num_mask_bytes": 2,
        "scale_count": 2,
        "group_size": 4,
    }
    held = Stored(shape=(5,), weights=data, values=values, mask=b"\3\1", nm="2:4")
    return case(
        alone(blob, claim),
        section="precision",
        tensors={"a.weight": held},
        choice="accepted, as the public runtime reads it: the low nibble comes first.",
    )


def int8_without_scales() -> Case:
    """Sixteen int8 weights have no scales, and the precision 7."""
    data = bytes(range(240, 256))
    blob = dense(weights=data, precision=7)
    claim = dense_entry(0, dtype="int8")
    return case(
        container([blob.data], index([claim])),
        section="precision",
        tensors={"b.weight": Stored(shape=(16,), weights=data, values=data, nm="0:0")},
        choice="accepted: the weights are the integers themselves.",
    )


def too_few_scales() -> Case:
    """Sixteen int8 weights in groups of four have two scales."""
    data = bytes([1] * 16)
    blob = dense(weights=data, scales=floats(2.0, 4.0))
    claim = dense_entry(0, dtype="int8", scale_count=2, group_size=4)
    values = floats(*[2.0] * 4, *[4.0] * 4, *[1.0] * 8)
    return case(
        container([blob.data], index([claim])),
        section="precision",
        tensors={"b.weight": Stored(shape=(16,), weights=data, values=values, nm="0:0")},
        choice="accepted, as the public runtime reads it: groups without a scale have 1.",
    )


def integers_as_fractions_in_config() -> Case:
    """hidden_size is written 8.0."""
    config = {**CONFIG, "hidden_size": 8.0}
    return case(
        usual(config=config),
        section="index",
        tensors=BOTH,
        facts={"architecture": "llama", "config": config},
        choice="accepted: what config holds is not judged. The public runtime refuses it.",
    )


def full_shape() -> Case:
    """A member of ours gives four dimensions where the shape gives two."""
    cube = Stored(shape=(4, 2, 2, 2), weights=A.weights, values=A.values, mask=A.mask, nm="2:4")
    return case(
        alone(sparse(), {"full_shape": [4, 2, 2, 2]}),
        section="index",
        tensors={"a.weight": cube},
        choice="our writer's way to keep what two dimensions cannot say; others ignore it.",
    )


def values_of_negative_zero() -> Case:
    """Pruned weights are -0.0."""
    values = [value or -0.0 for value in SPARSE_VALUES]
    data = floats(*values)
    held = Stored(
        shape=(4, 8), weights=data, values=floats(*SPARSE_VALUES), mask=SPARSE_MASK, nm="2:4"
    )
    return case(
        alone(sparse(weights=data)),
        section="layout",
        tensors={"a.weight": held},
        choice="accepted: -0.0 is 0.0. Masked values are +0.0.",
    )


def file_in_a_container() -> Case:
    """An entry of a container names a file, as those of a manifest do."""
    entries = [entry(file="../secret.tb"), dense_entry(_AFTER, file="a.tb")]
    return case(
        usual(entries=entries),
        section="index",
        tensors=BOTH,
        choice="accepted, and never opened: in a container the member means nothing.",
    )


def offset_in_a_manifest() -> Case:
    """An entry of a manifest has an offset, as those of a container do."""
    held = entry(offset=1 << 40, num_weights=ABSENT, num_mask_bytes=ABSENT, file="a.tb")
    return case(
        folder([held], {"a.tb": sparse().data}),
        section="manifest",
        tensors={"a.weight": A},
        choice="accepted, and not used: a file holds one blob, at its beginning.",
    )
