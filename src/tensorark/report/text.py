"""Reports as text for people: quantities, and lines made of a report's values.

Pure: returns strings, prints nothing. Every name and every value from a file is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tensorark.errors import disagreement, escaped, printable

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LONGEST: Final = 400
"""Characters of a metadata value that are shown."""


def nbytes_text(nbytes: int) -> str:
    """Write a size with a binary unit: ``512 B``, ``1.5 KiB``."""
    size, unit = float(nbytes), 0
    while size >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{nbytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape: ``4096×128``, or ``scalar``."""
    return "×".join(map(str, shape)) or "scalar"


def count_text(number: int, noun: str) -> str:
    """Write a number with its noun in the right form."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def value_text(value: object) -> str:
    """Write a value of a file's attributes in one escaped line, cut where it is very long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > _LONGEST:
        return escaped(text[:_LONGEST]) + f"… ({len(text):,} characters)"
    return escaped(text)


def totals_text(totals: Mapping[str, Any]) -> str:
    """Write totals in one line: ``3 tensors, 6 elements, 24 B: f32 3 (24 B)``."""
    head = (
        f"{count_text(totals['tensors'], 'tensor')}, {count_text(totals['elements'], 'element')}, "
        f"{nbytes_text(totals['nbytes'])}"
    )
    types = ", ".join(
        f"{escaped(each['type'])} {each['tensors']:,} ({nbytes_text(each['nbytes'])})"
        for each in totals["types"]
    )
    return f"{head}: {types}" if types else head


def report_lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, text) for each line of a model's description; "" repeats the last label."""
    yield "file", escaped(report["path"])
    yield "format", f"{report['title']} ({report['format']})"
    yield from _label("size", _files(report["files"]))
    yield "tensors", totals_text(report["totals"])
    layouts = report["layouts"]
    if layouts and set(layouts) != {"dense"}:
        yield "layouts", ", ".join(f"{escaped(each)} {n:,}" for each, n in layouts.items())
    yield "digests", _digests(report["digests"])
    yield "alignment", _alignment(report["alignment"])
    yield from _label("aliases", _aliases(report["aliases"]))
    if report["artifact"] is not None:
        yield from _artifact_lines(report["artifact"])
    if report["family"]:
        yield "guess", f"{report['family']}, to judge by its names"
    attributes = report["attributes"] or {}
    yield from _label(
        "attributes", [f"{escaped(key)} = {value_text(each)}" for key, each in attributes.items()]
    )


