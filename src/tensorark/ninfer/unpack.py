"""From a `.ninfer` back to safetensors: values, under the names of parameters or of authors.

Decoding is exact: plain words stay as they are, and every other format is defined as float32
values. What was lost when weights were quantized is not found again. Matrices whose
uses rotate or permute inputs are turned back, rotated ones in float32. `rounded` makes bf16 of
decoded values, which is lossy and only done when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorark import files
from tensorark.conversion.ledger import settle
from tensorark.core.ledger import BY_ARTIFACT
from tensorark.core.model import Catalog, Tensor
from tensorark.core.progress import Progress
from tensorark.core.sizes import size_of
from tensorark.core.types import DTYPES
from tensorark.core.writing import Options
from tensorark.errors import ReadFailed, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile, derive_part
from tensorark.files.parameters import ParameterView
from tensorark.formats.ninfer import architecture
from tensorark.formats.ninfer.architecture import Parameter, Source
from tensorark.formats.ninfer.directory import Directory, directory_of
from tensorark.formats.ninfer.plan import encode_json
from tensorark.formats.safetensors import SAFETENSORS
from tensorark.io.fileset import publish_folder
from tensorark.io.inputs import operation
from tensorark.io.publish import publish
from tensorark.ninfer.resources import read_resource, resources
from tensorark.ninfer.rotation import RestoredView, RestoredViews
from tensorark.ninfer.soundness import require_sound
from tensorark.writing.assembly import require_suffix

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

View = ParameterView | RestoredView

_CHUNK: Final = 1 << 20
"""Elements that are decoded at a time."""

_EXACT: Final = {"bf16": "bf16", "fp32": "f32", "int32": "i32"}


@operation()
def export_parameters(
    source: PathLike,
    target: PathLike,
    *,
    rounded: bool = False,
    max_shard_size: int | str | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the logical parameters of an artifact as safetensors, under their own names.

    Shapes are those of the architecture where it is known, else the natural ones. Values are exact,
    bf16, f32 or i32, unless `rounded` asks for bf16 throughout.

    Raises:
        InvalidInput: when `source` is no artifact, a target exists, or its suffix is that of
            another format.
        Unsupported: when a format is not decoded.
        ReadFailed: when something cannot be read or written.
    """
    with files.open(source) as file:
        require_suffix(target, ".safetensors")
        directory = directory_of(file.catalog.native, file.path)
        views, shapes = RestoredViews(file, directory), _shapes(directory)
        tensors = {}
        for name, view in views.items():
            dtype = _dtype(view.formats, rounded=rounded)
            compute = partial(_pieces, [(view, 0, view.size)], dtype)
            tensors[name] = _tensor(name, shapes.get(name, view.shape), dtype, compute)
        options = _options(max_shard_size, overwrite=overwrite, progress=progress)
        return settle(_derive(file, tensors), SAFETENSORS, Path(target), options).write()


def _options(max_shard_size: int | str | None, *, overwrite: bool, progress: Progress) -> Options:
    """Return how weights are written: what an artifact says beside them is not what is asked for.

    A checkpoint has its resources and its config beside them, in files of their own.
    """
    most = None if max_shard_size is None else size_of(max_shard_size)
    return Options(
        overwrite=overwrite,
        max_shard_size=most,
        drop=BY_ARTIFACT | {"gaps"},
        progress=progress,
    )


