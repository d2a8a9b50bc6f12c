"""Settings for all tests: how many examples hypothesis tries, and how.

The suite tries the same examples every time. `HYPOTHESIS_PROFILE=fresh` (`make fresh`) draws
others, ten times as many where a test does not say how many, from a seed that the run names.
"""

from __future__ import annotations

import os
import secrets

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "fresh",
    max_examples=2_000,
    deadline=None,
    database=None,  # the seed alone decides what is drawn
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed before hypothesis asks for it; with xdist, the workers are given this one."""
    if not settings.default.derandomize and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = secrets.randbits(32)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed of a run that draws its own examples."""
    if settings.default.derandomize:
        return None
    return f"the same examples again: --hypothesis-seed={config.option.hypothesis_seed}"
