"""Tensorbit models written anew: wrong indexes made right, tensors chosen, renamed.

Owns the repair of what the public tools get wrong, and the list of every change that it makes.
Weights and masks are copied as they are unless a change to them was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensorark import files
from tensorark.conversion.ledger import settle
from tensorark.conversion.pipeline import target_of
from tensorark.core.conversation import drive
from tensorark.core.matching import choose
from tensorark.core.model import NORMAL, Catalog, Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.edit.account import Mended, write
from tensorark.edit.tensorbit_config import config_of, list_untranslated
from tensorark.edit.tensorbit_masks import MASKS, Masks, remask
from tensorark.errors import Error, InvalidInput, Rejected, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile
from tensorark.formats.tensorbit.layouts import build_tensor
from tensorark.formats.tensorbit.read import Record, find_ties, record_of
from tensorark.formats.tensorbit.repair import blobs_of, names_of, repair, repair_facts
from tensorark.formats.tensorbit.walk import guess_shape, hidden_size
from tensorark.io.inputs import operation
from tensorark.layouts.nm.rules import KEY, members


def is_tensorbit(path: PathLike) -> bool:
    """Tell whether a file or folder is meant to be Tensorbit; False where it cannot be read."""
    try:
        with files.open(path, lenient=True) as file:
            return record_of(file.catalog) is not None
    except Rejected as error:
        return error.code.startswith("tb.")
    except Error:
        return False


@operation()
def mend(
    source: PathLike,
    target: PathLike,
    *,
    masks: Masks = "keep",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    rename: Callable[[str], str] | None = None,
    shapes: bool = False,
    layers: bool = True,
    config: Mapping[str, object] | None = None,
    architecture: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Mended:
    """Write a Tensorbit model anew, with an index that agrees with its blobs, and list the changes.

    Offsets, counts, patterns and types come from the blobs, which are found by walking. Of the
    tensors those stay whose names a shell pattern of `include` matches (all without one) and none
    of `exclude`, and only those are judged; `rename` gives them other names. With `shapes`, flat
    projections get the shape that their names and the hidden size tell. With `layers`, a
    ``num_layers`` that is missing, or counts tensors as the public tools write it, becomes the
    number that names speak of. `config`, ours or in Hugging Face's words, and `architecture` take
    the place of what was there.

    What the target does not keep, such as bytes that no entry speaks of, is refused unless `drop`
    names its kind (`conversion.ledger`).

    Raises:
        Rejected: when the index cannot be read, or a blob is broken itself.
        Unsupported: when there is no telling which blob belongs to which entry.
        InvalidInput: when source and target are one file, or two tensors get one name.
        NotFound: when a pattern matches no tensor.
    """
    if masks not in MASKS:
        expected = " ".join(MASKS)
        raise InvalidInput("no such way", code="masks", expected=expected, found=masks)
    kind = target_of(target, format)
    with files.open(source, lenient=True) as file:
        model = _Repair(file, record_of(file.catalog, file.path))
        model.find(include, exclude)
        model.describe(config=config, architecture=architecture, layers=layers)
        if shapes:
            model.shape()
        if rename is not None:
            model.rename(rename)
        model.remask(masks)
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        settled = settle(model.result(), kind, Path(target), options)
        return write(settled, model.changes)


# ------------------------------------------------------------------------------------ one model


@dataclass(slots=True)
class _Repair:
    """A model on its way into a right form, with the changes made so far."""

    file: File
    record: Record
    tensors: dict[str, Tensor] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def find(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Find the chosen tensors, where the index says or where their blobs are.

        What is not chosen is not judged, and keeps nothing from being mended.
        """
        chosen = {*choose(names_of(self.record.index), include, exclude)}
        found = drive(blobs_of(self.record), self.file.source)
        try:
            self.record, self.changes = repair(self.record, found, chosen)
        except (Rejected, Unsupported) as error:
            error.located(self.file.path)
            raise
        for blob in self.record.blobs:
            self.tensors.setdefault(blob.claim.name, build_tensor(blob))
        self.tensors = self._with_attributes(find_ties(self.record.blobs, self.tensors))

    def _with_attributes(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors with the attributes that the file carries for them as text."""
        home = self.file.catalog.tensor_attributes
        return {
            name: replace(
                each, attributes={**home.get(name, {}), **(each.attributes or {})} or None
            )
            for name, each in tensors.items()
        }

    def describe(
        self,
        *,
        config: Mapping[str, object] | None,
        architecture: str | None,
        layers: bool,
    ) -> None:
        """Set what the model says of itself."""
        self.attributes = dict(self.file.catalog.attributes or {})
        facts = dict(members(self.attributes))
        facts.pop("order", None)
        if config is not None:
            facts["config"] = config_of(dict(config))
            self.changes.append("config replaced")
            self.changes += [f"config: {quoted(key)} left out" for key in list_untranslated(config)]
        if architecture is not None:
            self.changes.append(f"architecture {facts.get('architecture')} → {architecture}")
            facts["architecture"] = architecture
        facts, changes = repair_facts(
            facts, self.record.index, layers=layers, from_index=config is None
        )
        self.changes += changes
        if facts:
            self.attributes[KEY] = facts

    def shape(self) -> None:
        """Give flat projections the shape that their names tell."""
        config = members(self.attributes).get("config")
        stated = config.get("hidden_size") if isinstance(config, dict) else None
        sizes = [(claim.name, claim.weights or 0) for claim in self.record.index.claims]
        sizes += [(name, tensor.elements) for name, tensor in self.tensors.items()]
        side = stated if isinstance(stated, int) and stated > 1 else hidden_size(sizes)
        for name, tensor in self.tensors.items():
            found = guess_shape(name, tensor.elements, side)
            if len(tensor.shape) == 1 and found is not None and 1 not in found:
                self.tensors[name] = replace(tensor, shape=found)
                self.changes.append(f"{name}: shape {list(tensor.shape)} → {list(found)}")

    def rename(self, rename: Callable[[str], str]) -> None:
        """Give the tensors other names."""
        before, self.tensors = self.tensors, {}
        for name, tensor in before.items():
            new = rename(name)
            if new in self.tensors:
                raise InvalidInput(
                    f"two tensors would be named {quoted(new)}", code="duplicate", where=(name,)
                )
            if new != name:
                self.changes.append(f"{name}: renamed to {new}")
            self.tensors[new] = _retie(replace(tensor, name=new), rename)

    def remask(self, masks: Masks) -> None:
        """Change masks as it was asked for."""
        for name, tensor in self.tensors.items():
            self.tensors[name], change = remask(self.file, tensor, masks)
            self.changes += [] if change is None else [change]

    def result(self) -> File:
        """Return the model as a target writes it."""
        catalog = Catalog(
            NORMAL, self.tensors, self.attributes or None, None, self.file.catalog.files
        )
        file = DerivedFile(self.file, catalog)
        file.origin = replace(file.origin, native=self.record)
        return file


def _retie(tensor: Tensor, rename: Callable[[str], str]) -> Tensor:
    facts = dict(members(tensor.attributes))
    other = facts.get("tied_to")
    if not isinstance(other, str):
        return tensor
    facts["tied_to"] = rename(other)
    return replace(tensor, attributes={**(tensor.attributes or {}), KEY: facts})