def _shapes(directory: Directory) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the architecture gives; none where the artifact does not fit it."""
    try:
        if architecture.check(directory):
            return {}
    except Unsupported:
        return {}
    return {name: each.shape for name, each in _parameters(directory).items()}


def _parameters(directory: Directory, root: str = "model.") -> dict[str, Parameter]:
    components = directory.components
    configs = {name: each.config for name, each in components.items()}
    proposal = components["text"].proposal if "text" in components else None
    return architecture.parameters(configs, proposal, root=root)


def _tensor(
    name: str, shape: tuple[int, ...], dtype: str, compute: Callable[[], Iterator[memoryview]]
) -> Tensor:
    part = derive_part(compute, prod(shape) * DTYPES[dtype], dtype)
    return Tensor(name, shape, "dense", {"data": part})


def _dtype(formats: tuple[str, ...], *, rounded: bool) -> str:
    """Return the storage type that holds values of these formats exactly, or bf16."""
    found = {_EXACT.get(each, "f32") for each in formats}
    if found == {"i32"}:
        return "i32"
    return "bf16" if rounded or found == {"bf16"} else "f32"


def _derive(file: File, tensors: Mapping[str, Tensor]) -> File:
    catalog = Catalog("safetensors", tensors, None, None, file.catalog.files)
    return DerivedFile(file, catalog)


def _pieces(runs: list[tuple[View, int, int]], dtype: str) -> Iterator[memoryview]:
    """Yield the bytes of element ranges of parameters, in the words of `dtype`."""
    for view, start, stop in runs:
        for first in range(start, stop, _CHUNK):
            values = view.elements(first, min(first + _CHUNK, stop))
            yield _words(values, dtype)


def _words(values: Array, dtype: str) -> memoryview:
    from tensorark.layouts.ninfer.make import cast_direct
    from tensorark.layouts.ninfer.small_floats import as_octets

    format_ = next(name for name, each in _EXACT.items() if each == dtype)
    return as_octets(cast_direct(values, format_).reshape(-1)).data


# -------------------------------------------------------------------------------------- checkpoints


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows of a checkpoint's tensor that are rows from `first` on of a parameter."""

    start: int
    stop: int
    parameter: Parameter
    first: int


