"""A plugin of pytest: a test that needs what TENSORARK_WITHOUT takes away is skipped, not failed.

What needs a package is known by its import, or by the library's own refusal; what is about a
facility of the system stands in `_ABOUT`. Children of tests that measure memory import `resource`.
"""

from __future__ import annotations

import os
import re

import pytest

_ABOUT = {
    "fcntl": (  # without locks nothing is taken for left over
        "test_a_folder_that_a_dead_writer_moved_away_comes_back",
        "test_a_killed_writer_leaves_the_old_file_or_the_new_one",
        "test_a_list_of_names_that_was_not_finished_is_cleared",
        "test_an_exception_right_behind_a_name_that_is_given",
        "test_on_a_network_filesystem_leftovers_are_older_than_a_day",
        "test_only_names_that_members_have_are_ever_removed",
        "test_only_abandoned_files_of_the_pattern_are_leftovers",
        "test_the_error_says_what_stands_when_a_folder_cannot_be_synced",
        "test_the_error_says_what_stands_when_folders_of_a_set_cannot_be_synced",
        "test_what_a_dead_writer_left_is_cleared_by_the_next_one",
        "test_what_a_writer_could_not_remove_inside_of_a_folder_goes_with_it",
        "test_without_locks_nothing_is_called_a_leftover",
    ),
    "resource": (
        "test_a_conversion_stays_within_the_largest_tensor_and_64_mib",
        "test_hostile_files_cost_little_memory",
        "test_memory_stays_near_a_few_frames",
        "test_more_shards_than_may_be_open_are_refused_before_the_first_byte",
    ),
    "os.O_TMPFILE": (  # what cannot be linked gets its name by a rename
        "test_a_file_appears_when_the_block_ends",
        "test_a_key_that_cannot_be_written_whole_is_not_there",
        "test_a_rename_that_fails_leaves_nothing",
        "test_an_interrupt_leaves_nothing_and_ends_with_130",
    ),
    "os.preadv": (
        "test_a_hundred_thousand_tiny_tensors_need_few_calls",
        "test_a_whole_file_is_read_in_calls_of_a_mebibyte_or_more",
        "test_after_a_failure_the_other_threads_stop",
        "test_short_reads_of_the_system_are_continued",
    ),
}
_SKIPPED = {
    name: each for each in os.environ["TENSORARK_WITHOUT"].split() for name in _ABOUT.get(each, ())
}
_ABSENT = {each for each in os.environ["TENSORARK_WITHOUT"].split() if "." not in each}
_HALTED = re.compile(
    r"import of (\w+)[\w.]* halted; None in sys.modules|'(\w+)(?:\.\w+)*' is not a package"
)
_REFUSALS = frozenset({"no-torch", "no-scipy", "no-cryptography", "no-model-signing"})


def _reason(text: str) -> str | None:
    """Return what is missing, if that is what `text` tells of."""
    found = [name for pair in _HALTED.findall(text) for name in pair if name in _ABSENT]
    return f"without {found[-1]}" if found else None


def pytest_collection_modifyitems(items):
    for item in items:
        needed = _SKIPPED.get(getattr(item, "originalname", item.name))
        if needed is not None:
            item.add_marker(pytest.mark.skip(reason=f"without {needed}"))


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
