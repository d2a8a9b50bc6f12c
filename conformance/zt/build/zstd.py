"""Files of `reject/` whose part is not what the encoding profile `zt.zstd-seekable/1` asks for."""

from __future__ import annotations

import struct

import xxhash

from .image import FLOOR, Image, image
from .manifest import root
from .seekable import (
    BLOCK_LIMIT,
    compressed,
    encoded,
    frame,
    literals,
    low_half,
    raw,
    rle,
    stream,
    table,
    zeros,
)

HELLO = b"hello"
FRAME_LIMIT = 16 << 20


def _file(stored: bytes, content: bytes | int) -> Image:
    return image(root(objects={"t": encoded(stored, content)}), {FLOOR: stored})


def _hello(data: bytes, *, size: int = len(HELLO), **table_fields: int) -> Image:
    """Return the file of one frame that should hold `hello`."""
    return _file(stream((data, size), **table_fields), HELLO)


_FRAME = frame(HELLO)

# --- the end of the table ------------------------------------------------------------------------


def zstd_footer_magic() -> Image:
    """The magic at the end has one wrong bit."""
    return _hello(_FRAME, end=0x8F92EAB0)


def zstd_footer_magic__no_table() -> Image:
    """There is no table: the stored bytes are one plain zstd frame."""
    return _file(_FRAME, HELLO)


def zstd_footer_magic__cut() -> Image:
    """The last stored byte is missing."""
    return _file(stream((_FRAME, 5))[:-1], HELLO)


def zstd_table_size() -> Image:
    """The length that the table states is one less than it is."""
    return _hello(_FRAME, length=16)


def zstd_table_size__nothing() -> Image:
    """A tensor without elements is stored as nothing at all; a table alone has 17 bytes."""
    return _file(b"", b"")


def zstd_table_size__sixteen() -> Image:
    """A table without entries lost its first byte."""
    return _file(table(())[1:], b"")


def zstd_table_size__count() -> Image:
    """The table claims one entry more than all stored bytes have room for."""
    return _file(stream((_FRAME, 5), count=4), HELLO)


def zstd_table_size__largest_count() -> Image:
    """The table claims 2^32 - 1 entries; times eight that wraps to a small number in 32 bits."""
    return _file(stream((_FRAME, 5), count=(1 << 32) - 1), HELLO)


def zstd_descriptor() -> Image:
    """Bit 0 of the descriptor is set."""
    return _hello(_FRAME, descriptor=1)


def zstd_descriptor__bit_6() -> Image:
    """Bit 6 of the descriptor is set."""
    return _hello(_FRAME, descriptor=0x40)


def zstd_descriptor__with_checksums() -> Image:
    """Entries carry checksums, and bit 1 of the descriptor is set."""
    return _file(
        stream((_FRAME, 5), checksums=[low_half(HELLO)], descriptor=0x82),
        HELLO,
    )


# --- the table -----------------------------------------------------------------------------------


def zstd_table_magic() -> Image:
    """The table lies in a skippable frame of another number."""
    return _hello(_FRAME, magic=0x184D2A50)


def zstd_table_magic__count() -> Image:
    """The table has two entries and claims one."""
    return _file(stream((_FRAME, 5), (_FRAME, 5), count=1), HELLO * 2)


def zstd_table_magic__checksums() -> Image:
    """The descriptor says that entries carry checksums, and they do not."""
    return _file(stream((frame(HELLO * 2), 10), descriptor=0x80), HELLO * 2)


def zstd_compressed_sizes() -> Image:
    """A byte between the frame and the table belongs to nothing."""
    return _file(_FRAME + b"\0" + table([(len(_FRAME), 5)]), HELLO)


def zstd_compressed_sizes__wraps() -> Image:
    """The compressed sizes add up to the bytes before the table in 32 bits only."""
    half = 1 << 31
    return _file(_FRAME + table([(half, 5), (half + len(_FRAME), 0)]), HELLO)


def zstd_decoded_length() -> Image:
    """The table promises four bytes of five."""
    return _hello(frame(b"hell"), size=4)


def zstd_decoded_length__nothing() -> Image:
    """The table is empty, the tensor is not."""
    return _file(table(()), HELLO)


def zstd_decoded_length__frame_of_nothing() -> Image:
    """Five bytes are promised for a tensor without elements."""
    return _file(stream((_FRAME, 5)), b"")


def zstd_frame_limit() -> Image:
    """A frame holds one byte more than 16 MiB, all of them there."""
    size = FRAME_LIMIT + 1
    return _file(stream((frame(bytes(size), zeros(size)), size)), size)


def zstd_frame_limit__largest() -> Image:
    """An entry promises 2^32 - 1 bytes for 18 stored ones."""
    size = (1 << 32) - 1
    return _file(stream((_FRAME, size)), size)


def zstd_equal_frames() -> Image:
    """The frames hold 5, 4 and 5 bytes."""
    frames = [(frame(data), len(data)) for data in (HELLO, b"hell", HELLO)]
    return _file(stream(*frames), b"hellohellhello")


def zstd_equal_frames__first() -> Image:
    """The frames hold 4, 5, 5 and 4 bytes."""
    frames = [(frame(data), len(data)) for data in (b"hell", HELLO, HELLO, b"hell")]
    return _file(stream(*frames), b"hellhellohellohell")


# --- the frames ----------------------------------------------------------------------------------


def zstd_frame() -> Image:
    """An entry holds two frames; a decoder that reads on would find all ten bytes."""
    return _file(stream((_FRAME * 2, 10)), HELLO * 2)


def zstd_frame__skippable() -> Image:
    """An entry holds a skippable frame before its frame."""
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    return _hello(skippable + _FRAME)


