"""The corpus of NInfer as a whole: which function builds which file, and what follows from them.

Owns the files of `ninfer/`, its index and the list in its README. It never touches what is written
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

from . import accept, binder, carried, content, either, refuse, reject
from .case import ACCEPT, REJECT, Case, contents
from .rules import READ, RULES

HERE = Path(__file__).resolve().parents[2] / "ninfer"
"""The folder of this corpus."""

_CLASSES: Mapping[str, tuple[ModuleType, ...]] = {
    "accept": (accept,),
    "reject": (reject, content, binder, carried),
    "refuse": (refuse,),
    "either": (either,),
}
_GENERATED = (
    "<!-- Below this line everything is generated: python -m conformance.build.ninfer -->\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One set of the corpus: its files and sidecar by name, and its line in the index."""

    files: Mapping[str, bytes]
    line: Mapping[str, object]


def entries() -> tuple[Entry, ...]:
    """Return every set in the order of the index: by class, by rule, by name."""
    groups = {
        group: [_entry(group, name, builder) for name, builder in sorted(_builders(modules))]
        for group, modules in _CLASSES.items()
    }
    groups["reject"].sort(key=lambda entry: list(RULES).index(str(entry.line["rule"])))
    return tuple(entry for group in groups.values() for entry in group)


def _builders(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, Callable[[], object]]]:
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield name.replace("_", "-"), function


def _entry(group: str, stem: str, builder: Callable[[], object]) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    suffix = ".zt" if builder.__module__ == carried.__name__ else ".ninfer"
    name = f"{group}/{stem}{suffix}"
    files = {name: case.files[""]}
    files |= {f"{group}/{part}": data for part, data in case.files.items() if part}
    line: dict[str, object] = {
        "path": name,
        "parts": [f"{group}/{part}" for part in case.files if part],
        "sha256": hashlib.sha256(b"".join(case.files.values())).hexdigest(),
        "class": group,
        "rule": case.rule,
        "section": case.section,
        "stage": RULES[case.rule].stage if case.rule else None,
        "expect": dict(case.expect),
        "contents": None,
        "sentence": " ".join((builder.__doc__ or "").split()),
    }
    if isinstance(built, Case):
        line["contents"] = f"{group}/{stem}.json"
        text = json.dumps(contents(case), indent=1, ensure_ascii=False) + "\n"
        files[f"{group}/{stem}.json"] = text.encode()
    return Entry(files=files, line=line)


def _breaking(stem: str, built: object) -> Case:
    """Return the case of a set of `reject/`: its name is the rule that it breaks."""
    files = {"": built} if isinstance(built, bytes) else built
    if not isinstance(files, dict):
        message = f"{stem} is no set"
        raise TypeError(message)
    rule = RULES[f"ninfer.{stem.split('--', maxsplit=1)[0]}"]
    return Case(files=files, section=rule.section, expect=_expect(rule.id), rule=rule.id)


def _expect(rule: str) -> dict[str, str]:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if RULES[rule].stage == "architecture":
        return {"open": ACCEPT, "decode": ACCEPT, "architecture": REJECT}
    if RULES[rule].stage != "content":
        return {"open": REJECT}
    if rule == "ninfer.input-columns":  # the matrix is one of GGUF blocks: more than we ask
        return {"open": ACCEPT, "verify": REJECT}
    is_read = rule.removeprefix("ninfer.").startswith(READ)
    return {"open": ACCEPT, "decode": REJECT if is_read else ACCEPT, "verify": REJECT}


def index(corpus: tuple[Entry, ...]) -> bytes:
    """Return `index.json`: the rules, then one line per set."""
    rules = [
        {
            "id": each.id,
            "section": each.section,
            "stage": each.stage,
            "requirement": each.requirement,
        }
        for each in RULES.values()
    ]
    head = json.dumps({"format": "ninfer", "specification": "NInfer v3 container"})[:-1]
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
    yield f"{len(corpus)} sets, {len(RULES)} rules.\n"
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
    files = {folder / name: data for entry in corpus for name, data in entry.files.items()}
    written = folder / "README.md"
    text = written.read_text(encoding="utf-8") if written.exists() else ""
    return files | {folder / "index.json": index(corpus), written: readme(corpus, text).encode()}


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
    held = {path for group in _CLASSES for path in (folder / group).rglob("*") if path.is_file()}
    found = [f"stray: {path.relative_to(folder)}" for path in sorted(held - wanted.keys())]
    for path, data in sorted(wanted.items()):
        if not path.exists():
            found.append(f"missing: {path.relative_to(folder)}")
        elif path.read_bytes() != data:
            found.append(f"stale: {path.relative_to(folder)}")
    broken = {entry.line["rule"] for entry in entries() if entry.line["class"] == "reject"}
    return found + [f"no file: {rule}" for rule in RULES if rule not in broken]
