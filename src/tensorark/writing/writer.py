"""Writing tensors: chunks in, a validated file published at the end, or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import prod
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, SupportsIndex, get_args

from tensorark import files
from tensorark.core.model import Part, Tensor
from tensorark.core.rules import Reading
from tensorark.core.types import DTYPES, RESTRICTED, TYPES, size_of
from tensorark.core.writing import Options
from tensorark.errors import Hint, InvalidInput, Rejected, unstorable
from tensorark.files import PathLike
from tensorark.formats.zt import ZT
from tensorark.formats.zt.amend import KEEP
from tensorark.formats.zt.encode import check_align
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN
from tensorark.io.inputs import aside
from tensorark.io.publish import publish
from tensorark.io.source import octets
from tensorark.layouts import layout_of
from tensorark.layouts.dense.rules import ID as DENSE
from tensorark.layouts.payload import Passing, is_ruled
from tensorark.writing.append import Generation, generation
from tensorark.writing.assembly import (
    Assembly,
    choose_align,
    compression_of,
    require_suffix,
    revalidate,
)
from tensorark.writing.planned import rewrite

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorark.encodings import Compression
    from tensorark.layouts.numbers.dtypes import Array
    from tensorark.layouts.parts import TensorParts

Ids = tuple[str, str | None]
"""A storage type, and a logical type or None."""

Digest = Literal["xxh3", "sha256", "none"]
"""How the parts of a `.zt` are digested."""


class _Dropped(Exception):
    """What was written served its purpose and is not published."""


class Writer:
    """Writes a `.zt`, tensor by tensor, in bounded memory.

    The file is canonical (§6.3) unless `align` asks for another placement or `encoding` for encoded
    parts. Tensors may come in any order: canonical order is restored at the end by one more copy,
    which tensors given in ascending order of their names save. Nothing appears at `path` before a
    clean exit, and nothing that was there is harmed by a failure.

    `encoding` ``zstd`` compresses every part that has bytes, whether it shrinks or not, with zstd's
    `level` (3) and `frame_size` decoded bytes in a frame (1 MiB); blobs start at multiples of 4096
    unless `align` is given. The encoding that a single tensor is given goes before it.

    `digest` is the algorithm that parts are digested by: ``xxh3``, ``sha256`` for digests that
    stand for content against an adversary (§6.5), or ``none``; with the last two the file is not
    canonical, though it is placed as if it were. `compact` is the smallest legal alignment, 4096:
    for many small tensors, which canonical form places 64 KiB apart.

    A file at `path` is replaced, as `save_file` does and public writers do; `overwrite` False
    refuses to. Verbs that make files from files, such as `convert`, ask first.

    `append` adds a generation to the `.zt` at `path` instead (§2.5): its bytes stay as they are and
    what is written comes behind them, placed as the file was unless `align` says otherwise. Names
    that it has are refused, or superseded with `replace`; its attributes stay unless `attributes`
    are given. After a failure the file is cut back to its old length; a process that is killed
    leaves a file that readers refuse (`tensorark.diagnose` says what is left).
    """

    def __init__(
        self,
        path: PathLike,
        *,
        attributes: Mapping[str, object] | None = None,
        align: int | None = None,
        overwrite: bool = True,
        append: bool = False,
        replace: bool = False,
        encoding: str | None = None,
        level: int | None = None,
        frame_size: int | None = None,
        digest: Digest = "xxh3",
        compact: bool = False,
    ) -> None:
        self._compression = compression_of(encoding, level=level, frame_size=frame_size)
        self._digest = check_choice(digest)
        align = choose_align(align, compact=compact)
        if self._compression is not None and align is None and not append:
            align = ALIGN
        if replace and not append:
            raise InvalidInput("`replace` is a matter of appending", code="option")
        self.path = os.fspath(path)
        if not append:
            require_suffix(path)
        self._append = append
        self._replace = replace
        self.generation: Generation | None = None
        self._given_align = align
        self._canonical = align is None and digest == "xxh3"
        self._align = check_align(CANONICAL_ALIGN if align is None else align)
        self._attributes = attributes if append else attributes or None
        self._overwrite = overwrite
        self._exits = ExitStack()
        self._tensors: list[Tensor] = []
        self._streaming = False
        self._is_open = False

    def __enter__(self) -> Self:
        self._is_open = True
        if self._append:
            begun = self._exits.enter_context(generation(self.path, align=self._given_align))
            self.generation = begun
            self._assembly = Assembly(begun.sink, begun.align)
            return self
        self._sink = self._exits.enter_context(publish(self.path, overwrite=self._overwrite))
        self._assembly = Assembly(self._sink, self._align)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        if error is None and self._streaming:
            error = InvalidInput(
                "a tensor was begun and not ended, so nothing is published",
                code="stream",
                path=self.path,
            )
            self._exits.__exit__(InvalidInput, error, None)
            raise error
        if error is not None:
            self._exits.__exit__(kind, error, trace)
            return
        if self.generation is not None:
            with self._exits:
                kept = KEEP if self._attributes is None else self._attributes
                self.generation.finish(self._tensors, attributes=kept)
            return
        ordered = sorted(self._tensors, key=lambda tensor: tensor.name)
        if self._canonical and ordered != self._tensors:
            self._reorder()
            return
        with self._exits:
            self._assembly.finish(self._tensors, self._attributes)
            revalidate(self._sink, canonical_form=self._canonical)

    def _reorder(self) -> None:
        """Publish a canonical copy of what was written in another order, and drop the original."""
        dropped = _Dropped()
        try:
            self._assembly.finish(self._tensors, self._attributes)
            revalidate(self._sink, canonical_form=False)
            with (
                aside(),  # what is written is no input
                files.open(self._sink.path, io="pread") as spool,
                publish(self.path, overwrite=self._overwrite) as sink,
            ):
                rewrite(spool, sink, ZT, Options())
        finally:
            self._exits.__exit__(_Dropped, dropped, None)

    def add(
        self,
        name: str,
        array: Any,
        *,
        attributes: Mapping[str, object] | None = None,
        encoding: str | None = None,
    ) -> None:
        """Write an array, or anything numpy makes one of, as a dense tensor.

        Strided, Fortran-order, broadcast, big-endian, 0-d and empty arrays are stored by value.
        Dense tensors of torch are taken as they are, bf16 and float8 included. `encoding`, ``raw``
        or ``zstd``, goes before that of the file.

        Raises:
            InvalidInput: when numpy makes no array of it, no storage type holds its elements, a
                byte is none that their type allows, or the file is to be canonical and the tensor
                encoded.
        """
        from tensorark.layouts.numbers.arrays import as_array
        from tensorark.layouts.numbers.dtypes import encode, ids_of

        where = ("objects", name)
        values = as_array(array, where)
        parts = {"data": (ids_of(values.dtype, where), encode(values))}
        self.add_parts(name, values.shape, "dense", parts, attributes=attributes, encoding=encoding)

    def add_parts(
        self,
        name: str,
        shape: tuple[int, ...],
        layout: str,
        parts: Mapping[str, tuple[Ids, Iterable[Buffer]]],
        *,
        attributes: Mapping[str, object] | None = None,
        encoding: str | None = None,
    ) -> None:
        """Write a tensor of any layout from the decoded bytes of its parts.

        `parts` gives for each role the storage type, the logical type or None, and the bytes in
        chunks; `encoding` is that of all of them. A layout that is not known here is kept as it is;
        its id is ``<vendor>.<name>/<version>``.

        Raises:
            InvalidInput: when the id of the layout or of a type is none, or the bytes are none that
                a reader would take.
        """
        self._check_name(name)
        check_ids(name, layout, [ids for ids, _ in parts.values()])
        extents = _extents(shape)
        elements = prod(extents) if layout == "dense" else None
        compression = self._compression_for(name, encoding)
        self._begin_tensor()
        written = {}
        for role in sorted(parts):
            ids, chunks = parts[role]
            self._assembly.begin(compression, sha256=self._digest == "sha256")
            into: Stream | Assembly = self._assembly
            if ids[1] in RESTRICTED:
                into = self._passing(name, role, ids, elements)
            for chunk in chunks:
                into.write(chunk)
            written[role] = self._end(ids)
        self._end_tensor(Tensor(name, extents, layout, written, attributes or None))

    def add_laid(
        self,
        name: str,
        laid: TensorParts,
        *,
        attributes: Mapping[str, object] | None = None,
        encoding: str | None = None,
    ) -> None:
        """Write a tensor that `tensorark.sparse` or `tensorark.quantize` laid out in parts.

        `attributes` are added to those that its layout needs; `encoding` is that of all parts.

        Raises:
            InvalidInput: when both have an attribute.
        """
        own = laid.attributes or {}
        both = own.keys() & (attributes or {}).keys()
        if both:
            detail = "the layout has an attribute of that name"
            raise InvalidInput(detail, code="attribute", found=", ".join(sorted(both)))
        merged = {**own, **(attributes or {})} or None
        self.add_parts(
            name, laid.shape, laid.layout, laid.parts, attributes=merged, encoding=encoding
        )

    @contextmanager
    def stream(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        *,
        attributes: Mapping[str, object] | None = None,
        encoding: str | None = None,
    ) -> Iterator[Stream]:
        """Declare a dense tensor, then feed its row-major little-endian bytes in chunks.

        `dtype` is a storage type or a registered logical type. Used as a context manager:

            with writer.stream("w", (4096, 4096), "bf16") as part:
                for block in blocks:
                    part.write(block)

        Raises:
            InvalidInput: when the bytes fed are not as many as shape and type say.
        """
        self._check_name(name)
        ids, extents = _ids(dtype), _extents(shape)
        expected = size_of(*ids, prod(extents))
        compression = self._compression_for(name, encoding)
        self._begin_tensor()
        self._assembly.begin(compression, sha256=self._digest == "sha256")
        yield self._passing(name, "data", ids, prod(extents))
        part = self._end(ids)
        if part.nbytes != expected:
            raise InvalidInput(
                "the bytes fed are not as many as shape and type say",
                code="stream-length",
                where=("objects", name),
                expected=f"{expected} bytes",
                found=part.nbytes,
            )
        self._end_tensor(Tensor(name, extents, "dense", {"data": part}, attributes or None))

    def _check_name(self, name: object) -> None:
        if not isinstance(name, str):
            detail = "the name of a tensor is not text"
            raise InvalidInput(detail, code="name", found=type(name).__name__)
        if self.generation is not None and not self._replace and name in self.generation.names:
            raise InvalidInput(
                "the file has a tensor of this name",
                code="name",
                path=self.path,
                where=("objects", name),
                hint=Hint("replace=True supersedes it", tark="--replace supersedes it"),
            )

    def _compression_for(self, name: str, encoding: str | None) -> Compression | None:
        """Return how a tensor is encoded: as it asks to be, else as the file is."""
        if encoding is None:
            return self._compression
        wanted = compression_of(encoding)
        if wanted is not None and self._compression is not None:
            return replace(self._compression, encoding=wanted.encoding)
        if wanted is not None and self._canonical and not self._append:
            raise InvalidInput(
                "a canonical file has no encoded parts",
                code="zt.canonical-raw",
                section="6.3.4",
                where=("objects", name),
                hint=Hint(
                    "give the writer encoding= or align=: then it is not canonical",
                    tark="--align makes a file that is not canonical",
                ),
            )
        return wanted

    def _passing(self, name: str, role: str, ids: Ids, elements: int | None) -> Stream:
        """Return what takes the bytes of a part, judging those that its type forbids."""
        where = ("objects", name, "parts", role)
        return Stream(self._assembly, Passing(*ids, where, elements))

    def _begin_tensor(self) -> None:
        if not self._is_open:
            detail = "a writer takes tensors inside of its `with` block"
            raise InvalidInput(detail, code="closed", path=self.path)
        if self._streaming:
            raise InvalidInput("another tensor is still being fed", code="stream")
        self._streaming = True

    def _end(self, ids: Ids) -> Part:
        span, digest = self._assembly.end()
        found = self._assembly.digest(self._digest, digest)
        return Part(self._assembly.blob(span), *ids, found)

    def _end_tensor(self, tensor: Tensor) -> None:
        """Take a tensor whose parts are written, once its layout was judged."""
        if is_ruled(tensor.layout):
            self._assembly.judge(tensor)
        self._streaming = False
        self._tensors.append(tensor)


@dataclass(frozen=True, slots=True)
class Stream:
    """A part that is being fed; a byte that its type forbids is refused as it passes."""

    assembly: Assembly
    passing: Passing

    def write(self, chunk: Buffer | Array) -> None:
        """Feed the next bytes: anything with a contiguous buffer, an array included.

        Raises:
            InvalidInput: when `chunk` is no contiguous buffer, or has a byte that its type forbids.
        """
        # numpy says that its arrays are buffers from Python 3.12 on only.
        data = octets(chunk)  # type: ignore[arg-type]
        self.assembly.write(judge_bytes(self.passing, data))


def judge_bytes(passing: Passing, data: memoryview) -> memoryview:
    """Return the next bytes of a part, if its type allows them.

    Raises:
        InvalidInput: when it does not: what the caller gave cannot be stored.
    """
    try:
        passing.judge(data, _READING)
    except Rejected as error:
        raise unstorable(error) from error
    return data


_READING: Final = Reading()

_NAMESPACED: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", re.ASCII)
_VERSION: Final = re.compile(r"/[1-9][0-9]*", re.ASCII)


def check_ids(name: str, layout: str, parts: Sequence[Ids]) -> None:
    """Require that the ids of a new tensor are registered ones, or of somebody's own namespace.

    Raises:
        InvalidInput: for the first that is neither (§4.2, §5.2).
    """
    where = ("objects", name)
    if layout == DENSE and all(type_ is None and dtype in DTYPES for dtype, type_ in parts):
        return  # of which there may be a hundred thousand
    if layout_of(layout) is None and not _is_vendors(layout):
        raise InvalidInput(
            "no such layout",
            code="layout",
            section="5.2",
            where=(*where, "layout"),
            expected="dense, a profile of the registry, or <vendor>.<name>/<version>",
            found=layout,
        )
    for dtype, type_ in parts:
        known = dtype in DTYPES and (type_ is None or type_ in TYPES or _is_namespaced(type_))
        if not known:
            raise InvalidInput(
                "no such type",
                code="dtype",
                section="4.2",
                where=(*where, "parts"),
                expected="a storage type, with a registered logical type or <vendor>.<name>",
                found=dtype if type_ is None else f"{type_} over {dtype}",
            )


def _is_vendors(layout: str) -> bool:
    """Tell whether a layout id is one that a vendor may use."""
    stem, slash, version = layout.partition("/")
    return bool(_is_namespaced(stem) and _VERSION.fullmatch(slash + version))


def _is_namespaced(id_: str) -> bool:
    return bool(_NAMESPACED.fullmatch(id_)) and not id_.startswith("zt.")


def _extents(shape: Iterable[SupportsIndex]) -> tuple[int, ...]:
    try:
        return tuple(index(dimension) for dimension in shape)
    except TypeError as error:
        detail = "a shape is a sequence of integers"
        raise InvalidInput(detail, code="shape", found=repr(shape)) from error


def _ids(dtype: str) -> Ids:
    if dtype in DTYPES:
        return dtype, None
    if dtype in TYPES:
        return TYPES[dtype].dtype, dtype
    known = " ".join([*DTYPES, *TYPES])
    raise InvalidInput("no such type", code="dtype", expected=f"one of {known}", found=dtype)


def check_choice(digest: str) -> Digest:
    """Return `digest` if parts can be digested so.

    Raises:
        InvalidInput: when there is no such choice.
    """
    for known in get_args(Digest):
        if digest == known:
            return digest  # type: ignore[return-value]  # it is one of them
    expected = " ".join(get_args(Digest))
    raise InvalidInput("no such digest", code="option", expected=expected, found=digest)
