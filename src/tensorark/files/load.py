"""Loading tensors of an opened file into memory of the process, in large parallel reads.

Owns the comparing of digests while the bytes arrive. What a file says nothing about is refused when
its bytes were to be verified, never passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorark.core.matching import near
from tensorark.core.model import Encoded, Part, Raw, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Hint, InvalidInput, NotFound, Rejected, Unsupported
from tensorark.files.hashes import HASHES

if TYPE_CHECKING:
    from tensorark.encodings.encoding import Decoder
    from tensorark.files.file import File
    from tensorark.layouts.numbers.dtypes import Array

Where = tuple[str | int, ...]


def choose_names(
    file: File, keys: Iterable[str] | None = None, prefix: str | None = None
) -> list[str]:
    """Return the names `keys`, or those that begin with `prefix`; all without either.

    Raises:
        NotFound: when there is no tensor of such a name.
        InvalidInput: when both are given, or `keys` is one string.
    """
    if keys is None:
        found = list(file) if prefix is None else [each for each in file if each.startswith(prefix)]
        if prefix is not None and not found:
            detail = "no name of a tensor begins so"
            hint = near(prefix, file)
            raise NotFound(detail, code="no-match", path=file.path, found=prefix, hint=hint)
        return found
    if prefix is not None:
        raise InvalidInput("names are chosen by keys or by a prefix", code="option")
    if isinstance(keys, str):
        raise InvalidInput("keys are several names", code="option", expected=f"[{keys!r}]")
    found = list(dict.fromkeys(keys))
    for name in found:
        if name not in file:
            file[name]  # there is none
    return found


def load_all(file: File, names: Iterable[str], *, verify: bool = False) -> dict[str, Array]:
    """Load tensors into arrays of their own; with `verify`, compare their digests meanwhile.

    Raises:
        Rejected: when bytes do not match their digest.
        Unsupported: with `verify`, when nothing in the file tells whether the bytes are right.
    """
    from tensorark.io.load import load
    from tensorark.layouts.numbers.dtypes import decode

    # Each tensor is built when it is asked for.
    tensors = [(name, file.catalog.tensors[name]) for name in names]
    plain = [(name, tensor.parts["data"]) for name, tensor in tensors if _is_plain(tensor)]
    checks = _Checks.of(file, plain) if verify else None
    views = load(file.source, [part.blob.spans[0] for _, part in plain], on_block=checks)
    buffers = {name: view for (name, _), view in zip(plain, views, strict=True)}
    arrays: dict[str, Array] = {}
    for name, tensor in tensors:
        if name in buffers:
            part = tensor.parts["data"]
            arrays[name] = decode(
                buffers[name], (part.dtype, part.type), tensor.shape, _where(name, "data")
            )
        else:
            arrays[name] = file[name].numpy(copy=True)
            if verify:
                _compare(file, tensor, arrays[name])
    return arrays


def _is_plain(tensor: Tensor) -> bool:
    """Tell whether the bytes of a tensor are its values, in one place."""
    part = tensor.parts.get("data")
    return (
        tensor.layout == "dense"
        and part is not None
        and isinstance(part.blob, Raw)
        and len(part.blob.spans) == 1
    )


def _where(name: str, role: str) -> Where:
    return ("objects", name, "parts", role)


class _Check:
    """Compares the bytes of one part, as they come, with its digest or its CRC."""

    __slots__ = ("_running", "_state", "file", "left", "part", "where")

    def __init__(self, file: File, part: Part, where: Where) -> None:
        self.file, self.part, self.where, self.left = file, part, where, part.nbytes
        algorithm = (part.digest or "").partition(":")[0]
        self._state = HASHES[algorithm]() if algorithm in HASHES else None
        self._running = file.checksum_of(part, where) if part.digest is None else None

    def update(self, data: memoryview) -> None:
        """Take more bytes, and judge after the last.

        Raises:
            Rejected: when they are not those that were written.
        """
        self.left -= data.nbytes
        if self._state is not None:
            self._state.update(data)
        if self._running is not None:
            self._running = self._running.after(data)
        if not self.left:
            self._judge()

    def _judge(self) -> None:
        from tensorark.formats.zt.part_digest import PartDigest, digest

        reading = Reading()
        if self._running is not None:
            self._running.require(reading, self.file.path)
        if self._state is not None:
            stored = str(self.part.digest).partition(":")[2]
            found = PartDigest(self.where, stored, self._state.hexdigest(), self.part.blob.spans)
            try:
                reading.require((digest,), found)
            except Rejected as error:
                error.located(self.file.path)
                raise


@dataclass(frozen=True, slots=True)
class _Checks:
    """The parts that are being loaded, by number; called for each of their blocks in order."""

    file: File
    parts: Sequence[tuple[str, Part]]
    begun: dict[int, _Check]

    @classmethod
    def of(cls, file: File, parts: Sequence[tuple[str, Part]]) -> _Checks:
        """Require that there is something to compare each part with, before anything is read."""
        for name, part in parts:
            _is_checked(file, part, _where(name, "data"))
            if not part.nbytes:
                _Check(file, part, _where(name, "data")).update(memoryview(b""))
        return cls(file, parts, {})

    def __call__(self, index: int, start: int, view: memoryview) -> None:
        """Hash a block of part number `index`."""
        if start == 0:
            name, part = self.parts[index]
            self.begun[index] = _Check(self.file, part, _where(name, "data"))
        check = self.begun[index]
        check.update(view)
        if not check.left:
            del self.begun[index]


def _compare(file: File, tensor: Tensor, values: Array) -> None:
    """Compare what an array was made of: its own bytes where they are those of the part."""
    import numpy as np

    for role, part in tensor.parts.items():
        where = _where(tensor.name, role)
        if _is_checked(file, part, where):
            continue
        check = _Check(file, part, where)
        own = tensor.layout == "dense" and values.nbytes == part.nbytes
        if own:
            check.update(memoryview(np.ascontiguousarray(values).reshape(-1).view("u1").data))
        else:
            for piece in file.pieces(part, where) if part.nbytes else (memoryview(b""),):
                check.update(piece)


def _is_checked(file: File, part: Part, where: Where) -> bool:
    """Tell whether the bytes of a part need no more comparing: by its encoding, or its shard.

    What is False carries a digest or a CRC.

    Raises:
        ReadFailed: when its shard is another file.
        Unsupported: when it does not.
    """
    if part.digest is not None:
        algorithm = part.digest.partition(":")[0]
        if algorithm in HASHES:
            return False
        raise Unsupported(
            "the digest's algorithm is unknown",
            code="unknown-algorithm",
            section="3.4",
            path=file.path,
            where=(*where, "digest"),
            expected="one of " + " ".join(HASHES),
            found=algorithm,
        )
    labels = {span.file for span in part.blob.spans if span.length}
    if labels and labels <= file.catalog.shards.keys():
        file.prove(labels)
        return True
    if isinstance(part.blob, Encoded) and _checks_itself(file.decoder(part, where)):
        return True
    if not part.nbytes or file.checksum_of(part, where) is not None:
        return False
    raise Unsupported(
        "nothing in the file tells whether these bytes are right",
        code="no-digest",
        path=file.path,
        where=where,
        hint=Hint("seal() keeps digests beside a file of any format", tark="`tark seal` does"),
    )


def _checks_itself(decoder: Decoder) -> bool:
    """Tell whether the encoding of a part checks all of it, which is known when it is decoded."""
    for _piece in decoder.pieces():
        pass
    return decoder.is_checked
