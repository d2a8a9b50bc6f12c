"""Judging payload of an artifact that is no tensor's own: auxiliaries of uses, and known resources.

Conversations: few bytes and plain ones are asked for, and no numbers are needed.
"""

from __future__ import annotations

from dataclasses import replace

from tensorark.core.conversation import Steps
from tensorark.core.model import Catalog
from tensorark.core.rules import Reading
from tensorark.errors import Rejected, Unsupported
from tensorark.formats.ninfer.directory import Directory
from tensorark.formats.ninfer.read import judge
from tensorark.formats.ninfer.uses import USE_RULES, Auxiliary, auxiliaries, refuse_role


def payload_rules(catalog: Catalog, reading: Reading) -> Steps[list[Unsupported]]:
    """Judge the auxiliaries of every use, each binding once, and what its architecture calls for.

    Returns what cannot be judged.

    Raises:
        Rejected: when a rule is broken, unless `reading` gathers.
    """
    from tensorark.formats.ninfer.architecture import judge_payload

    directory: Directory = catalog.native
    unknown: list[Unsupported] = []
    seen: set[object] = set()
    for each in auxiliaries(directory):
        key = (
            each.role,
            tuple(piece.range for piece in each.values.pieces),
            each.parameter.shape[1:],
            each.parameter.formats,
        )
        if key in seen:
            continue
        seen.add(key)
        try:
            yield from judge_auxiliary(catalog, each, reading)
        except Rejected:
            if reading.gathered is None:
                raise
        except Unsupported as error:
            unknown.append(error)
    try:
        yield from judge_payload(directory, reading)
    except Rejected:
        if reading.gathered is None:
            raise
    return unknown


def judge_auxiliary(catalog: Catalog, found: Auxiliary, reading: Reading) -> Steps[None]:
    """Judge one auxiliary: its binding first, then its values.

    Raises:
        Rejected: when it breaks a rule.
        Unsupported: when its role is unknown.
    """
    refuse_role(found)
    reading.require(USE_RULES, found)
    for each in found.values.pieces:
        judge(catalog, each.stored.id, Reading())
    spans = [span for each in found.values.pieces for span in each.spans]
    data = yield spans
    reading.require(USE_RULES, replace(found, data=b"".join(data)))
