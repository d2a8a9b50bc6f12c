"""The content digest of `.zt` (§6.4): what a model is, however it was laid out or split.

Pure: computed from a catalog, never stored, never approximated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal

import xxhash

from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput, Unsupported
from tensorark.formats.zt.encode import encode_content_part, encode_objects
from tensorark.wire.cbor import encode_head, encode_text

Algorithm = Literal["xxh3", "sha256"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = ("xxh3", "sha256")


def content_digest(tensors: Iterable[Tensor], algorithm: Algorithm = "xxh3") -> str:
    """Return the content digest of `tensors` as ``<algorithm>:<hex>``.

    Raises:
        Unsupported: when a part carries no digest, so that nothing stands for its content.
        InvalidInput: when there is no such algorithm.
    """
    check_algorithm(algorithm)
    objects = list(tensors)
    for tensor in objects:
        for role, part in tensor.parts.items():
            if part.digest is None:
                raise Unsupported(
                    "the content digest is undefined: a part carries no digest",
                    code="no-digest",
                    section="6.4",
                    where=("objects", tensor.name, "parts", role),
                )
    value = encode_head(4, 2) + encode_text("zt.content/1")
    value += encode_objects(objects, encode_content_part)
    return f"{algorithm}:{hexdigest(value, algorithm)}"


def hexdigest(data: bytes | memoryview, algorithm: Algorithm) -> str:
    """Return the lowercase hexadecimal digest of `data`: 16 digits for xxh3, 64 for sha256.

    Raises:
        InvalidInput: when there is no such algorithm.
    """
    if check_algorithm(algorithm) == "xxh3":
        return xxhash.xxh3_64_hexdigest(data)
    return hashlib.sha256(data).hexdigest()


def check_algorithm(name: str) -> Algorithm:
    """Return `name` if digests are made with it.

    Raises:
        InvalidInput: when they are not.
    """
    for known in ALGORITHMS:
        if known == name:
            return known
    detail, expected = "no such digest algorithm", " ".join(ALGORITHMS)
    raise InvalidInput(detail, code="option", expected=f"one of {expected}", found=name)
