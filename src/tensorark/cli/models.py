"""From a path of the command line to the models that it names, opened one after the other.

A folder may hold several models. Where a verb takes them all, one that cannot be opened is reported
and does not stop the others; where the path names one model, its error ends the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorark.cli import leniency
from tensorark.cli.error_output import error_facts, show_error
from tensorark.cli.options import settings
from tensorark.cli.terminal import terminal
from tensorark.errors import Error, InvalidInput
from tensorark.files import File, folder


class Success(NamedTuple):
    """A model and what was found of it, a JSON-able value."""

    path: str
    value: dict[str, Any]
    exit_code: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the model's entry of a document."""
        return {"path": self.path, **self.value}


class Failure(NamedTuple):
    """A model that could not be looked at."""

    path: str
    error: Error

    @property
    def exit_code(self) -> int:
        """Exit code of the error."""
        return self.error.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return the model's entry of a document."""
        return {"path": self.path, "error": error_facts(self.error)}


def models(path: str) -> list[str]:
    """Return the models that `path` names: itself, or what lies in a folder.

    Raises:
        InvalidInput: when a folder holds none.
    """
    if not Path(path).is_dir():
        return [path]
    try:
        return [folder.entry_of(path)]
    except InvalidInput:
        found = folder.entries_of(path)
        if not found:
            raise
        # A folder of Tensorbit blobs is one model, which no file lists.
        return [path] if all(each.endswith(".tb") for each in found) else found


def each_model(
    paths: Sequence[str],
    look: Callable[[str], dict[str, Any]],
    code: Callable[[dict[str, Any]], int],
) -> Iterator[Success | Failure]:
    """Yield every model of `paths` with what `look` says; `code` turns that into an exit code.

    The errors of several models are reported here, on standard error unless JSON is asked for.

    Raises:
        Error: what `look` raises, when the paths name a single model.
    """
    found = [model for path in paths for model in _models_of(path, alone=len(paths) == 1)]
    for model in found:
        try:
            if isinstance(model, Failure):
                raise model.error
            value = look(model)
        except Error as error:
            if len(found) == 1:
                raise
            if not settings().json:
                show_error(error)
            yield Failure(str(getattr(model, "path", model)), error)
        else:
            yield Success(model, value, code(value))


def _models_of(path: str, *, alone: bool) -> list[str | Failure]:
    """Return the models of one path; of one among others, why there are none."""
    try:
        return [*models(path)]
    except Error as error:
        if alone:
            raise
        return [Failure(path, error)]


def each_file(
    paths: Sequence[str],
    look: Callable[[File], dict[str, Any]],
    code: Callable[[dict[str, Any]], int] = lambda _value: 0,
    **opening: Any,
) -> Iterator[Success | Failure]:
    """Open every model of `paths` and yield it with what `look` says, as `each_model` does.

    `opening` is how, in the words of `open_model`.
    """

    def opened(model: str) -> dict[str, Any]:
        with leniency.open_model(model, **opening) as file:
            return look(file)

    return each_model(paths, opened, code)


def show_all(verb: str, seen: Iterable[Success | Failure], show: Callable[[Success], None]) -> int:
    """Show each model as soon as it is seen, or all in one document; return the worst exit code."""
    out = terminal()
    known = []
    for each in seen:
        known.append(each)
        if not out.json and isinstance(each, Success):
            show(each)
    if out.json:
        out.document(verb, {"models": [each.as_json() for each in known]})
    return max(each.exit_code for each in known)
