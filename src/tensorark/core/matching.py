"""Names chosen by shell patterns, and what was meant by a name or a pattern that fits nothing.

Pure, and the only place where patterns are matched: ``*`` matches dots and slashes too, case
counts, and a pattern that matches nothing is refused, since it is a slip more often than not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from heapq import nlargest
from itertools import islice
from typing import Final

from tensorark.errors import NotFound, quoted

_SEARCHED: Final = 20_000
"""Names among which similar ones are looked for."""
_COMPARED: Final = 200
"""Names that are compared in full."""
_LONGEST: Final = 200
"""Characters of a name or pattern that is compared with others; comparing costs their square."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def choose(names: Iterable[str], include: Sequence[str], exclude: Sequence[str] = ()) -> list[str]:
    """Return the names that a pattern of `include` matches (all when empty) and none of `exclude`.

    Raises:
        NotFound: when one of the patterns matches no name.
    """
    if not include and not exclude:
        return list(names)
    known = list(names)
    require_matches([*include, *exclude], known)
    wanted, unwanted = matcher(include), matcher(exclude)
    return [name for name in known if (not include or wanted(name)) and not unwanted(name)]


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells whether a name matches any of `globs`; without globs none does."""
    match = _pattern(tuple(globs)).match
    return lambda name: match(name) is not None


@lru_cache(256)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")


def require_matches(globs: Iterable[str], names: Collection[str], noun: str = "tensor") -> None:
    """Require each pattern to match a name.

    Raises:
        NotFound: for the first that matches none, with the pattern that may be meant in the hint.
    """
    for glob in globs:
        if not any(map(matcher([glob]), names)):
            detail = f"a pattern matches no {noun}"
            hint = near_pattern(glob, names)
            raise NotFound(detail, code="no-match", found=quoted(glob), hint=hint)


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the question whether another of the names was meant; None without an idea."""
    few = list(islice(known, _SEARCHED + 1))
    if len(few) > _SEARCHED or len(name) > _LONGEST:
        return None
    return _question(_closest(name, [each for each in few if len(each) <= _LONGEST], 3))


def near_pattern(glob: str, names: Collection[str]) -> str | None:
    """Return the question whether a pattern like `glob`, which matches something, was meant."""
    if len(names) > _SEARCHED or len(glob) > _LONGEST:
        return None
    for other in _others(glob, names):
        if other != glob and any(map(matcher([other]), names)):
            return _question([other])
    return near(glob, names)


def _others(glob: str, names: Iterable[str]) -> Iterator[str]:
    """Yield patterns like `glob`: open at its ends, or with words that names are made of."""
    words = {word for name in names for word in _WORD.findall(name[:_LONGEST])}

    def known(match: re.Match[str]) -> str:
        word = match[0]
        near_ = [] if word in words else _closest(word, words, 1)
        return near_[0] if near_ else word

    for pattern in dict.fromkeys((glob, _WORD.sub(known, glob))):
        yield from (pattern, f"*{pattern}", f"{pattern}*", f"*{pattern}*")


def _closest(name: str, known: Iterable[str], count: int) -> list[str]:
    """Return the names most like `name`, the likeliest first.

    A slip leaves both ends of a name as they are, so that only those are compared in full, which
    costs a hundred times as much, that share most with its ends.
    """
    from difflib import get_close_matches

    nearest = nlargest(_COMPARED, known, key=lambda other: _shared(name, other))
    return get_close_matches(name, nearest, count)


def _shared(one: str, other: str) -> int:
    """Count the characters that two names have in common at their ends."""
    return _first_difference(one, other) + _first_difference(reversed(one), reversed(other))


def _first_difference(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _question(found: Sequence[str]) -> str | None:
    return f"did you mean {' or '.join(map(quoted, found))}?" if found else None
