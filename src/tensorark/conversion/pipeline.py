"""Converting between formats: one pipeline, verbatim, in bounded memory.

open → refusals → write, hashing as bytes pass → judge the result → publish. Nothing is cast,
dropped or reinterpreted; what the target cannot hold is refused before the first byte.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.cast import Casting
from tensorark.conversion.cast import cast as cast_to
from tensorark.conversion.config import find_config, left_beside, parse_config
from tensorark.conversion.dense import Masking, densify
from tensorark.conversion.layers import Recasting
from tensorark.conversion.ledger import settle, without
from tensorark.conversion.masks import detect_masks, import_masks
from tensorark.conversion.quantized import Direction, export_layers, import_layers
from tensorark.conversion.semistructured import export_packed
from tensorark.core.brief import brief
from tensorark.core.ledger import BY_ARTIFACT, Loss
from tensorark.core.matching import choose
from tensorark.core.progress import Progress
from tensorark.core.sizes import size_of
from tensorark.core.writing import Options
from tensorark.errors import InvalidInput, quoted
from tensorark.files import File, PathLike
from tensorark.files.folder import require_whole
from tensorark.formats import FORMATS
from tensorark.formats.format import Format
from tensorark.io.inputs import operation
from tensorark.layouts.nm.rules import ID as NM
from tensorark.writing.assembly import choose_align

Sparsity = Literal["import", "detect", "export"]

_SPARSE: Final[Mapping[str, Callable[[File], tuple[File, Recasting]]]] = {
    "import": import_masks,
    "detect": detect_masks,
    "export": export_packed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What a conversion did: formats, files written, tensors and decoded bytes in and out.

    `quantized` says what was imported or exported, None where neither was asked for. `dropped` is
    what the source held and the target does not, `beside` the configurations and files of a
    tokenizer that lie beside the source and not beside the target: tensors are converted, and what
    files say. `densified` are the N:M tensors whose masks the target does not know: their values
    are kept, and which zeros were pruned is not. `files` is empty after a dry run.
    """

    __repr__ = brief

    source: str
    source_format: str
    target_format: str
    files: tuple[str, ...]
    tensors: int
    nbytes: int
    quantized: Recasting | None = None
    sparse: Recasting | None = None
    cast: Casting | None = None
    dropped: tuple[Loss, ...] = ()
    beside: tuple[str, ...] = ()
    densified: tuple[str, ...] = ()


