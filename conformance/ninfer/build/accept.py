"""Files of `accept/`: valid, each with something a strict reader must not refuse."""

from __future__ import annotations

import json
import struct

from conformance.build.case import Case

from .case import Plain, case
from .image import (
    TEMPLATE,
    USUAL_PAYLOAD,
    WORDS,
    Json,
    Set,
    directory,
    entry,
    part,
    resource,
    tensor,
    text_of,
    usual,
)

_BF16 = ("bf16", "contiguous_le_v1")
_USUAL = {"w": WORDS, "template": TEMPLATE}
_PARAMETERS = {"text/whole": Plain(WORDS, 2), "text/second": Plain(WORDS[4:], 2)}


def _usual(file: bytes, section: str) -> Case:
    return case(file, section, objects=_USUAL, parameters=_PARAMETERS)


def minimal() -> Case:
    """A file of one tensor, without bindings, uses, metadata or provenance."""
    found = directory([tensor("w", [2, 2], *_BF16, 0, 8)], 8)
    return case(entry(found, WORDS), "4.1", objects={"w": WORDS})


def usual_file() -> Case:
    """A tensor, a resource, two bindings and a use."""
    return _usual(entry(usual()), "4.1")


def json_padded() -> Case:
    """The text fills the file up to the payload with spaces, as writers reserve room."""
    return _usual(entry(usual(), padded=True), "3.1")


def json_pretty() -> Case:
    """The text is spread over lines, with space before and behind it."""
    return _usual(entry(b"\n\t " + json.dumps(usual(), indent=2).encode() + b" \r\n"), "1")


def json_escaped_id() -> Case:
    """An id is spelled with an escape where it is defined and plainly where it is used."""
    text = text_of(usual()).replace(b'"id":"w"', b'"id":"\\u0077"', 1)
    return _usual(entry(text), "1")


def json_minus_zero() -> Case:
    """An offset is -0, an integer whose value is 0."""
    text = text_of(usual()).replace(b'"offset":0', b'"offset":-0', 1)
    return _usual(entry(text), "1")


def json_member_order() -> Case:
    """Members of the root and of objects stand in the reverse order."""
    found = usual()
    records = [dict(reversed(each.items())) for each in found["objects"]]  # type: ignore[attr-defined]
    return _usual(entry(dict(reversed((found | {"objects": records}).items()))), "1")


def open_members() -> Case:
    """`config`, `metadata` and `provenance` hold what they like."""
    found = usual(
        metadata={"name": "Example", "description": "née", "more": [1, 2.5, None]},
        provenance={"sources": {"a": {"b": {"c": []}}}},
    )
    return _usual(entry(found), "10")


def components_without_text() -> Case:
    """The only component is not text."""
    found = usual(components={"ngram": {"config": {}}})
    return _usual(entry(found), "4.2")


def target_self() -> Case:
    """A component has itself for a target, and one has a component nobody knows."""
    components = {"text": {"config": {}, "target": "text"}, "x": {"config": {}, "target": "text"}}
    return _usual(entry(usual(components=components)), "4.2")


def proposals() -> Case:
    """A proposal is indexed."""
    text = {"config": {}, "proposal": {"domain": "indexed", "rows": 2}}
    return _usual(entry(usual(components={"text": text})), "9.2")


def use_without_policy() -> Case:
    """A use has no policy and an auxiliary that is one element of a vector."""
    records = [
        tensor("w", [2, 2], *_BF16, 0, 8),
        tensor("d", [3], "fp32", "contiguous_le_v1", 256, 12),
    ]
    divisor = {"parts": [{"object": "d", "range": [1, 2]}]}
    found = directory(
        records,
        268,
        bindings={"w": {"object": "w"}},
        uses=[
            {
                "parameter": "w",
                "input": "x",
                "auxiliaries": {"activation_input_divisor": divisor},
            }
        ],
    )
    divisors = struct.pack("<3f", 0, 448, -1)
    return case(
        entry(found, WORDS.ljust(256, b"\0") + divisors),
        "8",
        objects={"w": WORDS, "d": divisors},
        parameters={"w": Plain(WORDS, 2)},
    )


