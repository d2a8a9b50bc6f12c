"""The corpus of safetensors: which modules build which class, and the lines of its index."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, sentence

from . import accept, either, refuse, reject
from .case import REJECT, Case, contents
from .image import INDEX, Set
from .rules import RULES

_FORMAT = "safetensors"


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    name, files = _placed(f"{group}/{stem}", case.image)
    line: dict[str, object] = {
        "path": name,
        "parts": [part for part in files if part != name],
        "sha256": hashlib.sha256(b"".join(files.values())).hexdigest(),
        "class": group,
        "rule": case.rule,
        "section": case.section,
        "stage": RULES[case.rule].stage if case.rule else None,
        "expect": dict(case.expect),
        "contents": None,
        "sentence": sentence(builder),
    }
    if isinstance(built, Case):
        line["contents"] = f"{group}/{stem}.json"
        text = json.dumps(contents(case), indent=1, ensure_ascii=False) + "\n"
        files[f"{group}/{stem}.json"] = text.encode()
    return Entry(files=files, line=line)


def _placed(stem: str, image: object) -> tuple[str, dict[str, bytes]]:
    """Return the file that is opened, and all files of an image by name."""
    if isinstance(image, Set):
        return f"{stem}/{INDEX}", {f"{stem}/{part}": data for part, data in image.items()}
    if not isinstance(image, bytes):
        message = f"{stem} is no image"
        raise TypeError(message)
    return f"{stem}.safetensors", {f"{stem}.safetensors": image}


def _breaking(stem: str, built: object) -> Case:
    """Return the case of a file of `reject/`: its name is the rule that it breaks."""
    if not isinstance(built, bytes | Set):
        message = f"{stem} is no image"
        raise TypeError(message)
    rule = RULES[f"{_FORMAT}.{stem.split('--', maxsplit=1)[0]}"]
    return Case(image=built, section=rule.section, expect={"open": REJECT}, rule=rule.id)


CORPUS = Collection(
    format=_FORMAT,
    specification="safetensors, release 0.8",
    home=Path(__file__).resolve().parents[2] / _FORMAT,
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,), "either": (either,)},
    rules=RULES,
    make=_entry,
)
