"""Settings for all tests: how many examples hypothesis tries, and how."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile("long", max_examples=20_000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
