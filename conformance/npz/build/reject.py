"""Files of `reject/`: each breaks the rule that its name begins with, and no other."""

from __future__ import annotations

from .image import (
    DEFLATED,
    END,
    FULL,
    PLAIN,
    Member,
    alone,
    archive,
    deflated,
    described,
    headed,
    npy,
)

# --- frame ---------------------------------------------------------------------------------------


def directory() -> bytes:
    """The last byte is missing."""
    return archive(Member())[:-1]


def directory__no_end() -> bytes:
    """The end record is missing."""
    return archive(Member())[: -END.size]


def directory__tail() -> bytes:
    """A byte follows the end record, which has no comment."""
    return archive(Member()) + b"x"


def directory__disk() -> bytes:
    """The archive is the second of two disks."""
    return archive(Member(), disk=1)


def directory__length() -> bytes:
    """The directory would be one byte shorter."""
    return archive(Member(), length=50)


def directory__count() -> bytes:
    """Nine members are counted, and one is listed."""
    return archive(Member(), here=9, count=9)


def directory__far() -> bytes:
    """The directory would be longer than the file."""
    return archive(Member(), length=FULL - 1)


def directory__magic() -> bytes:
    """An entry begins otherwise."""
    return archive(Member()).replace(b"PK\1\2", b"PK\1\3")


def directory__no_local_header() -> bytes:
    """There is no local header where an entry says."""
    return archive(Member(), Member(name=b"b.npy", offset=1))


def directory__no_wide_size() -> bytes:
    """The size of a member stands in a field of 64 bits that is not there."""
    return alone(size=FULL)


def directory__name_length() -> bytes:
    """A name reaches out of the directory."""
    return archive(Member()).replace(b"\5\0" + bytes(7), b"\5\0\xff" + bytes(6))


def directory__wide_end() -> bytes:
    """The record of 64 bits begins otherwise."""
    return archive(Member(), zip64=True).replace(b"PK\6\6", b"PK\6\5")


def directory__wide_place() -> bytes:
    """What says where the record of 64 bits lies begins otherwise."""
    return archive(Member(), zip64=True).replace(b"PK\6\7", b"PK\6\5")


# --- open ----------------------------------------------------------------------------------------

_UTF8 = 2048


def name() -> bytes:
    """A name is 0xFF and its flag says UTF-8."""
    return archive(Member(), Member(name=b"\xff.npy", flags=_UTF8))


def duplicate_name() -> bytes:
    """Two members have one name."""
    return archive(Member(), Member())


def duplicate_name__flags() -> bytes:
    """Two members have one name, which the second says to be UTF-8."""
    return archive(Member(), Member(flags=_UTF8))


def ambiguous_name() -> bytes:
    """The members are a.npy and a.npy.npy."""
    return archive(Member(), Member(name=b"a.npy.npy"))


def ambiguous_name__bare() -> bytes:
    """The members are a.npy and a."""
    return archive(Member(), Member(name=b"a"))


def ambiguous_name__nul() -> bytes:
    """A name holds a zero byte."""
    return alone(name=b"a\0.npy")


def encrypted() -> bytes:
    """The flag of encryption is set."""
    return alone(flags=1)


def encrypted__strong() -> bytes:
    """The flag of strong encryption is set."""
    return alone(flags=64)


def encrypted__directory() -> bytes:
    """The flag of an encrypted directory is set."""
    return alone(flags=8192)


def method() -> bytes:
    """A member is compressed with bzip2."""
    return alone(method=12)


def method__deflate64() -> bytes:
    """A member is compressed with Deflate64."""
    return alone(method=9)


def stored_size() -> bytes:
    """A stored member would decode to five bytes."""
    return alone(size=5)


def stored_size__grows() -> bytes:
    """Two deflated bytes would become 3000."""
    return alone(method=DEFLATED, stored=b"\3\0", size=3000)


def stored_size__nothing() -> bytes:
    """No deflated byte would become one."""
    return alone(method=DEFLATED, stored=b"", size=1)


def entry_bounds() -> bytes:
    """A member lies behind the end of the file."""
    return alone(offset=1 << 20)


def entry_bounds__far() -> bytes:
    """A member lies at 2^32 - 2."""
    return alone(offset=FULL - 1)


def local_header() -> bytes:
    """The local header of a.npy says b.npy."""
    return alone(local=b"b.npy")


def local_header__crc() -> bytes:
    """The local header has another CRC than the directory."""
    return alone(local_crc=1)


def overlap() -> bytes:
    """A whole member lies in the data of another one."""
    inner = archive(Member(name=b"b.npy"))[: 35 + len(PLAIN)]
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(inner)},)}}"
    outer = Member(data=npy(header, inner))
    at = 35 + len(outer.data) - len(inner)
    return archive(outer, Member(name=b"b.npy", offset=at, is_ghost=True))


def data_bounds() -> bytes:
    """The extra field of the last member is longer than there is room for."""
    return archive(Member(), Member(name=b"b.npy", extra=bytes(8), extra_length=20))


# --- schema --------------------------------------------------------------------------------------

_TEXT = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"


def header() -> bytes:
    """A member is empty."""
    return alone(data=b"")


