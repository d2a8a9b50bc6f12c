"""Reading config objects that may say anything: what is wrong with a field, or its value.

Owns `Problem` and the handful of conditions that configs share. Knows no architecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a field; `place` is its path inside the config."""

    place: tuple[str, ...]
    detail: str
    expected: str


@dataclass(frozen=True, slots=True)
class Fields:
    """A config, or an object inside one at `place`."""

    config: Mapping[str, Any]
    place: tuple[str, ...] = ()

    def architecture(self) -> str:
        """Return the one architecture; empty where there is not exactly one."""
        found = self.config.get("architectures")
        single = isinstance(found, list) and len(found) == 1 and isinstance(found[0], str)
        return str(found[0]) if single and found else ""

    def number(self, key: str) -> int:
        """Return a positive integer; 0 where the field is none."""
        found = self.config.get(key)
        return found if type(found) is int and found > 0 else 0

    def value(self, key: str) -> float:
        """Return a finite number; 0 where the field is none."""
        found = self.config.get(key)
        if isinstance(found, bool) or not isinstance(found, (int, float, str)):
            return 0.0
        # Numbers with a fraction may come in the spelling of the file, as a kind of text.
        if isinstance(found, str) and type(found) is str:
            return 0.0
        try:
            number = float(found)
        except (ValueError, OverflowError):
            return 0.0
        return number if isfinite(number) else 0.0

    def positive(self, key: str) -> Iterator[Problem]:
        """Yield a problem unless the field is a positive integer below 2^64."""
        if not 0 < self.number(key) < 1 << 64:
            yield Problem((*self.place, key), "not a size", "a positive integer")

    def real(self, key: str) -> Iterator[Problem]:
        """Yield a problem unless the field is a positive number."""
        if self.value(key) <= 0:
            yield Problem((*self.place, key), "not a positive number", "a positive number")

    def exactly(self, key: str, value: object) -> Iterator[Problem]:
        """Yield a problem unless the field has this value."""
        found = self.config.get(key)
        if type(found) is not type(value) or found != value:
            yield Problem((*self.place, key), "another value", str(value))

    def multiple(self, key: str, of: str) -> Iterator[Problem]:
        """Yield a problem unless one size is a multiple of another; missing ones are none."""
        if self.number(of) and self.number(key) % self.number(of):
            yield Problem((*self.place, key), f"does not divide by {of}", f"a multiple of {of}")