@operation()
def export_checkpoint(
    source: PathLike,
    folder: PathLike,
    *,
    rounded: bool = False,
    max_shard_size: int | str | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write an artifact as a checkpoint: tensors under the names of their authors, config, files.

    `folder` is made if need be. Values are exact, as in `export_parameters`, unless `rounded`. What
    only an artifact has (uses, proposal heads, second copies) is left out. Draft models are
    checkpoints of their own and are refused.

    Raises:
        InvalidInput: when `source` is no artifact or does not fit its architecture.
        Unsupported: when the architecture is unknown, or a format is not decoded.
        ReadFailed: when something cannot be read or written.
    """
    options = _options(max_shard_size, overwrite=overwrite, progress=progress)
    with files.open(source) as file:
        directory = directory_of(file.catalog.native, file.path)
        require_sound(directory)
        _require_checkpoint(directory)
        tensors = _checkpoint_tensors(file, directory, rounded=rounded)
        config = encode_json(_config(directory)).encode("utf-8")
        beside = {
            role: read_resource(file, f"{name}/{role}") for name, role in resources(directory)
        }
        for name in beside:
            _require_name(name)
        _make(Path(folder).absolute().parent)
        with publish_folder(folder, overwrite=overwrite, owns=partial(_is_ours, beside)) as inside:
            for name, data in {"config.json": config, **beside}.items():
                with publish(inside / name, overwrite=False) as sink:
                    sink.write(data)
            weights = _derive(file, tensors)
            written = settle(weights, SAFETENSORS, inside / "model.safetensors", options).write()
    names = [*(Path(each).name for each in written), "config.json", *beside]
    return [str(Path(folder) / name) for name in names]


def _is_ours(beside: Container[str], name: str) -> bool:
    """Tell whether a checkpoint that we wrote may hold a file of that name."""
    weights = (".safetensors", ".safetensors.index.json")
    return name == "config.json" or name in beside or name.endswith(weights)


def _require_checkpoint(directory: Directory) -> None:
    drafts = [each for each in ("dflash", "dflash2") if each in directory.components]
    if drafts or "text" not in directory.components:
        raise Unsupported(
            "only a text model with its vision tower and predictor is written as one checkpoint",
            code="component",
            found=" ".join(directory.components),
        )


def _require_name(role: str) -> None:
    """Require a role to be the name of a file in a folder, and none of those written anyway."""
    taken = role.startswith(("model", ".")) or role == "config.json"
    if taken or any(each in role for each in "/\\\0:"):
        raise Unsupported(
            "the role of a resource is no name of a file beside a checkpoint",
            code="resource",
            found=quoted(role),
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReadFailed(error.strerror or str(error), path=str(folder)) from error


def _config(directory: Directory) -> dict[str, Any]:
    components = directory.components
    text = dict(components["text"].config)
    if "mtp" in components:
        text["mtp_num_hidden_layers"] = 1
    if "vision" not in components:
        return text
    (name,) = text.pop("architectures")
    return {
        "architectures": [name.replace("ForCausalLM", "ForConditionalGeneration")],
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": text,
        "vision_config": {
            **components["vision"].config,
            "in_channels": 3,
            "out_hidden_size": text["hidden_size"],
        },
    }


def _checkpoint_tensors(file: File, directory: Directory, *, rounded: bool) -> dict[str, Tensor]:
    root = "model.language_model." if "vision" in directory.components else "model."
    views = RestoredViews(file, directory)
    sources: dict[str, tuple[Source, list[Parameter]]] = {}
    for each in _parameters(directory, root).values():
        if each.source is not None and each.component != "proposal":
            # A tied head is the embedding under another name: one of them is written.
            found = sources.setdefault(each.source.tensor, (each.source, []))
            found[1].append(each)
    tensors = {}
    for name, (whole, parts) in sources.items():
        runs = _runs(whole, parts)
        formats = tuple(
            dict.fromkeys(each for run in runs for each in views[run.parameter.name].formats)
        )
        dtype = _dtype(formats, rounded=rounded)
        if whole.axes is not None:
            compute = partial(_turn, views[parts[0].name], whole, parts[0], dtype)
        else:
            compute = partial(_pieces, _ranges(views, runs), dtype)
        tensors[name] = _tensor(name, whole.shape, dtype, compute)
    return tensors


def _runs(whole: Source, parts: list[Parameter]) -> list[_Run]:
    """Return the runs of rows that a tensor is made of, in order, each row once.

    Raises:
        Unsupported: when some rows are no parameter's.
    """
    width = parts[0].shape[-1] if len(parts[0].shape) > 1 else 1
    rows = prod(whole.shape) // width
    runs = []
    for each in parts:
        first = 0
        source = each.source
        for start, stop in source.rows if source and source.rows else ((0, rows),):
            runs.append(_Run(start, stop, each, first))
            first += stop - start
    runs.sort(key=lambda run: run.start)
    kept: list[_Run] = []
    for run in runs:
        end = kept[-1].stop if kept else 0
        if run.start == end:
            kept.append(run)
        elif run.start > end or run.stop > end:
            break
    if not kept or kept[-1].stop != rows:
        raise Unsupported(
            "the artifact does not hold all of a checkpoint's tensor",
            code="checkpoint-rows",
            where=("objects", whole.tensor),
        )
    return kept


def _ranges(views: RestoredViews, runs: list[_Run]) -> list[tuple[View, int, int]]:
    found = []
    for run in runs:
        shape = run.parameter.shape
        width = shape[-1] if len(shape) > 1 else 1
        begin = run.first * width
        found.append((views[run.parameter.name], begin, begin + (run.stop - run.start) * width))
    return found


def _turn(view: View, whole: Source, parameter: Parameter, dtype: str) -> Iterator[memoryview]:
    """Yield a parameter with its axes as the checkpoint has them."""
    import numpy as np

    axes = whole.axes or ()
    values = view.numpy(parameter.shape).reshape([whole.shape[axis] for axis in axes])
    back = np.ascontiguousarray(values.transpose(np.argsort(axes)))
    yield _words(back, dtype)
