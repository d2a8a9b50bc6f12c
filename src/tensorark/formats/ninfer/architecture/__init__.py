"""The binder level of an artifact (§11.3): what its architecture calls for, as far as it is known.

Parameters of the Qwen3.5 family, dense and with experts: text, vision, MTP, DFlash and DFlash2, the
proposal head and the n-gram table. Pure: works on a directory, or on configs alone.
"""

from typing import Any, Final

from tensorark.core.rules import Rule
from tensorark.formats.ninfer.architecture.check import (
    COMPONENT_RULES,
    CONFIG_RULES,
    PARAMETER_RULES,
    check,
)
from tensorark.formats.ninfer.architecture.model import (
    COMPONENTS,
    SPECULATIVE,
    parameters,
    problems,
)
from tensorark.formats.ninfer.architecture.ngram import (
    PROFILE_FRAME_RULES,
    PROFILE_RULES,
    TABLE_RULES,
    HotProfile,
    Profile,
    fingerprint,
    judge_payload,
    parse_profile,
)
from tensorark.formats.ninfer.architecture.parameter import Parameter, Source

RULES: Final[tuple[Rule[Any], ...]] = (
    *COMPONENT_RULES,
    *CONFIG_RULES,
    *PARAMETER_RULES,
    *TABLE_RULES,
    *PROFILE_FRAME_RULES,
    *PROFILE_RULES,
)
"""All of them: those of `check`, and those that verifying judges by payload."""

__all__ = [
    "COMPONENTS",
    "COMPONENT_RULES",
    "CONFIG_RULES",
    "PARAMETER_RULES",
    "PROFILE_FRAME_RULES",
    "PROFILE_RULES",
    "RULES",
    "SPECULATIVE",
    "TABLE_RULES",
    "HotProfile",
    "Parameter",
    "Profile",
    "Source",
    "check",
    "fingerprint",
    "judge_payload",
    "parameters",
    "parse_profile",
    "problems",
]
