"""Order, globs and the tree of names."""

import pytest

from tensorark.core.matching import choose
from tensorark.report.names import natural, ranges, tree

LEAF = {"type": "f32", "nbytes": 4}


def drawn(names, **others):
    """Draw a tree with one word a branch: indent, name, count."""
    facts = {name: others.get(name.replace(".", "_"), LEAF) for name in names}

    def lines(branches, depth=0):
        for each in branches:
            yield f"{'  ' * depth}{each['name']}" + (
                f" x{each['count']}" if each["count"] > 1 else ""
            )
            yield from lines(each["branches"], depth + 1)

    return list(lines(tree(facts)))


def test_numbers_sort_by_value():
    names = ["a.10", "a.9", "b", "a.09", "a", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a", "a.9", "a.09", "a.10", "b"]


def test_very_long_numbers_are_cut_not_counted():
    assert sorted(["9" * 5000, "1" * 5001], key=natural)


def test_globs_choose_and_leave_out():
    names = ["a.w", "a.b", "c.w"]
    assert choose(names, [], []) == names
    assert choose(names, ["*.w"], []) == ["a.w", "c.w"]
    assert choose(names, ["*.w", "a.*"], ["c*"]) == ["a.w", "a.b"]
    assert choose(names, [], ["[ab].?"]) == ["c.w"]


def test_equal_layers_are_one():
    names = [f"m.layers.{n}.{part}" for n in range(32) for part in ("q.weight", "k.weight")]
    assert drawn([*names, "m.norm"]) == [
        "m",
        "  layers.# x32",
        "    k.weight",
        "    q.weight",
        "  norm",
    ]


def test_layers_that_differ_stay_apart():
    assert drawn(["l.0.w", "l.1.w", "l.2.w", "l.2.b", "l.3.w", "l.3.b"]) == [
        "l",
        "  0-1.w x2",
        "  2-3 x2",
        "    b",
        "    w",
    ]


def test_names_below_numbers_are_compared():
    assert drawn(["l.0.w", "l.1.b"]) == ["l", "  0.w", "  1.b"]


def test_types_are_compared():
    assert drawn(["l.0", "l.1"], l_1={"type": "i8", "nbytes": 4}) == ["l", "  0", "  1"]


def test_layers_of_layers():
    names = [f"l.{n}.e.{m}.w" for n in range(2) for m in range(3)]
    assert drawn([*names, "l.0.r", "l.1.r"]) == ["l.# x2", "  e.#.w x3", "  r"]
    assert drawn(names) == ["l.# x2", "  e.#.w x3"]


def test_a_name_may_end_where_another_goes_on():
    assert drawn(["a", "a.b"]) == ["a", "  b"]


def test_what_is_no_plain_number_is_a_name():
    assert drawn(["l.00", "l.01", "l.\u0661", "l."]) == ["l", "  ", "  00", "  01", "  \u0661"]


def test_totals_count_every_folded_branch():
    (branch,) = tree({f"l.{n}": LEAF for n in range(5)})
    assert (branch["tensors"], branch["nbytes"], branch["numbers"]) == (5, 20, "0-4")


def test_depth_is_bounded():
    (branch,) = tree({"a." * 100_000 + "a": LEAF})
    assert branch["tensors"] == 1


@pytest.mark.parametrize(
    ("numbers", "text"), [([0], "0"), ([0, 1, 2], "0-2"), ([0, 2, 3, 7], "0,2-3,7")]
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
