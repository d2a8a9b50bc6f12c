"""What every artifact has to be that we write or take apart: what its architecture calls for."""

from __future__ import annotations

from tensorark.errors import InvalidInput
from tensorark.formats.ninfer import architecture
from tensorark.formats.ninfer.directory import Directory


def require_sound(directory: Directory) -> None:
    """Require an artifact to be what its architecture calls for.

    Raises:
        InvalidInput: when it is not; `code` is the rule that it breaks.
        Unsupported: when the architecture is unknown.
    """
    findings = architecture.check(directory)
    if findings:
        first = findings[0]
        raise InvalidInput(
            f"the artifact does not fit its architecture: {first.detail}",
            code=first.rule,
            section=first.section,
            where=first.where,
            expected=first.expected,
            found=first.found,
        )
