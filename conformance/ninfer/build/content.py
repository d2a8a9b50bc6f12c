"""Files of `reject/` whose directory is sound: what shows when an object is read, or verified."""

from __future__ import annotations

import struct

from .image import (
    ARTIFACT,
    TEMPLATE,
    WORDS,
    Json,
    Set,
    directory,
    entry,
    part,
    resource,
    tensor,
)

_BF16 = ("bf16", "contiguous_le_v1")
_FP32 = ("fp32", "contiguous_le_v1")
_INT32 = ("int32", "contiguous_le_v1")
_Q8 = ("q8_g32_fp16", "row_split_k128_v1")
_T2 = ("t2_g128_fp16", "row_split_k128_v1")
_Q2 = ("q2_g64_fp16", "row_split_k128_v1")
_FP8 = ("fp8_e4m3fn_row_bf16", "row_scale_v1")
_NVFP4 = ("nvfp4", "block_scale_k16_m128x4_v1")
_ONE = struct.pack("<H", 0x3C00)  # 1 in FP16


def _alone(record: Json, payload: bytes) -> bytes:
    """Return a file of one object."""
    return entry(directory([record], len(payload)), payload)


# ------------------------------------------------------------------------------ reading an object


def tensor_align() -> bytes:
    """A tensor starts at byte 8 of the payload, behind a resource."""
    records = [resource("template", 0, 5), tensor("w", [2, 2], *_BF16, 8, 8)]
    return entry(directory(records, 16), TEMPLATE.ljust(8, b"\0") + WORDS)


def tensor_shape() -> bytes:
    """A vector is stored in a layout of matrices."""
    return _alone(tensor("w", [128], *_Q8, 0, 264), bytes(264))


def tensor_shape__layout() -> bytes:
    """Codes of eight bits are stored in the layout of plain words."""
    return _alone(tensor("w", [2, 2], "q8_g32_fp16", "contiguous_le_v1", 0, 4), bytes(4))


def tensor_shape__nvfp4_rows() -> bytes:
    """An nvfp4 matrix has 64 rows, half a tile."""
    return _alone(tensor("w", [64, 64], *_NVFP4, 0, 2308), bytes(2308))


def tensor_shape__divisors() -> bytes:
    """A matrix of bf16 has two divisors."""
    record = tensor("w", [2, 2], *_BF16, 0, 8) | {"divisors": 2}
    return _alone(record, WORDS)


def tensor_shape__uneven_divisors() -> bytes:
    """An nvfp4 matrix of 384 rows has two divisors, for 192 rows each."""
    size = 384 * 32 + 384 * 4 + 8
    return _alone(tensor("w", [384, 64], *_NVFP4, 0, size) | {"divisors": 2}, bytes(size))


def tensor_bytes() -> bytes:
    """Four elements of bf16 have nine bytes."""
    return _alone(tensor("w", [2, 2], *_BF16, 0, 9), WORDS + b"\0")


def tensor_bytes__padding_forgotten() -> bytes:
    """The rows of a q8 matrix are not padded to 128 columns."""
    return _alone(tensor("w", [1, 32], *_Q8, 0, 258), bytes(258))


# ---------------------------------------------------------------------------------- continuations


def _set(stem: str, second: bytes) -> Set:
    """Return a set of two files whose only object crosses from one into the other."""
    name = f"{stem}.ninfer.part-0001"
    lines = [
        {"path": None, "payload_bytes": 4},
        {"path": name, "payload_bytes": 4},
    ]
    found = directory([tensor("w", [2, 2], *_BF16, 0, 8)], 8, files=lines)
    return Set({"": entry(found, WORDS[:4]), name: second})


def part_header() -> Set:
    """A continuation has 31 bytes."""
    return _set("part-header", part(1, WORDS[4:])[:31])


def part_magic() -> Set:
    """A continuation has the magic of an entry."""
    return _set("part-magic", part(1, WORDS[4:], magic=b"NINFER\0\x03"))


def part_magic__version_2() -> Set:
    """A continuation is of version 2."""
    return _set("part-magic--version-2", part(1, WORDS[4:], magic=b"NINPRT\0\x02"))


def part_index() -> Set:
    """A continuation says that it is the second one."""
    return _set("part-index", part(2, WORDS[4:]))


def part_artifact() -> Set:
    """A continuation has the id of another artifact."""
    return _set("part-artifact", part(1, WORDS[4:], artifact=ARTIFACT[::-1]))


def part_size() -> Set:
    """A continuation lacks its last byte."""
    return _set("part-size", part(1, WORDS[4:])[:-1])


def part_size__long() -> Set:
    """A byte follows the payload of a continuation."""
    return _set("part-size--long", part(1, WORDS[4:]) + b"\0")


# ------------------------------------------------------------------------------------ codes, scales


def _row(codes: bytes, scales: bytes, gap: bytes = b"\0") -> bytes:
    """Return the object of a row of up to 128 columns: a base plane, a gap and scales."""
    base = codes.ljust(128, b"\0")
    return base + gap * (256 - len(base)) + scales.ljust(8, b"\0")


def _q8(codes: bytes, scales: bytes, gap: bytes = b"\0") -> bytes:
    return _alone(tensor("w", [1, 32], *_Q8, 0, 264), _row(codes, scales, gap))


def code_word() -> bytes:
    """A q8 code is 0x80."""
    return _q8(b"\x80", _ONE)


def code_word__t2() -> bytes:
    """A t2 code is 10."""
    body = b"\x02".ljust(256, b"\0") + _ONE
    return _alone(tensor("w", [1, 4], *_T2, 0, 258), body)


