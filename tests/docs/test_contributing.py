"""The steps of CONTRIBUTING are all it takes: each is done here on a copy of the project.

What is added is small on purpose; nothing but the named files and tables is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    for name in ("src", "conformance", "tools", "docs"):
        kept = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=kept)
    return tmp_path


def write(path: Path, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def extend(path: Path, before: str, text: str):
    """Put lines before the first place of a text."""
    old = path.read_text()
    assert before in old, path
    path.write_text(old.replace(before, text + before, 1))


def run(project: Path, *words: str) -> str:
    paths = os.pathsep.join([str(project / "src"), str(project)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def generate(project: Path):
    """Do what `make generate` does."""
    run(project, "-m", "conformance.build")
    run(project, "tools/cli_reference.py")


RULE = '''
@rule("npz.few-members", section="zip", stage="open")
def few_members(listed: Listing) -> Iterator[Fault]:
    """An archive has at most a hundred members."""
    if len(listed.entries) > 100:
        yield Fault((), "too many members", 100, len(listed.entries), listed.end.offset)


'''
BREAKING = '''def few_members() -> bytes:
    """There are a hundred and one arrays."""
    return archive(*(Member(name=f"{at}.npy".encode()) for at in range(101)))


'''


def test_a_rule_is_added_in_these_steps(project):
    corpus, format_ = project / "conformance/npz", project / "src/tensorark/formats/npz"
    extend(corpus / "build/rules.py", "encrypted |", "few-members | zip | At most 100 members.\n")
    extend(corpus / "musts.txt", "zip |", "zip | at most 100 members | npz.few-members\n")
    extend(corpus / "build/reject.py", "def encrypted(", BREAKING)
    extend(format_ / "rules.py", "LISTED_RULES: Final", RULE.lstrip("\n"))
    extend(format_ / "rules.py", "    encrypted,\n    method,", "    few_members,\n")
    generate(project)
    assert "npz.few-members" in (project / "docs/reference/errors.md").read_text()
    assert '"npz.few-members"' in (corpus / "index.json").read_text()
    program = """
import tensorark
found = tensorark.validate("conformance/npz/reject/few-members.npz")
print([each.rule for each in found], [tensorark.validate("conformance/npz/accept/minimal.npz")])
"""
    assert run(project, "-c", program) == "['npz.few-members'] [[]]\n"
    told = run(project, "-m", "tensorark", "explain", "npz.few-members")
    assert "at most a hundred members" in told


LAYOUT = '''"""The layout `demo.twice/1`: as far as metadata goes."""

from collections.abc import Iterator, Sequence
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import Description, Layout, parts_fault

ID: Final = "demo.twice/1"


@rule("demo.parts", section=ID, stage="open")
def parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """An object has exactly one part, `halves`."""
    for each in objects:
        if each.parts.keys() != {"halves"}:
            yield parts_fault(each, "halves")


LAYOUT: Final[Layout[Description]] = Layout(ID, lambda each: each, (parts,))
'''
VALUES = '''"""The layout `demo.twice/1` as values: twice what is stored."""

from typing import Final

from tensorark.core.model import Tensor
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.dtypes import Array, decode
from tensorark.layouts.twice.rules import LAYOUT
from tensorark.layouts.values import Values


def assemble(tensor: Tensor, read: Bytes) -> Array:
    return 2 * decode(read("halves"), ("f32", None), tensor.shape)


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    return 2 * decode(read("halves", 4 * start, 4 * stop), ("f32", None), (stop - start,))


VALUES: Final = Values(LAYOUT, assemble, elements)
'''


def test_a_layout_is_added_in_these_steps(project):
    layouts = project / "src/tensorark/layouts"
    write(layouts / "twice/__init__.py", '"""The layout `demo.twice/1`."""\n')
    write(layouts / "twice/rules.py", LAYOUT)
    write(layouts / "twice/values.py", VALUES)
    extend(layouts / "__init__.py", '    "csr",', '    "twice",\n')
    program = """
