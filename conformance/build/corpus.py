"""The corpus as a whole: which function builds which file, and what is derived from them.

Owns the files of `zt/`, `index.json` and the list in `README.md`. It never touches what is written
by hand.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from . import (
    accept,
    affine,
    canonical,
    content,
    either,
    frame,
    layout,
    profiles,
    refuse,
    schema,
    syntax,
    values,
    zstd,
)
from .case import ACCEPT, REFUSE, REJECT, Case
from .image import Sparse, json_bytes
from .rules import PROFILES, RULES

HERE = Path(__file__).resolve().parents[1]
"""The folder this corpus lives in."""

SPECIFICATION = "zTensor Container Format, Version 2, Draft 4"
_FORMAT = "zt"
_CLASSES: Mapping[str, tuple[ModuleType, ...]] = {
    "accept": (accept, values),
    "reject": (frame, syntax, schema, layout, profiles, affine, content, zstd, canonical),
    "refuse": (refuse,),
    "either": (either,),
}
_SLUGS = {id_.removeprefix("zt.").replace(".", "-"): rule for id_, rule in RULES.items()}
"""What the name of a file in `reject/` begins with."""
_GENERATED = "<!-- Below this line everything is generated: python -m conformance.build -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of the corpus: its bytes, and its line in the index."""

    path: str
    file: bytes
    sidecar: bytes | None
    line: Mapping[str, object]


def entries() -> tuple[Entry, ...]:
    """Return every file in the order of the index: by class, by rule, by name."""
    groups = {
        group: [_entry(group, name, builder) for name, builder in sorted(_builders(modules))]
        for group, modules in _CLASSES.items()
    }
    groups["reject"].sort(key=lambda entry: list(RULES).index(str(entry.line["rule"])))
    return tuple(entry for group in groups.values() for entry in group)


