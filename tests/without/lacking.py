"""A plugin of pytest: a test that needs what TENSORARK_WITHOUT takes away is skipped, not failed.

Beside the import itself, only the library's own refusal counts as needing it.
"""

from __future__ import annotations

import os
import re

import pytest

_ABSENT = {each for each in os.environ["TENSORARK_WITHOUT"].split() if "." not in each}
_HALTED = re.compile(r"import of ([\w.]+) halted; None in sys.modules")
_REFUSALS = frozenset({"no-torch", "no-scipy", "no-cryptography", "no-model-signing"})


def _reason(text: str) -> str | None:
    """Return what is missing, if that is what `text` tells of."""
    found = [each for each in _HALTED.findall(text) if each.partition(".")[0] in _ABSENT]
    return f"without {found[-1]}" if found else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    reason = _reason(str(report.longrepr)) if report.failed else None
    if reason is not None:
        report.outcome, report.longrepr = "skipped", (str(collector.path), None, reason)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if not report.failed or call.excinfo is None:
        return report
    error = call.excinfo.value
    reason = getattr(error, "code", None) if getattr(error, "code", 0) in _REFUSALS else None
    while error is not None and reason is None:
        if isinstance(error, ImportError):
            reason = _reason(str(error))
        error = error.__cause__ or error.__context__
    if reason is not None:
        report.outcome, report.longrepr = "skipped", (str(item.path), None, reason)
    return report