import numpy as np, tensorark
from tensorark.core.rules import all_rules
half = np.arange(6, dtype="<f4")
for name, role in (("good", "halves"), ("bad", "others")):
    try:
        with tensorark.Writer(f"{name}.zt") as writer:
            writer.add_parts("w", (2, 3), "demo.twice/1", {role: (("f32", None), [half])})
    except tensorark.InvalidInput as error:
        print(error.code)
with tensorark.open("good.zt") as file:
    print(file["w"].numpy().tolist(), file["w"][1, 1:].tolist())
print("demo.parts" in {each.id for each in all_rules()})
"""
    assert run(project, "-c", program).splitlines() == [
        "demo.parts",
        "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] [8.0, 10.0]",
        "True",
    ]
    assert "exactly one part" in run(project, "-m", "tensorark", "explain", "demo.parts")


FORMAT = '''"""A format of one array of bytes behind a magic."""

from typing import Final

from tensorark.core.ledger import Keeps
from tensorark.core.model import Catalog, Part, Raw, Span, Tensor
from tensorark.core.rules import Fault, rule
from tensorark.core.writing import Copy, Output, Outputs
from tensorark.formats.format import Format


@rule("demo.size", section="demo", stage="frame")
def size(found):
    """A file has at least one byte behind its magic."""
    if found < 5:
        yield Fault((), "the file is too short", 5, found, 4)


def read(size_of, reading):
    found = size_of(None)
    reading.require((size,), found)
    yield [Span(0, 4)]
    part = Part(Raw((Span(4, found - 4),)), "u8")
    return Catalog("demo", {"it": Tensor("it", (found - 4,), "dense", {"data": part})})


def write(catalog, _options, goal):
    (tensor,) = catalog.tensors.values()
    yield Outputs((Output(goal.name),), goal.name)
    yield b"DEMO"
    yield Copy(tensor.parts["data"], ("objects", tensor.name, "parts", "data"))


DEMO: Final = Format(
    name="demo",
    title="demo",
    suffixes=(".demo",),
    sniff=lambda head, _tail, _size: head.startswith(b"DEMO"),
    read=read,
    rules=(size,),
    write=write,
    keeps=Keeps(frozenset({"names", "shapes"})),
    holder="demo",
)
'''
CORPUS = """from pathlib import Path

from conformance.build.collection import Collection
from conformance.build.ruletable import table

from . import accept, reject

CORPUS = Collection(
    format="demo",
    specification="demo",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,)},
    rules=table("demo", "frame\\nsize | demo | There is a byte behind the magic.\\n"),
    place=lambda stem, image: {f"{stem}.demo": image},
    expect=lambda rule: {"open": "reject"},
)
"""
ACCEPTED = '''from conformance.build.case import Case


def three():
    """Three."""
    return Case(image=b"DEMO123", section="demo", expect={"open": "accept"})
'''


def test_a_format_is_added_in_these_steps(project):
    formats, corpus = project / "src/tensorark/formats", project / "conformance/demo"
    write(formats / "demo/__init__.py", FORMAT)
    extend(formats / "__init__.py", '    ("zt", "ZT"),', '    ("demo", "DEMO"),\n')
    write(corpus / "build/corpus.py", CORPUS)
    write(corpus / "build/accept.py", ACCEPTED)
    write(corpus / "build/reject.py", 'def size():\n    """None."""\n    return b"DEMO"\n')
    generate(project)
    program = """
import tensorark
with tensorark.open("conformance/demo/accept/three.demo") as file:
    print(bytes(file["it"].raw()))
print([each.rule for each in tensorark.validate("conformance/demo/reject/size.demo")])
tensorark.convert("conformance/demo/accept/three.demo", "it.zt")
tensorark.convert("it.zt", "it.demo")
print(open("it.demo", "rb").read(), tensorark.verify("it.demo").ok)
print(tensorark.diff("it.zt", "it.demo").is_equal)
"""
    assert run(project, "-c", program).splitlines() == [
        "b'123'",
        "['demo.size']",
        "b'DEMO123' True",
        "True",
    ]
    assert "demo.size" in (project / "docs/reference/errors.md").read_text()
    assert "demo" in run(project, "-m", "tensorark", "formats")