def _builders(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every public function defined in the modules, with the file stem that is its name."""
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield name.replace("_", "-"), function


def _entry(group: str, stem: str, builder: Callable[[], object]) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    sparse = isinstance(case.image, Sparse)
    file = case.image.recipe() if isinstance(case.image, Sparse) else case.image
    path = f"{_FORMAT}/{group}/{stem}{'.sparse.json' if sparse else '.zt'}"
    rule = RULES[case.rule] if case.rule else None
    line = {
        "path": path,
        "sha256": hashlib.sha256(file).hexdigest(),
        "class": group,
        "rule": case.rule,
        "section": case.section,
        "stage": rule.stage if rule else None,
        "operation": _decisive(case),
        "expect": dict(case.expect),
        "requires": _required(file, canonical=bool(rule and rule.stage == "canonical")),
        "contents": None,
        "sentence": _sentence(builder),
    }
    sidecar = None
    if not isinstance(built, bytes | Sparse):
        line["contents"] = f"{_FORMAT}/{group}/{stem}.json"
        sidecar = json_bytes({**case.notes, **(case.contents or {})})
    return Entry(path=path, file=file, sidecar=sidecar, line=line)


def _required(file: bytes, *, canonical: bool) -> str | None:
    """Return the profile that a decoder must know; canonical form is judged without any."""
    found = (each for each in PROFILES if each.partition("<")[0].encode() in file)
    return None if canonical else next(found, None)


def _decisive(case: Case) -> str:
    """Return the operation that shows the file's class: the last with the telling outcome."""
    telling = REFUSE if REFUSE in case.expect.values() else REJECT if case.rule else ACCEPT
    return [operation for operation, outcome in case.expect.items() if outcome == telling][-1]


def _breaking(stem: str, image: object) -> Case:
    """Return the case of an image of `reject/`: the file's name is the rule it breaks."""
    if not isinstance(image, bytes | Sparse):
        message = f"{stem} is no image"
        raise TypeError(message)
    rule = _SLUGS[stem.split("--", maxsplit=1)[0]]
    return Case(image=image, section=rule.section, expect=_expect(rule.id), rule=rule.id)


def _expect(rule: str) -> dict[str, str]:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if rule == "zt.digest":  # decoding need not check digests
        return {"open": ACCEPT, "verify": REJECT}
    match RULES[rule].stage:
        case "content":
            return {"open": ACCEPT, "decode": REJECT, "verify": REJECT}
        case "canonical" if rule in {"zt.canonical-raw", "zt.canonical-shards"}:
            return {"open": ACCEPT, "canonical": REJECT}  # an encoding, a shard: more than we ask
        case "canonical":
            return {"open": ACCEPT, "verify": ACCEPT, "canonical": REJECT}
    return {"open": REJECT}


def _sentence(builder: Callable[[], object]) -> str:
    return " ".join((builder.__doc__ or "").split())


def index(corpus: tuple[Entry, ...]) -> bytes:
    """Return `index.json`: the rules, then one line per file."""
    rules = [
        {
            "id": rule.id,
            "section": rule.section,
            "stage": rule.stage,
            "requirement": rule.requirement,
        }
        for rule in RULES.values()
    ]
    head = json.dumps({"format": _FORMAT, "specification": SPECIFICATION})[:-1]
    blocks = (("rules", rules), ("files", [dict(entry.line) for entry in corpus]))
    lists = (
        f'"{name}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for name, rows in blocks
    )
    return (head + ",\n" + ",\n".join(lists) + "}\n").encode()


def readme(corpus: tuple[Entry, ...], written: str) -> str:
    """Return the README: its hand-written head, then the generated list of files."""
    head = written.partition(_GENERATED)[0]
    return head + _GENERATED + "\n" + "\n".join(_listing(corpus))


def _listing(corpus: tuple[Entry, ...]) -> Iterator[str]:
    yield f"{len(corpus)} files, {len(RULES)} rules.\n"
    for group in _CLASSES:
        yield f"## {group}/\n"
        rule = None
        for line in (entry.line for entry in corpus if entry.line["class"] == group):
            if group == "reject" and line["rule"] != rule:
                if rule:
                    yield ""
                rule = str(line["rule"])
                known = RULES[rule]
                yield f"**{rule}** (§{known.section}, {known.stage}). {known.requirement}\n"
            yield f"- `{Path(str(line['path'])).name}`: {line['sentence']}"
        yield ""


def outputs(folder: Path) -> dict[Path, bytes]:
    """Return every generated file below `folder` with the bytes it has to have."""
    corpus = entries()
    files = {folder / entry.path: entry.file for entry in corpus}
    files |= {
        folder / str(entry.line["contents"]): entry.sidecar
        for entry in corpus
        if entry.sidecar is not None
    }
    written = folder / "README.md"
    text = written.read_text(encoding="utf-8") if written.exists() else ""
    return files | {
        folder / "index.json": index(corpus),
        written: readme(corpus, text).encode(),
    }


def write(folder: Path = HERE) -> int:
    """Write every generated file and return how many changed."""
    changed = 0
    for path, data in outputs(folder).items():
        if path.exists() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        changed += 1
    return changed


def problems(folder: Path = HERE) -> list[str]:
    """Return a line for every missing, stale or stray file, and every rule without one."""
    wanted = outputs(folder)
    held = {
        path
        for group in _CLASSES
        for path in (folder / _FORMAT / group).rglob("*")
        if path.is_file()
    }
    found = [f"stray: {path.relative_to(folder)}" for path in sorted(held - wanted.keys())]
    for path, data in sorted(wanted.items()):
        if not path.exists():
            found.append(f"missing: {path.relative_to(folder)}")
        elif path.read_bytes() != data:
            found.append(f"stale: {path.relative_to(folder)}")
    broken = {entry.line["rule"] for entry in entries() if entry.line["class"] == "reject"}
    return found + [f"no file: {rule}" for rule in RULES if rule not in broken]
