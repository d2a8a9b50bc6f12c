"""The parameters that an artifact's components call for, from their configs alone.

Owns which components there are, what goes with what, and the proposal head. Both the checks and
conversion start here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from tensorark.errors import LimitExceeded
from tensorark.formats.ninfer.architecture import draft, ngram, text, vision
from tensorark.formats.ninfer.architecture.fields import Fields, Problem
from tensorark.formats.ninfer.architecture.parameter import Parameter, Source

TEXT: Final = "text"
NGRAM: Final = "ngram"
SPECULATIVE: Final = ("mtp", "dflash", "dflash2")
"""Components that propose tokens; their hidden states go through an output head."""

COMPONENTS: Final = (TEXT, "vision", *SPECULATIVE, NGRAM)

_DRAFTS: Final = tuple(draft.ARCHITECTURES)

MOST_LAYERS: Final = 1 << 20
"""Layers, those of each expert counted apart, that are looked at; real models have some 20,000."""

HEAD: Final = "proposal/head"
TOKEN_IDS: Final = "proposal/token_ids"  # noqa: S105 - the name of a parameter

Configs = Mapping[str, Mapping[str, Any]]
"""Configs by component."""


def problems(configs: Configs) -> Iterator[tuple[str, Problem]]:
    """Yield what is wrong with the configs of known components, with the component.

    Those of the others are judged only when that of `text` is in order: they depend on it.
    """
    if NGRAM in configs:
        yield from ((NGRAM, each) for each in ngram.problems(configs[NGRAM]))
    if TEXT not in configs:
        return
    found = list(text.problems(configs[TEXT], predicted="mtp" in configs))
    yield from ((TEXT, each) for each in found)
    if found:
        return
    target = text.build(configs[TEXT])
    for name, config in configs.items():
        if name == "vision":
            each = vision.problems(config, experts=bool(target.experts))
        elif name == "mtp":
            each = _mtp_problems(config, target)
        elif name in draft.ARCHITECTURES:
            each = draft.problems(name, config, target)
        else:
            continue
        yield from ((name, problem) for problem in each)


def _mtp_problems(config: Mapping[str, Any], target: text.Text) -> Iterator[Problem]:
    expected = text.MTP[target.architecture]
    if Fields(config).architecture() != expected:
        yield Problem(("architectures",), "not the predictor of the text model", expected)


def parameters(
    configs: Configs, proposal: Mapping[str, Any] | None = None, *, root: str = "model."
) -> dict[str, Parameter]:
    """Return every parameter that components call for, by name; problems come first.

    `root` stands before the names of the text model in a checkpoint.

    Raises:
        LimitExceeded: when there would be millions of them.
    """
    found: list[Iterator[Parameter]] = []
    if TEXT in configs:
        target = text.build(configs[TEXT])
        _require_few(configs, target)
        heads = [each for each in SPECULATIVE if each in configs]
        found.append(text.parameters(target, *heads, root=root))
        if "vision" in configs:
            tower = vision.build(configs["vision"])
            found.append(vision.parameters(tower, target.hidden))
        if "mtp" in configs:
            found.append(text.predictor(target))
        drafts = [
            draft.build(name, configs[name]) for name in draft.ARCHITECTURES if name in configs
        ]
        found += [draft.parameters(each, target) for each in drafts]
        if proposal is not None:
            found.append(proposals(target, proposal, heads, root))
    if NGRAM in configs:
        found.append(ngram.parameters(configs[NGRAM]))
    return {each.name: each for each in chain.from_iterable(found)}


def _require_few(configs: Configs, target: text.Text) -> None:
    """Refuse to list parameters without end: a number in a config costs its writer nothing."""
    blocks = len(target.layers) + ("mtp" in configs)
    layers = blocks * (target.experts + 1)
    for name, key in (("vision", "depth"), *((each, "num_hidden_layers") for each in _DRAFTS)):
        if name in configs:
            layers += Fields(configs[name]).number(key)
    if layers > MOST_LAYERS:
        raise LimitExceeded(
            "the components call for too many parameters",
            code="parameters",
            expected=f"at most {MOST_LAYERS} layers and experts",
            found=layers,
        )


def proposals(
    target: text.Text, proposal: Mapping[str, Any], heads: list[str], root: str
) -> Iterator[Parameter]:
    """Yield the parameters of a proposal head (§9.2): rows of the output head, and which."""
    indexed = proposal["domain"] == "indexed"
    rows = proposal["rows"] if indexed else target.vocabulary
    tensor = root + "embed_tokens.weight" if target.tied else "lm_head.weight"
    yield Parameter(
        name=HEAD,
        shape=(rows, target.hidden),
        source=Source(tensor=tensor, shape=(target.vocabulary, target.hidden)),
        inputs=tuple(f"{each}/final_hidden" for each in heads),
    )
    if indexed:
        yield Parameter(name=TOKEN_IDS, shape=(rows,), source=None, words="int32")