def code_word__fp8() -> bytes:
    """An FP8 code is NaN."""
    body = b"\x38\xff".ljust(256, b"\0") + struct.pack("<H", 0x3F80)
    return _alone(tensor("w", [1, 2], *_FP8, 0, 258), body)


def scale_word() -> bytes:
    """A scale is infinite."""
    return _q8(b"\x01", struct.pack("<H", 0x7C00))


def scale_word__minus_zero() -> bytes:
    """A scale is minus zero."""
    return _q8(b"", struct.pack("<H", 0x8000))


def scale_word__nan_in_q2() -> bytes:
    """A q2 scale is NaN."""
    body = (b"\x55" * 32).ljust(256, b"\0") + struct.pack("<2H", 0x7E00, 0)
    return _alone(tensor("w", [1, 64], *_Q2, 0, 260), body)


def scale_word__fp8() -> bytes:
    """The scale of an FP8 row is negative."""
    body = b"\x38".ljust(256, b"\0") + struct.pack("<H", 0xBF80)
    return _alone(tensor("w", [1, 1], *_FP8, 0, 258), body)


def scale_word__nvfp4() -> bytes:
    """A block scale of nvfp4 is 0x80, minus zero."""
    body = bytes(4096) + b"\x80" + bytes(511) + struct.pack("<f", 1)
    return _alone(tensor("w", [128, 64], *_NVFP4, 0, 4612), body)


def zero_scale() -> bytes:
    """A code is 1 under a scale of zero."""
    return _q8(b"\x01", b"\0\0")


def zero_scale__fp8() -> bytes:
    """A code is 1.0 in a row whose scale is zero."""
    body = b"\x80\x38".ljust(256, b"\0") + b"\0\0"
    return _alone(tensor("w", [1, 2], *_FP8, 0, 258), body)


def divisor_word() -> bytes:
    """The weight divisor is zero."""
    return _alone(tensor("w", [128, 64], *_NVFP4, 0, 4612), bytes(4612))


def divisor_word__second() -> bytes:
    """The second of two divisors is infinite."""
    body = bytes(256 * 36) + struct.pack("<2f", 1, float("inf"))
    return _alone(tensor("w", [256, 64], *_NVFP4, 0, 9224) | {"divisors": 2}, body)


def padding_word() -> bytes:
    """A code behind the last column is 1."""
    return _q8(b"\x01" * 33, _ONE + _ONE)


def padding_word__scale() -> bytes:
    """A group of padding alone has a scale."""
    return _q8(b"\x01" * 32, _ONE + _ONE)


def plane_gap() -> bytes:
    """The bytes between base plane and scales are FF."""
    return _q8(b"\x01", _ONE, b"\xff")


# ---------------------------------------------------------------------------------------- the uses


def _used(matrix: Json, body: bytes, role: str, record: Json, values: bytes) -> bytes:
    """Return a file whose matrix, with `body`, has one use, with `values` as its auxiliary."""
    start = -(-len(body) // 256) * 256
    record = record | {"offset": start}
    found = directory(
        [matrix, record],
        start + len(values),
        bindings={"m": {"object": "m"}},
        uses=[{"parameter": "m", "input": "x", "auxiliaries": {role: {"object": record["id"]}}}],
    )
    return entry(found, body.ljust(start, b"\0") + values)


def _divisor(values: bytes, shape: list[int], kind: tuple[str, str] = _FP32) -> bytes:
    record = tensor("d", shape, *kind, 0, len(values))
    matrix = tensor("m", [2, 2], *_BF16, 0, 8)
    return _used(matrix, WORDS, "activation_input_divisor", record, values)


def activation_divisor() -> bytes:
    """An activation divisor is zero."""
    return _divisor(bytes(4), [])


def activation_divisor__two() -> bytes:
    """An activation divisor has two elements."""
    return _divisor(struct.pack("<2f", 1, 2), [2])


def activation_divisor__bf16() -> bytes:
    """An activation divisor is bf16."""
    return _divisor(struct.pack("<H", 0x3F80), [], _BF16)


def _signs(width: int, values: bytes) -> bytes:
    matrix = tensor("m", [1, width], *_BF16, 0, 2 * width)
    record = tensor("s", [len(values) // 2], *_BF16, 0, len(values))
    return _used(matrix, bytes(2 * width), "hadamard_signs", record, values)


def hadamard_signs() -> bytes:
    """A sign is 2."""
    return _signs(1024, struct.pack("<H", 0x3F80) * 1023 + struct.pack("<H", 0x4000))


def hadamard_signs__width() -> bytes:
    """The matrix has 512 columns."""
    return _signs(512, struct.pack("<H", 0x3F80) * 512)


def hadamard_signs__short() -> bytes:
    """There are signs for half of the columns."""
    return _signs(2048, struct.pack("<H", 0xBF80) * 1024)


def _columns(values: list[int], kind: tuple[str, str], body: bytes) -> bytes:
    matrix = tensor("m", [1, 32], *kind, 0, len(body))
    data = struct.pack(f"<{len(values)}i", *values)
    record = tensor("c", [len(values)], *_INT32, 0, len(data))
    return _used(matrix, body, "input_columns", record, data)


def input_columns() -> bytes:
    """A column occurs twice and another one not at all."""
    return _columns([0, *range(31)], ("gguf_q8_0", "gguf_blocks_v1"), bytes(34))


def input_columns__bf16() -> bytes:
    """A matrix of bf16 has its columns reordered."""
    return _columns(list(range(32)), _BF16, bytes(64))


def input_columns__negative() -> bytes:
    """A column is -1."""
    return _columns([*range(31), -1], ("gguf_q8_0", "gguf_blocks_v1"), bytes(34))
