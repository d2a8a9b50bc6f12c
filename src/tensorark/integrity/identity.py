"""The identity of a model: the digest of its content, whatever holds it, and that of its file."""

from __future__ import annotations

from dataclasses import replace

from tensorark import files
from tensorark.conversion.as_zt_model import normalize
from tensorark.core.model import Tensor
from tensorark.core.progress import Progress
from tensorark.files import File, PathLike
from tensorark.files.hashes import hash_pieces
from tensorark.formats.zt.digest import Algorithm, check_algorithm
from tensorark.formats.zt.digest import content_digest as digest_of
from tensorark.integrity.digests import is_large, label_digest, workers


def content_digest(
    model: PathLike, algorithm: Algorithm = "xxh3", *, progress: Progress | None = None
) -> str:
    """Return the content digest (`.zt` §6.4) of any file, as ``<algorithm>:<hex>``.

    That is the identity of the `.zt` which the file converts to (`conversion.as_zt_model`). A `.zt`
    is digested from its manifest alone, which must give every part a digest; the digests go in as
    they stand. Other formats carry none: their parts are hashed with xxh3.

    Raises:
        Unsupported: when a part of a `.zt` carries no digest, or the file is a data shard.
    """
    with files.open(model) as file:
        if file.format.has_digests:
            return digest_of(file.catalog.tensors.values(), algorithm)
        return digest_of(digest_tensors(normalize(file), progress), algorithm)


def digest_tensors(file: File, progress: Progress | None = None) -> list[Tensor]:
    """Return the tensors of `file`, with an xxh3 digest computed for each part that has none."""

    def digest(name: str) -> Tensor:
        tensor = file.catalog.tensors[name]
        parts = {}
        for role, part in tensor.parts.items():
            found = part.digest
            if found is None:
                where = ("objects", name, "parts", role)
                in_pieces = is_large(file, part)
                pieces = file.pieces(part, where) if in_pieces else (file.payload(part, where),)
                found = "xxh3:" + hash_pieces(pieces, "xxh3")
            parts[role] = replace(part, digest=found)
        if progress:
            progress(tensor.nbytes)
        file.evict(tensor)
        return replace(tensor, parts=parts)

    def digest_all(names: list[str]) -> list[Tensor]:
        return [digest(name) for name in names]

    with workers(None) as pool:
        return [each for batch in pool.map(digest_all, file.batches()) for each in batch]


def file_digest(file: File, algorithm: Algorithm, progress: Progress = lambda _done: None) -> str:
    """Return the whole-file digest of the opened file: the identity of an artifact (§6.1).

    Raises:
        InvalidInput: when there is no such algorithm.
    """
    digest = label_digest(file, None, check_algorithm(algorithm), progress)
    return f"{algorithm}:{digest}"
