"""A corpus as a whole: which function builds which file, and what follows of it.

Owns the generated files of one format, their index and the list in their README. It never touches
what is written by hand.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .case import Case, Expect
from .ruletable import Rule

Builder = Callable[[], object]

_GENERATED = "<!-- Below this line everything is generated: python -m conformance.build -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a corpus: its files and sidecar by name, and its line in the index."""

    files: Mapping[str, bytes]
    line: Mapping[str, object]


def _no_facts(case: Case, files: Mapping[str, bytes]) -> Mapping[str, object]:
    """Return what an index says of a file beyond what all do: nothing."""
    del case, files
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The corpus of one format: where it lies, its builders by class, its rules.

    `place` gives an image its files by name, told the name without suffix; the first is opened.
    `expect` are the answers to a file that breaks a rule, and nothing else. The classes are folders
    below `home`, or below `below` in it.
    """

    format: str
    specification: str
    home: Path
    below: str = ""
    unit: str = "files"
    classes: Mapping[str, tuple[ModuleType, ...]]
    rules: Mapping[str, Rule]
    place: Callable[[str, object], Mapping[str, bytes]]
    expect: Callable[[Rule], Expect]
    facts: Callable[[Case, Mapping[str, bytes]], Mapping[str, object]] = _no_facts

    def entries(self) -> tuple[Entry, ...]:
        """Return every entry in the order of the index: by class, by rule, by name."""
        groups = {
            group: [self._entry(group, stem, each) for stem, each in sorted(_builders(modules))]
            for group, modules in self.classes.items()
        }
        order = list(self.rules)
        groups["reject"].sort(key=lambda entry: order.index(str(entry.line["rule"])))
        return tuple(entry for group in groups.values() for entry in group)

    def _entry(self, group: str, stem: str, builder: Builder) -> Entry:
        built = builder()
        case = built if isinstance(built, Case) else self._broken(stem, built)
        name = f"{self.below}{group}/{stem}"
        files = self.place(name, case.image)
        path, *parts = files
        sidecar = f"{name}.json" if isinstance(built, Case) else None
        line = {
            "path": path,
            "parts": parts,
            "sha256": hashlib.sha256(b"".join(files.values())).hexdigest(),
            "class": group,
            "rule": case.rule,
            "section": case.section,
            "stage": self.rules[case.rule].stage if case.rule else None,
            "expect": dict(case.expect),
            **self.facts(case, files),
            "contents": sidecar,
            "sentence": _sentence(builder),
        }
        if sidecar is None:
            return Entry(files=files, line=line)
        text = json.dumps(case.known(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        return Entry(files={**files, sidecar: text.encode()}, line=line)

    def _broken(self, stem: str, image: object) -> Case:
        """Return the case of an image of `reject/`: its name begins with the rule it breaks."""
        slug = stem.split("--", maxsplit=1)[0]
        (rule,) = (each for each in self.rules.values() if each.slug == slug)
        return Case(image=image, section=rule.section, expect=self.expect(rule), rule=rule.id)

    def outputs(self, folder: Path) -> dict[Path, bytes]:
        """Return every generated file below `folder` with the bytes it has to have."""
        corpus = self.entries()
        files = {folder / name: data for entry in corpus for name, data in entry.files.items()}
        page = folder / "README.md"
        written = page.read_text(encoding="utf-8") if page.exists() else ""
        text = written.partition(_GENERATED)[0] + _GENERATED + "\n"
        text += "\n".join(self._listing(corpus))
        return files | {folder / "index.json": self._index(corpus), page: text.encode()}

    def write(self) -> int:
        """Write every generated file and return how many changed."""
        changed = 0
        for path, data in self.outputs(self.home).items():
            if path.exists() and path.read_bytes() == data:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            changed += 1
        return changed

    def problems(self, folder: Path | None = None) -> list[str]:
        """Return a line for every missing, stale or stray file, and every rule without one."""
        folder = folder or self.home
        wanted = self.outputs(folder)
        roots = [folder / self.below / group for group in self.classes]
        held = {path for root in roots for path in root.rglob("*") if path.is_file()}
        found = [f"stray: {path.relative_to(folder)}" for path in sorted(held - wanted.keys())]
        for path, data in sorted(wanted.items()):
            if not path.exists():
                found.append(f"missing: {path.relative_to(folder)}")
            elif path.read_bytes() != data:
                found.append(f"stale: {path.relative_to(folder)}")
        rejected = (entry.line for entry in self.entries() if entry.line["class"] == "reject")
        broken = {line["rule"] for line in rejected}
        return found + [f"no file: {rule}" for rule in self.rules if rule not in broken]

    def _index(self, corpus: tuple[Entry, ...]) -> bytes:
        """Return `index.json`: the rules, then one line per entry."""
        rules = [
            {
                "id": each.id,
                "section": each.section,
                "stage": each.stage,
                "requirement": each.requirement,
            }
            for each in self.rules.values()
        ]
        head = json.dumps({"format": self.format, "specification": self.specification})[:-1]
        blocks = (("rules", rules), ("files", [dict(entry.line) for entry in corpus]))
        lists = (
            f'"{name}": [\n'
            + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            + "\n]"
            for name, rows in blocks
        )
        return (head + ",\n" + ",\n".join(lists) + "}\n").encode()

    def _listing(self, corpus: tuple[Entry, ...]) -> Iterator[str]:
        yield f"{len(corpus)} {self.unit}, {len(self.rules)} rules.\n"
        for group in self.classes:
            yield f"## {group}/\n"
            rule = None
            for line in (entry.line for entry in corpus if entry.line["class"] == group):
                if group == "reject" and line["rule"] != rule:
                    if rule:
                        yield ""
                    rule = str(line["rule"])
                    known = self.rules[rule]
                    yield f"**{rule}** (§{known.section}, {known.stage}). {known.requirement}\n"
                yield f"- `{self._shown(str(line['path']))}`: {line['sentence']}"
            yield ""

    def _shown(self, path: str) -> str:
        """Return the name of a file below its class, or of the folder that it stands for."""
        first, *rest = path.removeprefix(self.below).split("/")[1:]
        return f"{first}/" if rest else first


def _builders(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, Builder]]:
    """Yield every public function defined in the modules, with the file stem that is its name."""
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield name.replace("_", "-"), function


def _sentence(builder: Builder) -> str:
    """Return the docstring of a builder: what is special about its file."""
    return " ".join((builder.__doc__ or "").split())