def _artifact_lines(artifact: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lines about a NInfer artifact: its id, what it calls itself, its components."""
    counts = ", ".join(count_text(artifact[key], key[:-1]) for key in ("parameters", "uses"))
    yield "artifact", f"{artifact['artifact_id']}, {counts}"
    for key in ("metadata", "provenance"):
        if artifact[key]:
            yield key, value_text(artifact[key])
    for name, each in artifact["components"].items():
        target = f" (target {escaped(each['target'])})" if each["target"] is not None else ""
        yield "component", f"{escaped(name)}{target}"
        yield "  config", value_text(each["config"])
        if each["resources"]:
            yield "  resources", ", ".join(map(escaped, each["resources"]))
        if each["proposal"] is not None:
            yield "  proposal", value_text(each["proposal"])


def _label(label: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield ("" if number else label), line


def _files(files: Sequence[Mapping[str, Any]]) -> list[str]:
    (opened, *shards) = files
    if not shards:
        return [f"{nbytes_text(opened['size'])} ({opened['size']:,} bytes)"]
    present = [each for each in shards if each["present"]]
    whole = opened["size"] + sum(each["size"] for each in present)
    lines = [
        (
            f"{nbytes_text(whole)} in {count_text(len(files), 'file')}; "
            f"{len(present)} of {count_text(len(shards), 'shard')} present"
        )
    ]
    for each in shards:
        size = nbytes_text(each["size"]) if each["present"] else _missing(each["tensors"])
        lines.append(f"{escaped(each['label'])}  {size}")
    return lines


def _missing(tensors: Sequence[str]) -> str:
    names = ", ".join(map(escaped, tensors[:_LOST])) + (", …" if len(tensors) > _LOST else "")
    return f"missing, with {count_text(len(tensors), 'tensor')}: {names}"


_LOST: Final = 4  # names that are shown of a shard that is missing


def _digests(digests: Mapping[str, Any]) -> str:
    if not digests["digested"]:
        return "none"
    kinds = ", ".join(f"{escaped(each)} {n:,}" for each, n in digests["algorithms"].items())
    return f"{digests['digested']:,} of {count_text(digests['parts'], 'part')} ({kinds})"


def _alignment(facts: Mapping[str, int]) -> str:
    if not facts["parts"]:
        return "no raw payload"
    wrong = [
        f"{facts[key]:,} not aligned to {what}"
        for key, what in (
            ("off_dtype", "their element"),
            ("off_64", "64 bytes"),
            ("off_4096", "4096 bytes"),
        )
        if facts[key]
    ]
    parts = count_text(facts["parts"], "part")
    return f"of {parts}: {', '.join(wrong)}" if wrong else f"all {parts} at multiples of 4096"


def _aliases(groups: Sequence[Sequence[str]]) -> list[str]:
    shown = [" = ".join(map(escaped, group[:6])) + _more(group, 6) for group in groups[:10]]
    return shown + ([f"… and {len(groups) - 10} more groups"] if len(groups) > 10 else [])


def _more(items: Sequence[object], shown: int) -> str:
    return f" … and {len(items) - shown} more" if len(items) > shown else ""


def tensor_lines(tensor: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, text) for each line of a tensor's description."""
    yield "name", escaped(tensor["name"])
    yield "shape", f"{shape_text(tensor['shape'])} ({count_text(tensor['elements'], 'element')})"
    yield "type", escaped(tensor["type"])
    shortly = f" ({escaped(tensor['scheme'])})" if tensor["scheme"] else ""
    yield "layout", escaped(tensor["layout"]) + shortly
    yield "size", f"{nbytes_text(tensor['nbytes'])} ({tensor['nbytes']:,} bytes)"
    for role, part in tensor["parts"].items():
        yield f"part {escaped(role)}", part_text(part)
    for key, value in (tensor["attributes"] or {}).items():
        yield f"attribute {escaped(key)}", value_text(value)


def part_text(part: Mapping[str, Any]) -> str:
    """Write one part in one line: type, size, place, encoding, digest."""
    kind = part["dtype"] if part["type"] is None else f"{part['type']} over {part['dtype']}"
    words = [escaped(kind), nbytes_text(part["nbytes"])]
    for span in part["spans"]:
        where = f"bytes {span['offset']}–{span['offset'] + span['length']}"
        words.append(where + (f" of {escaped(span['file'])}" if span["file"] else ""))
    if part["encoding"]:
        words.append(f"encoding {escaped(part['encoding'])}")
    words.append(escaped(part["digest"] or "no digest"))
    return ", ".join(words)


def finding_text(found: Mapping[str, Any]) -> str:
    """Write a finding in one line: what is wrong, rule and section, place, byte offset."""
    text = found["detail"] + disagreement(_side(found["expected"]), _side(found["found"]))
    facts = [found["rule"] + (f" §{found['section']}" if found["section"] else "")]
    if found["place"]:
        facts.append(f"at {found['place']}")
    if found["offset"] is not None:
        facts.append(f"byte {found['offset']}")
    return printable(f"{text} [{', '.join(facts)}]")


def _side(value: object) -> object:
    """Return one side of a disagreement; numbers that JSON has none of as they are called."""
    return value["$float"] if isinstance(value, Mapping) and "$float" in value else value


def tree_rows(
    branches: Sequence[Mapping[str, Any]], depth: int = 0, *, most: int | None = None
) -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, type, shape, size) for each branch of a tree, of `most` levels."""
    for branch in branches:
        name = "  " * depth + escaped(branch["name"])
        if branch["count"] > 1:
            name += f" ×{branch['count']}"
            if branch["numbers"] not in branch["name"]:
                name += f" ({branch['numbers']})"
        own = branch["tensor"]
        if own is not None:
            yield name, escaped(own["type"]), shape_text(own["shape"]), nbytes_text(own["nbytes"])
        else:
            yield name, "", count_text(branch["tensors"], "tensor"), nbytes_text(branch["nbytes"])
        if most is None or depth + 1 < most:
            yield from tree_rows(branch["branches"], depth + 1, most=most)
