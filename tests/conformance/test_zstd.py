"""The zt.zstd-seekable/1 files of this corpus under two other opinions.

The reference reader takes the profile for an unknown encoding, so these files get a judge of their
own. The library of the specification's authors is the second; where it is laxer than the text, that
is listed.
"""

from __future__ import annotations

import hashlib
import json

import pytest
import ztensor

from conformance.reference import ztread

from .corpus_files import CORPUS, image, index
from .zstd_judge import Broken, decode

ZSTD = "zt.zstd-seekable/1"
OURS = {file["path"]: file for file in index()["files"] if file["requires"] == ZSTD}

LAXER = {
    "zt.zstd-checksum-flag", "zt.zstd-table-checksum",
    "zt/reject/zstd-frame.zt", "zt/reject/zstd-frame--skippable.zt",
    "zt/reject/zstd-frame--skippable-behind.zt", "zt/reject/zstd-frame--no-bytes.zt",
    "zt/reject/zstd-frame--large-block.zt",
}  # fmt: skip
"""Rules that the public library does not have, and files that it accepts under another."""


def opinion(path):
    """Return the rule that a file breaks, or None, and the contents of its tensors by name."""
    contents = {}
    with path.open("rb") as file:
        frame = ztread.read_frame(file)
        tensors = ztread.tensors(ztread.read_manifest(file, frame))
        for tensor in tensors:
            (part,) = tensor.parts.values()
            file.seek(part.offset)
            data = file.read(part.length)
            try:
                contents[tensor.name] = decode(data, part.nbytes) if part.encoding else data
            except Broken as broken:
                return str(broken), contents
    return None, contents


@pytest.mark.parametrize("path", OURS)
def test_a_judge_made_from_the_text_agrees(path):
    rule, contents = opinion(CORPUS / path)
    assert rule == OURS[path]["rule"]
    if rule is None:
        expected = json.loads((CORPUS / OURS[path]["contents"]).read_bytes())["tensors"]
        for name, tensor in expected.items():
            assert hashlib.sha256(contents[name]).hexdigest() == tensor["parts"]["data"]["sha256"]


@pytest.mark.parametrize("path", OURS)
def test_the_public_library_agrees_except_where_it_is_laxer(path):
    file = OURS[path]
    lax = file["rule"] in LAXER or path in LAXER
    with image(path) as made, ztensor.open(str(made)) as source:
        for name in source:
            if file["class"] == "reject" and not lax:
                with pytest.raises(ValueError, match="rejected"):
                    source[name].tobytes()
            else:
                values = source[name].tobytes()
                if file["contents"]:
                    expected = json.loads((CORPUS / file["contents"]).read_bytes())
                    sha256 = expected["tensors"][name]["parts"]["data"]["sha256"]
                    assert hashlib.sha256(values).hexdigest() == sha256
