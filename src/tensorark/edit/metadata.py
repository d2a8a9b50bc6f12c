"""Attributes of a file or of a tensor: reading them, and changing them without touching payload.

Owns where an edit goes. A `.zt` gets one more generation, which costs its manifest; safetensors a
new header in a new file, with the data copied behind it, because a header changed in place could be
lost with everything behind it. Values keep their types in both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensorark import files
from tensorark.conversion.ledger import settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.matching import near
from tensorark.core.model import Span
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import InvalidInput, NotFound, Unsupported
from tensorark.files import File, PathLike
from tensorark.formats.zt.amend import KEEP
from tensorark.io.inputs import amending, operation
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.wire.cbor import Unencodable, encode
from tensorark.writing.append import generation
from tensorark.writing.assembly import revalidate
from tensorark.writing.planned import rewrite

Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an edit did: attributes after it, and the size of the file in bytes before and after.

    `dropped` is what the file held beside attributes and does not any more.
    """

    __repr__ = brief

    path: str
    attributes: Attributes = field(default_factory=dict)
    before: int
    after: int
    dropped: tuple[Loss, ...] = ()


def metadata_of(path: PathLike, *, tensor: str | None = None) -> dict[str, object]:
    """Return the attributes of the model at `path`, or of one of its tensors, with their types.

    Raises:
        NotFound: when there is no such tensor.
    """
    with files.open(path) as file:
        return dict(_attributes(file, tensor) or {})


@operation()
def edit_metadata(
    path: PathLike,
    values: Attributes | None = None,
    *,
    remove: Sequence[str] = (),
    tensor: str | None = None,
    repack: bool = False,
    drop: Collection[str] = (),
    progress: Progress = lambda _done: None,
) -> Edit:
    """Set attributes of the file at `path`, or of one tensor, to `values`; take `remove` away.

    A `.zt` gets another generation, or with `repack` is written anew, canonical; safetensors is
    written anew. Writing anew needs room for a copy and replaces the file at once; what is not kept
    then is refused unless `drop` names its kind (`conversion.ledger`). Where nothing changes
    nothing is written.

    Raises:
        NotFound: when there is no such tensor, or no such key to remove.
        InvalidInput: when a value or a key cannot be stored.
        Unsupported: when the format keeps no attributes that we change, or something would be lost.
        ReadFailed: when something cannot be read or written.
    """
    with files.open(path) as file:
        size = file.source.size()
        old = _attributes(file, tensor)
        new = _edit(file, old or {}, values or {}, remove)
        if _encode(new or {}, tensor) == _encode(old or {}, tensor) and not repack:
            return Edit(path=file.path, attributes=new or {}, before=size, after=size)
        dropped: tuple[Loss, ...] = ()
        if file.format.grows and not repack:
            with generation(file.path) as amended:
                if tensor is None:
                    amended.finish(attributes=new)
                else:
                    amended.finish(attributes=KEEP, tensor_attributes={tensor: new})
        else:
            _require_alone(file)
            options = Options(drop=frozenset(drop))
            settled = settle(file, file.format, Path(file.path), options)
            settled.require()
            dropped = settled.dropped
            with amending(file.path), publish(file.path, overwrite=True) as sink:
                _rewrite(_with_attributes(settled.file, tensor, new), sink, progress)
    with files.open(path) as file:
        after = file.source.size()
        return Edit(path=file.path, attributes=new or {}, before=size, after=after, dropped=dropped)


def _attributes(file: File, tensor: str | None) -> Attributes | None:
    len(file)  # a data shard describes nothing, and says so
    return file.catalog.attributes if tensor is None else file[tensor].tensor.attributes


def _edit(
    file: File, old: Attributes, values: Attributes, remove: Sequence[str]
) -> Attributes | None:
    """Return the attributes after the edit; None for none, as if there had never been any."""
    for key in remove:
        if key not in old:
            hint = near(key, old)
            raise NotFound(
                "no such attribute", path=file.path, where=("attributes", key), hint=hint
            )
    kept = {key: value for key, value in {**old, **values}.items() if key not in remove}
    return kept or None


def _encode(attributes: Attributes, tensor: str | None) -> bytes:
    try:
        return encode(attributes)
    except Unencodable as error:
        whose = () if tensor is None else ("objects", tensor)
        raise InvalidInput(
            f"an attribute cannot be stored: {error.detail}",
            code="attribute",
            where=(*whose, "attributes", *error.where),
        ) from None


def _with_attributes(file: File, tensor: str | None, new: Attributes | None) -> File:
    """Return `file` with other attributes, of itself or of one tensor."""
    catalog = file.catalog
    if tensor is None:
        return file.with_catalog(replace(catalog, attributes=new))
    changed = replace(catalog.tensors[tensor], attributes=new)
    return file.with_catalog(replace(catalog, tensors={**catalog.tensors, tensor: changed}))


def _require_alone(file: File) -> None:
    """Require a file to be one that can be written anew by itself."""
    if file.format.rehead is None and not (file.format.grows and not file.catalog.shards):
        title = file.format.title
        raise Unsupported(
            "attributes of such a file are not changed",
            code="metadata",
            path=file.path,
            found=f"{title} in several files" if file.catalog.files else title,
            hint="convert it to `.zt` first, or edit the file that holds them",
        )


def _rewrite(file: File, sink: Sink, progress: Progress) -> None:
    """Write a file with other attributes; where it is only a header, data go byte for byte."""
    if file.format.rehead is None:
        rewrite(file, sink, file.format, Options(progress=progress))
        return
    header, start = file.format.rehead(file.catalog)
    sink.write(header)
    for data in file.source.passing(Span(start, file.source.size() - start)):
        sink.write(data)
        progress(len(data))
    revalidate(sink, canonical_form=False)