def parts_reordered() -> Case:
    """Parts take rows in another order, one of them twice."""
    ranges = [[2, 4], [0, 2], [2, 4]]
    binding = {"parts": [{"object": "w", "range": each} for each in ranges]}
    return case(
        entry(usual(bindings={"mixed": binding}, uses=[])),
        "7.1",
        objects=_USUAL,
        parameters={"mixed": Plain(WORDS[4:] + WORDS[:4] + WORDS[4:], 2)},
    )


def sharing() -> Case:
    """Two parameters are one object, and two roles one resource."""
    components = {
        "text": {"config": {}, "resources": {"a": "template", "b": "template"}},
        "vision": {"config": {}, "resources": {"a": "template"}},
    }
    bindings = {"embedding": {"object": "w"}, "head": {"object": "w"}}
    return case(
        entry(usual(components=components, bindings=bindings, uses=[])),
        "5.3",
        objects=_USUAL,
        parameters=dict.fromkeys(bindings, Plain(WORDS, 2)),
    )


def scalar() -> Case:
    """A tensor without dimensions has one element, and one has 16 dimensions."""
    records = [
        tensor("s", [], "fp32", "contiguous_le_v1", 0, 4),
        tensor("d", [1] * 15 + [2], "int32", "contiguous_le_v1", 256, 8),
    ]
    words, integers = struct.pack("<f", 0.5), struct.pack("<2i", -(1 << 31), (1 << 31) - 1)
    found = directory(records, 264, bindings={"s": {"object": "s"}})
    return case(
        entry(found, words.ljust(256, b"\0") + integers),
        "1",
        objects={"s": words, "d": integers},
        parameters={"s": Plain(words, 4)},
    )


def gaps() -> Case:
    """Bytes lie between the objects and behind the last one that belong to none."""
    records = [resource("a", 3, 1), tensor("w", [2, 2], *_BF16, 512, 8)]
    payload = b"\0\0\0a".ljust(512, b"\0") + WORDS + bytes(100)
    found = directory(records, len(payload))
    return case(entry(found, payload), "5.3", objects={"a": b"a", "w": WORDS})


def unknown_encoding() -> Case:
    """A resource has an encoding nobody defined; the tensors are there."""
    records: list[Json] = [
        tensor("w", [2, 2], *_BF16, 0, 8),
        resource("r", 8, 5) | {"encoding": "zipped_v7"},
    ]
    return case(
        entry(directory(records, 13), USUAL_PAYLOAD),
        "11.1",
        objects={"w": WORDS},
    )


def divisors_one() -> Case:
    """A tensor states that it has one divisor, which is the default."""
    record = tensor("w", [2, 2], *_BF16, 0, 8) | {"divisors": 1}
    return case(entry(directory([record], 8), WORDS), "5.1", objects={"w": WORDS})


def _set(names: list[str], cuts: list[int], payload: bytes, found: Json) -> Set:
    """Return a set whose payload is cut at these places, continuations under these names."""
    ends = [*cuts, len(payload)]
    sizes = [end - start for start, end in zip([0, *cuts], ends, strict=True)]
    lines = [
        {"path": name, "payload_bytes": size}
        for name, size in zip([None, *names], sizes, strict=True)
    ]
    files = Set({"": entry(found | {"files": lines}, payload[: ends[0]])})
    for index, name in enumerate(names, 1):
        files[name] = part(index, payload[ends[index - 1] : ends[index]])
    return files


def set_of_two() -> Case:
    """A tensor begins in the entry and ends in a continuation."""
    return case(
        _set(["set-of-two.ninfer.part-0001"], [4], USUAL_PAYLOAD, usual()),
        "2.2",
        objects=_USUAL,
        parameters=_PARAMETERS,
    )


def set_of_many() -> Case:
    """Every byte of a tensor is in a file of its own, under names that follow no pattern."""
    names = [f"set-of-many, piece {index} of 12" for index in range(1, 13)]
    return case(
        _set(names, list(range(1, 13)), USUAL_PAYLOAD, usual()),
        "2.2",
        objects=_USUAL,
        parameters=_PARAMETERS,
    )


def negative_scale() -> Case:
    """The scale of a q8 group is negative."""
    body = b"\x01".ljust(256, b"\0") + struct.pack("<4H", 0xBC00, 0, 0, 0)
    record = tensor("w", [1, 32], "q8_g32_fp16", "row_split_k128_v1", 0, 264)
    return case(entry(directory([record], 264), body), "6.1", objects={"w": body})
