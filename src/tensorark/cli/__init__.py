"""The command line `tark`: runs a verb and turns what happens into an exit code.

Owns `main` alone. Must never import a verb, or anything heavy, before it is asked for; nothing but
an exit code leaves it, whatever goes wrong.

Exit codes are those of `tensorark.errors`, and some more: 70 for a defect of ours, 141 when the
reader of the output went away, as in ``tark ls x.zt | head -1``, 143 and 129 when SIGTERM or SIGHUP
ended the work: what a shell reports of any tool that these end. Temporary files are removed first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from tensorark.cli.output import OutputFailed, output
from tensorark.errors import Error

__all__ = ["BROKEN_PIPE", "COMPLETE", "DEFECT", "INTERRUPTED", "main"]

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
DEFECT: Final = 70
COMPLETE: Final = "_TARK_COMPLETE"
"""Environment variable through which a shell asks for completions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tark` with `arguments` (those of the process by default) and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _prepare_streams()
        with _ended_by_signals():
            code = _guard(words)
        _flush()
    except _Ended as end:
        return _end_quietly(128 + end.number)
    except KeyboardInterrupt:
        return _end_quietly(INTERRUPTED)
    except BrokenPipeError:
        return _end_quietly(BROKEN_PIPE)
    except OutputFailed as failure:
        _last_words(f"error: {failure}")
        return _end_quietly(5)
    except OSError:  # not even standard error can be written
        return _end_quietly(5)
    return code


class _Ended(BaseException):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block by an exception, so that what it holds is let go of.

    Those that are ignored stay so, as under `nohup`.
    """
    import signal

    def end(number: int, _frame: FrameType | None) -> None:
        for each in former:
            signal.signal(each, signal.SIG_IGN)  # once is enough, and clearing up takes a moment
        raise _Ended(number)

    former = []
    try:
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                with suppress(ValueError):  # not the main thread
                    signal.signal(number, end)
                    former.append(number)
        yield
    finally:
        for number in former:
            signal.signal(number, signal.SIG_DFL)


def _guard(words: list[str]) -> int:
    """Run a verb; report whatever it raises."""
    from tensorark.cli.error_output import say, show_defect, show_error
    from tensorark.errors import ReadFailed

    try:
        return _run(words)
    except Error as error:
        show_error(error, as_json="--json" in words)
        return error.exit_code
    except (BrokenPipeError, OutputFailed):
        raise
    except OSError as error:  # the system refused something, of which the library said no more
        path = None if error.filename is None else os.fsdecode(error.filename)
        show_error(ReadFailed(error.strerror or str(error), path=path), as_json="--json" in words)
        return 5
    except MemoryError:
        say("error: out of memory")
        return 5
    except Exception as error:  # noqa: BLE001 - a defect of ours, and no traceback for a user
        show_defect(error, verbose=not {"-v", "-vv", "--verbose"}.isdisjoint(words))
        return DEFECT


def _run(words: list[str]) -> int:
    from click import Abort, ClickException
    from click.exceptions import Exit

    from tensorark.cli.error_output import show_usage_error
    from tensorark.cli.group import TARK

    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(TARK, {}, "tark", COMPLETE, os.environ[COMPLETE])
    try:
        with TARK.make_context("tark", list(words), obj={}) as context:
            if not words:
                sys.stderr.write(TARK.get_help(context) + "\n")
                return 2
            return TARK.invoke(context) or 0
    except Exit as end:
        return end.exit_code
    except Abort:
        raise KeyboardInterrupt from None
    except ClickException as error:
        show_usage_error(error, as_json="--json" in words)
        return error.exit_code


def _prepare_streams() -> None:
    """Make sure that no character of a name can stop the output: what has no byte is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    with output():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by whoever started us
                stream.flush()


def _last_words(text: str) -> None:
    with suppress(OSError, AttributeError):
        sys.stderr.write(text + "\n")


def _end_quietly(code: int) -> int:
    """Give up what is still buffered, so that the interpreter has nothing to complain of."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code