def zstd_frame__skippable_behind() -> Image:
    """An entry holds a skippable frame behind its frame."""
    return _hello(_FRAME + struct.pack("<II", 0x184D2A5F, 0))


def zstd_frame__trailing() -> Image:
    """An entry holds one byte more than its frame."""
    return _hello(_FRAME + b"\0")


def zstd_frame__no_bytes() -> Image:
    """An entry of no stored and no decoded bytes is no frame."""
    return _file(stream((_FRAME, 5), (b"", 0)), HELLO)


def zstd_frame__no_magic() -> Image:
    """A frame begins with the magic of an early version of zstd."""
    return _hello(b"\x27" + _FRAME[1:])


def zstd_frame__cut() -> Image:
    """A frame lacks the last byte of its checksum."""
    return _hello(_FRAME[:-1])


def zstd_frame__cut_block() -> Image:
    """A block promises one byte more than the entry has left; the checksum is taken for data."""
    return _hello(frame(HELLO, (10 << 3 | 1).to_bytes(3, "little") + HELLO))


def zstd_frame__cut_header() -> Image:
    """An entry ends inside a frame header."""
    return _hello(_FRAME[:5])


def zstd_frame__no_blocks() -> Image:
    """An entry ends where the blocks should begin."""
    return _hello(_FRAME[:6])


def zstd_frame__no_last_block() -> Image:
    """No block says that it is the last."""
    return _hello(frame(HELLO, raw(HELLO, last=False)))


def zstd_frame__reserved_block() -> Image:
    """A block is of the reserved type."""
    return _hello(frame(HELLO, (5 << 3 | 7).to_bytes(3, "little") + HELLO))


def zstd_frame__reserved_bit() -> Image:
    """The reserved bit of a frame header is set."""
    return _hello(frame(HELLO, flags=4 | 8))


def zstd_frame__large_block() -> Image:
    """An RLE block stands for one byte more than 128 KiB."""
    size = BLOCK_LIMIT + 1
    blocks = rle(7, size)
    return _file(stream((frame(b"\7" * size, blocks), size)), b"\7" * size)


def zstd_checksum_flag() -> Image:
    """A frame carries no checksum."""
    return _hello(frame(HELLO, flags=0))


def zstd_checksum_flag__second() -> Image:
    """The second of two frames carries no checksum."""
    return _file(stream((_FRAME, 5), (frame(HELLO, flags=0), 5)), HELLO * 2)


def zstd_checksum_flag__in_the_table() -> Image:
    """The checksum is in the table and not in the frame."""
    bare = frame(HELLO, flags=0)
    return _file(
        stream((bare, 5), checksums=[low_half(HELLO)], descriptor=0x80),
        HELLO,
    )


def zstd_dictionary() -> Image:
    """A frame asks for the dictionary 7, in one byte."""
    return _hello(frame(HELLO, flags=4 | 1, dictionary=b"\x07"))


def zstd_dictionary__four_bytes() -> Image:
    """A frame asks for the dictionary 2^31, in four bytes."""
    return _hello(frame(HELLO, flags=4 | 3, dictionary=b"\0\0\0\x80"))


def zstd_frame_size() -> Image:
    """A frame decodes to four bytes, and the table promises five."""
    return _hello(frame(b"hell"))


def zstd_frame_size__longer() -> Image:
    """A frame decodes to six bytes, and the table promises five."""
    return _hello(frame(b"hello!"))


def zstd_frame_size__stated() -> Image:
    """A frame states that it holds six bytes, and holds five, as the table promises."""
    return _hello(frame(HELLO, flags=4 | 0xC0, stated=struct.pack("<Q", 6)))


def zstd_frame_size__compressed() -> Image:
    """A compressed block gives four bytes, and the table promises five."""
    return _hello(frame(b"hell", compressed(literals(b"hell"))))


def zstd_frame_size__promise() -> Image:
    """An entry promises 16 MiB for 22 stored bytes that cannot hold them."""
    blocks = rle(0, 1, last=False) + rle(0, 1)
    return _file(stream((frame(b"\0\0", blocks), FRAME_LIMIT)), FRAME_LIMIT)


def zstd_data() -> Image:
    """The literals of a compressed block run past it."""
    return _hello(frame(HELLO, compressed(b"\xf8hello\0")))


def zstd_data__sequences() -> Image:
    """A compressed block promises a sequence and has none."""
    return _hello(frame(HELLO, compressed(b"\x28hello\x01")))


def zstd_checksum() -> Image:
    """One bit of a checksum is wrong."""
    return _hello(frame(HELLO, checksum=low_half(HELLO) ^ 1))


def zstd_checksum__content() -> Image:
    """A letter of the content was exchanged; the part's digest is that of the new content."""
    return _file(stream((frame(b"hallo", checksum=low_half(HELLO)), 5)), b"hallo")


def zstd_checksum__high_half() -> Image:
    """A checksum is the high half of the hash."""
    return _hello(frame(HELLO, checksum=xxhash.xxh64_intdigest(HELLO) >> 32))


def zstd_checksum__second() -> Image:
    """The checksum of the second frame is that of the first."""
    second = frame(b"world", checksum=low_half(HELLO))
    return _file(stream((_FRAME, 5), (second, 5)), b"helloworld")


def zstd_checksum__no_content() -> Image:
    """A frame without content has a checksum of zero."""
    return _file(stream((frame(b"", checksum=0), 0)), b"")


def zstd_table_checksum() -> Image:
    """One bit of a checksum in the table is wrong."""
    return _hello_checked(low_half(HELLO) ^ 1)


def zstd_table_checksum__zero() -> Image:
    """A checksum in the table is zero, as if it had not been computed."""
    return _hello_checked(0)


def _hello_checked(checksum: int) -> Image:
    return _file(stream((_FRAME, 5), checksums=[checksum], descriptor=0x80), HELLO)
