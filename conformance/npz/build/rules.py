"""The rule table of npz. Sections: `zip` for the archive, `npy` for its members."""

from __future__ import annotations

from conformance.build.ruletable import table

RULES = table(
    "npz",
    """
frame
directory | zip | The file ends with a complete zip directory of one disk, whose parts agree.

open
name | zip | A name whose flag says UTF-8 is UTF-8.
duplicate-name | zip | No two members have one name.
ambiguous-name | zip | No name is that of an array without .npy, and none holds a zero byte.
encrypted | zip | No member is encrypted.
method | zip | A member is stored or deflated.
stored-size | zip | A stored member is as long as its file, a deflated one grows 1032-fold.
entry-bounds | zip | Each member lies before the directory.
local-header | zip | The local header of a member says what the directory says.
overlap | zip | Members do not overlap.
data-bounds | zip | What is stored of a member ends before the directory.

schema
header | npy | An array begins with a header of version 1 to 3 whose three members have their types.
data-size | npy | An array has as many bytes as its shape and its dtype call for.

content
crc | zip | The CRC-32 of a member is that of its bytes.
stored-crc | zip | The CRC-32 of a deflated or reordered array is that of its bytes.
stream | npy | A deflated array is one deflate stream that decodes to the size of the member.
""",
)