def header__cut() -> bytes:
    """A member ends behind the first byte of its version."""
    return alone(data=PLAIN[:7])


def header__magic() -> bytes:
    """A member begins otherwise."""
    return alone(data=b"\x93NUMPZ" + PLAIN[6:])


def header__version() -> bytes:
    """The version is 4."""
    return alone(data=PLAIN[:6] + b"\4" + PLAIN[7:])


def header__long() -> bytes:
    """The header would have 65535 bytes."""
    return alone(data=PLAIN[:8] + b"\xff\xff" + PLAIN[10:])


def header__four_gigabytes() -> bytes:
    """The header of version 2 would have 2^32 - 1 bytes."""
    return alone(data=npy("{}", b"", 2)[:8] + b"\xff" * 4)


def header__longer() -> bytes:
    """The header would have 255 bytes, which is more than the member has."""
    return alone(data=PLAIN[:8] + b"\xff\0" + PLAIN[10:])


def header__deflated_cut() -> bytes:
    """A deflated member ends behind the first byte of its version."""
    return alone(method=DEFLATED, data=PLAIN[:7])


def header__stream_early() -> bytes:
    """A deflate stream is damaged behind its second byte."""
    return alone(method=DEFLATED, stored=deflated(PLAIN)[:2] + b"\xff" * 90)


def header__deflated_zeros() -> bytes:
    """A deflated member is zeros."""
    return alone(method=DEFLATED, data=bytes(200))


def header__utf8() -> bytes:
    """The header of version 3 is no UTF-8."""
    return alone(data=npy(_TEXT.replace("f4", "\xe9"), version=3).replace(b"\xc3\xa9", b"\xff\xff"))


def header__comma() -> bytes:
    """A comma is missing."""
    return headed("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}")


def header__stream() -> bytes:
    """A deflate stream is damaged at its beginning."""
    return alone(method=DEFLATED, stored=b"\xff" * 40, size=60)


def header__empty() -> bytes:
    """The header is an empty map."""
    return headed("{}")


def header__list() -> bytes:
    """The header is a list."""
    return headed("[]")


def header__order() -> bytes:
    """fortran_order is 0."""
    return headed("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}")


def header__shape_list() -> bytes:
    """The shape is a list."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': [1]}")


def header__shape_number() -> bytes:
    """The shape is a number in brackets."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}")


def header__negative() -> bytes:
    """A dimension is -1."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}")


def header__true() -> bytes:
    """A dimension is True."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}")


def header__large() -> bytes:
    """A dimension is 2^63."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}")


def header__fourth() -> bytes:
    """There is a fourth member."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}")


def header__twice() -> bytes:
    """There are two descr."""
    return headed("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}")


def header__tail() -> bytes:
    """Text follows the map."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x")


def header__call() -> bytes:
    """descr is a call."""
    return headed("{'descr': open('x'), 'fortran_order': False, 'shape': (1,)}")


def header__nested() -> bytes:
    """5000 brackets are open at once."""
    return headed("{'descr': " + "(" * 5000 + ", 'fortran_order': False, 'shape': (1,)}")


def header__digits() -> bytes:
    """A dimension has 5000 digits."""
    return headed("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}")


def data_size() -> bytes:
    """Two f32 have four bytes."""
    return alone(data=described("<f4", "(2,)"))


def data_size__long() -> bytes:
    """One f32 has five bytes."""
    return alone(data=described("<f4", "(1,)", bytes(5)))


def data_size__wraps() -> bytes:
    """The bytes of the shape are 2^66, which is 0 in 64 bits."""
    return alone(data=described("<f4", "(4611686018427387904, 4)"))


def data_size__text() -> bytes:
    """A text of two characters has four bytes."""
    return alone(data=described("<U2", "(1,)"))


# --- content -------------------------------------------------------------------------------------


def crc() -> bytes:
    """The CRC of a stored array is 1."""
    return alone(crc=1)


def stored_crc() -> bytes:
    """The CRC of a deflated array is 1."""
    return alone(method=DEFLATED, crc=1)


def stored_crc__big_endian() -> bytes:
    """The CRC of a big-endian array is 1."""
    return alone(data=described(">f4", "(1,)"), crc=1)


def stored_crc__fortran() -> bytes:
    """The CRC of an array in column-major order is 1."""
    return alone(data=described("<f4", "(2, 2)", bytes(16), fortran=True), crc=1)


def stream() -> bytes:
    """A deflate stream is damaged at its end."""
    return alone(method=DEFLATED, stored=deflated(PLAIN)[:-4] + b"\xff" * 4)


def stream__short() -> bytes:
    """The last byte of a deflate stream is missing."""
    return alone(method=DEFLATED, stored=deflated(PLAIN)[:-1])


def stream__tail() -> bytes:
    """A byte follows a deflate stream."""
    return alone(method=DEFLATED, stored=deflated(PLAIN) + b"x")


def stream__longer() -> bytes:
    """A deflate stream decodes to one byte more than the member has."""
    return alone(method=DEFLATED, stored=deflated(PLAIN + b"x"))


def stream__shorter() -> bytes:
    """A deflate stream decodes to one byte less than the member has."""
    return alone(method=DEFLATED, stored=deflated(PLAIN[:-1]))
