"""From a path of the command line to the models that it names, opened one after the other.

A folder may hold several models. Where a verb takes them all, one that cannot be opened is reported
and does not stop the others; where the path names one model, its error ends the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorark import folder
from tensorark.api import File
from tensorark.cli import lenience
from tensorark.cli.complaint import complain, described
from tensorark.cli.options import settings
from tensorark.cli.terminal import terminal
from tensorark.errors import Error, InvalidInput, NotFound, quoted
from tensorark.view import TensorView


@dataclass(frozen=True, slots=True)
class Success:
    """A model and what was found of it, a JSON-able value."""

    path: str
    value: dict[str, Any]
    exit_code: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the model's entry of a document."""
        return {"path": self.path, **self.value}


@dataclass(frozen=True, slots=True)
class Failure:
    """A model that could not be looked at."""

    path: str
    error: Error

    @property
    def exit_code(self) -> int:
        """Exit code of the error."""
        return self.error.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return the model's entry of a document."""
        return {"path": self.path, "error": described(self.error)}


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


def view_of(file: File, name: str) -> TensorView:
    """Return the tensor `name` of `file`.

    Raises:
        NotFound: when there is none, with names like it in the hint.
    """
    try:
        return file[name]
    except NotFound as error:
        if len(file) <= _SEARCHED:
            from difflib import get_close_matches

            near = get_close_matches(name, list(file), 3)
            error.hint = f"did you mean {' or '.join(map(quoted, near))}?" if near else None
        raise


_SEARCHED: Final = 20_000  # names among which similar ones are looked for


def each_model(
    path: str, look: Callable[[str], dict[str, Any]], code: Callable[[dict[str, Any]], int]
) -> Iterator[Success | Failure]:
    """Yield every model of `path` with what `look` says of it; `code` turns that into an exit code.

    The errors of several models are reported here, on standard error unless JSON is asked for.

    Raises:
        Error: what `look` raises, when the path names a single model.
    """
    found = models(path)
    for model in found:
        try:
            value = look(model)
        except Error as error:
            if len(found) == 1:
                raise
            if not settings().json:
                complain(error)
            yield Failure(model, error)
        else:
            yield Success(model, value, code(value))


def each_file(
    path: str,
    look: Callable[[File], dict[str, Any]],
    code: Callable[[dict[str, Any]], int] = lambda _value: 0,
    *,
    lenient: bool = False,
    structural: bool = False,
) -> Iterator[Success | Failure]:
    """Open every model of `path` and yield it with what `look` says, as `each_model` does."""

    def opened(model: str) -> dict[str, Any]:
        with lenience.opened(model, terminal(), lenient=lenient, structural=structural) as file:
            return look(file)

    return each_model(path, opened, code)