@operation()
def convert(
    source: PathLike,
    target: PathLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    max_shard_size: int | str | None = None,
    encoding: str | None = None,
    level: int | None = None,
    frame_size: int | None = None,
    digest: str | None = None,
    compact: bool = False,
    quantized: Direction | None = None,
    quantized_config: Mapping[str, object] | None = None,
    sparse: Sparsity | None = None,
    masking: Masking = "checked",
    cast: str | None = None,
    artifact_id: bytes | None = None,
    lenient: bool = False,
    length: int | None = None,
    drop: Collection[str] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> Conversion:
    """Convert the model at `source` into the file `target`, tensor by tensor, verbatim.

    The target's format follows its suffix unless `format` names it. A `.zt` is canonical unless
    `align`, a multiple of 4096, asks for another placement; `max_shard_size`, in bytes or as
    ``5GB``, splits a safetensors target into a shard set with an index, and a `.ninfer` into
    continuations; the set is named by the 16 bytes of `artifact_id` where they are given.

    `encoding` ``zstd`` compresses the parts of a `.zt`, which then is not canonical and has its
    blobs at multiples of 4096 unless `align` is given: zstd's `level` is 3 and a frame holds
    `frame_size` decoded bytes, 1 MiB, unless they are given.

    Parts of a `.zt` keep their digests, those without one get one of xxh3. `digest` ``xxh3``,
    ``sha256`` or ``none`` is that of all parts; the last two are not canonical. Canonical form has
    digests of xxh3 only, so that a source with others is refused until `digest` says what becomes
    of them. `compact` is the smallest alignment that is legal, 4096.

    `quantized` ``import`` gathers the tensors of each GPTQ, AWQ or MLX layer into one quantized
    tensor, without changing a value, and ``export`` undoes that; layers for which it would not be
    exact stay as they are and are listed with the reason. What a checkpoint means is read from
    `quantized_config`, or from the ``config.json`` beside it.

    `sparse` ``import`` makes masks of compressed-tensors, ``torch.nn.utils.prune`` and ASP part of
    the weights they belong to, ``detect`` gives each matrix whose zeros follow an N:M its mask, and
    ``export`` packs 2:4 matrices as torch's CUTLASS kernels take them. `masking` says what becomes
    of N:M tensors in a format that knows no masks (`conversion.dense.Masking`); `cast` is the float
    type that all float weights are rounded to, the one lossy step, which reports its error.
    `lenient` and `length` open the source as they do in `tensorark.open`.

    `include` and `exclude` are shell patterns that choose tensors by name. What the target does not
    keep is refused, unless `drop` names its kind (`conversion.ledger.KINDS`), such as ``tensors``
    for those that it cannot hold; the report lists it. `dry_run` makes the same report and the same
    refusals, and writes nothing.

    Raises:
        InvalidInput: when source and target are one file, or the options do not fit the format.
        Rejected: when the source breaks a rule, or payload does not match its digest.
        Unsupported: when the target cannot hold something; every such tensor is named.
        ReadFailed: when something cannot be read or written.
    """
    kind = target_of(target, format)
    if compact and "encoding" not in kind.options:
        raise InvalidInput(f"{kind.name} has no alignment to be compact in", code="option")
    options = Options(
        overwrite=overwrite,
        align=choose_align(align, compact=compact),
        max_shard_size=None if max_shard_size is None else size_of(max_shard_size),
        encoding=encoding,
        level=level,
        frame_size=frame_size,
        digest=digest,
        artifact_id=artifact_id,
        drop=frozenset(drop),
        progress=progress,
    )
    _check_options(kind, options)
    with files.open(source, lenient=lenient, length=length) as opened:
        # Made once, and not by each of the steps: there may be a hundred thousand.
        tensors = dict(opened.catalog.tensors)
        file = opened.with_catalog(replace(opened.catalog, tensors=tensors))
        # First: no step may lose what is no tensor.
        model = as_zt_model(file) if kind.holds_resources else file
        left_out = _list_excluded(model, kind, include, exclude)
        model = _leave_out(model, left_out)
        recast, done = _apply_quantization(model, quantized, quantized_config)
        recast, masks = _apply_sparsity(recast, sparse)
        recast, casting = (recast, None) if cast is None else cast_to(recast, cast)
        settled = settle(prepare(recast, kind, masking), kind, Path(target), options)
        beside = left_beside(file.path, Path(target))
        if dry_run:
            settled.require()
        return Conversion(
            source=file.path,
            source_format=file.format.name,
            target_format=kind.name,
            files=() if dry_run else tuple(settled.write()),
            tensors=len(settled.file),
            nbytes=sum(tensor.nbytes for tensor in settled.file.catalog.tensors.values()),
            quantized=done,
            sparse=masks,
            cast=casting,
            dropped=(*(Loss("tensors", name) for name in left_out), *settled.dropped),
            beside=beside,
            densified=tuple(
                name
                for name, tensor in settled.file.catalog.tensors.items()
                if tensor.layout == "dense" and recast.catalog.tensors[name].layout == NM
            ),
        )


def _list_excluded(
    file: File, kind: Format, include: Sequence[str], exclude: Sequence[str]
) -> list[str]:
    """Return the tensors that are not chosen."""
    if not include and not exclude:
        return []
    chosen = {*choose(file, include, exclude)}
    found = [name for name in file if name not in chosen]
    if found and kind.keeps.kinds & BY_ARTIFACT:
        detail = "an artifact is written whole: its directory speaks of every tensor"
        raise InvalidInput(detail, code="option", path=file.path, found=quoted(found[0]))
    return found


def _leave_out(file: File, left_out: Collection[str]) -> File:
    """Return `file` as if it had never had the tensors that its caller leaves out."""
    if not left_out:
        return file
    gone, found = {*left_out}, without(file, left_out)
    tensors = {name: each for name, each in file.origin.tensors.items() if name not in gone}
    found.origin = replace(file.origin, tensors=tensors)
    return found


def _apply_quantization(
    file: File, direction: Direction | None, config: Mapping[str, object] | None
) -> tuple[File, Recasting | None]:
    """Return the file to convert, with its quantized layers as they are wanted."""
    if config is not None and direction != "import":
        raise InvalidInput("a configuration is only used to import", code="option")
    if direction is None:
        return file, None
    if direction == "import":
        known = find_config(file.path) if config is None else parse_config(config)
        return import_layers(file, known)
    if direction == "export":
        return export_layers(file)
    expected = "import or export"
    raise InvalidInput("no such direction", code="option", expected=expected, found=direction)


def prepare(file: File, target: Format, masking: Masking = "checked") -> File:
    """Return `file` as `target` can take it: with N:M tensors made dense, where it knows no masks.

    Raises:
        InvalidInput: when there is no such `masking`.
        Unsupported: for a quantized tensor, unless `masking` says what becomes of it.
    """
    if file.format.numbered:
        require_whole(file.path)
    return file if target.holds_masks else densify(file, masking)


def _apply_sparsity(file: File, sparse: Sparsity | None) -> tuple[File, Recasting | None]:
    """Return the file to convert, with its sparse tensors as they are wanted."""
    if sparse is None:
        return file, None
    if sparse in _SPARSE:
        return _SPARSE[sparse](file)
    expected = " ".join(_SPARSE)
    raise InvalidInput("no such step", code="option", expected=expected, found=sparse)


def targets() -> tuple[Format, ...]:
    """Return the formats that are written."""
    return tuple(each for each in FORMATS if each.write is not None)


def target_of(path: PathLike, name: str | None = None) -> Format:
    """Return the format named `name`, or else the one that the suffix of `path` stands for.

    Raises:
        InvalidInput: when none such is written.
    """
    suffix = Path(path).suffix
    for each in FORMATS:
        fits = suffix in each.suffixes if name is None else name == each.name
        if fits and each.write is not None:
            return each
    ends = (end for each in targets() for end in each.suffixes if end.startswith("."))
    raise InvalidInput(
        "no such format is written" if name else "the suffix names no format that is written",
        code="target",
        expected=" ".join((each.name for each in targets()) if name else ends),
        found=name or suffix or "no suffix",
    )


_CHOICES: Final = (
    "align",
    "max_shard_size",
    "encoding",
    "level",
    "frame_size",
    "digest",
    "artifact_id",
)


def _check_options(target: Format, options: Options) -> None:
    for name in _CHOICES:
        if getattr(options, name) is not None and name not in target.options:
            detail = f"{target.name} takes no {name.replace('_', ' ')}"
            raise InvalidInput(detail, code="option", found=getattr(options, name))
