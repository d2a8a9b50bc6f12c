"""Names by patterns: what is chosen, what is refused, and what is offered instead."""

from difflib import get_close_matches
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.core.matching import choose, near, near_pattern, require_matches
from tensorark.errors import NotFound

NAMES = [
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.mlp.up_proj.bias",
    "model.layers.1.mlp.up_proj.weight",
    "text/layers/0/mlp/gate",
    "lm_head.weight",
]


@pytest.mark.parametrize(
    ("glob", "meant"),
    [
        ("up_proj*", "*up_proj*"),
        ("layers.0.*", "*layers.0.*"),
        ("model.layers.0", "model.layers.0*"),
        ("*.mpl.*", "*.mlp.*"),
        ("text/layers/*/mpl/*", "text/layers/*/mlp/*"),
        ("model.layers.0.mlp.up_porj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("LM_HEAD*", None),
        ("nothing_like_it", None),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_what_may_be_meant(glob, meant):
    for include, exclude in (([glob], []), ([], [glob]), (["*", glob], [])):
        with pytest.raises(NotFound) as caught:
            choose(NAMES, include, exclude)
        assert caught.value.code == "no-match"
        assert caught.value.hint == (meant and f'did you mean "{meant}"?')


def test_without_patterns_everything_is_chosen():
    assert choose(iter(NAMES), []) == NAMES
    assert choose([], []) == []


PATTERN = st.text(alphabet="ab.*?", max_size=4)


@given(st.lists(st.text("ab.", max_size=5), max_size=6), st.lists(PATTERN, max_size=2), PATTERN)
def test_choosing_is_what_fnmatch_says(names, include, exclude):
    hits = [any(fnmatchcase(name, glob) for name in names) for glob in (*include, exclude)]
    if not all(hits):
        with pytest.raises(NotFound):
            choose(names, include, [exclude])
        return
    assert choose(names, include, [exclude]) == [
        name
        for name in names
        if (not include or any(fnmatchcase(name, glob) for glob in include))
        and not fnmatchcase(name, exclude)
    ]


def test_looking_for_names_is_bounded():
    many = [f"layers.{number}.weight" for number in range(30_000)]
    assert near("layers.5.weigth", many) is None
    assert near_pattern("layer.*", many) is None
    assert near("x" * 1_000_000, NAMES) is None
    with pytest.raises(NotFound):
        require_matches(["y" * 100_000], NAMES)


def test_near_names_are_offered():
    assert near("lm_head.wieght", NAMES) == 'did you mean "lm_head.weight"?'


def test_few_of_many_names_are_compared_in_full(monkeypatch):
    compared = []

    def counted(name, known, count):
        compared.extend(known)
        return get_close_matches(name, known, count)

    monkeypatch.setattr("difflib.get_close_matches", counted)
    names = [f"model.layers.{i}.experts.{j}.proj.weight" for i in range(100) for j in range(100)]
    hint = near("model.layers.31.experts.77.porj.weight", names)
    assert '"model.layers.31.experts.77.proj.weight"' in hint
    assert len(compared) <= 200  # each costs a tenth of a millisecond
