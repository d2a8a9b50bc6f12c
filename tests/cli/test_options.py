"""One spelling for each option of every verb, and paths that are written are files with names."""

import json

import click
import numpy as np
import pytest

from tensorark.cli.group import TARK, VERBS
from tensorark.cli.options import EVERYWHERE
from tensorark.cli.parameters import OUTPUT
from tensorark.cli.verb import RENAMED
from tensorark.numpy import save_file

NAMES = [name for section in VERBS.values() for name in section]

SPELLINGS = {
    # what is written, and how
    "-o --output": "the path that is written",
    "-f --force": "replace what exists",
    "--dry-run": "show what would be done",
    "--to": "the format of the target, whatever its suffix",
    "--max-size": "most bytes of a file, shard or container",
    "--align": "placement of blobs",
    "--compact": "the closest placement",
    "--artifact-id": "the id of a .ninfer set",
    "--full": "shards that open by themselves",
    "--by": "where shards begin",
    "--repack": "write anew instead of appending",
    "--encoding": "how parts are compressed",
    "--level": "how hard",
    "--frame-size": "decoded bytes of a frame",
    # which tensors, and how much of them
    "--include": "names that are taken",
    "--exclude": "names that are left out, or as they are",
    "--rename": "other names",
    "--tensor": "one tensor instead of the file",
    "--replace": "supersede namesakes",
    "--sort": "order",
    "--limit": "how many are shown",
    "--depth": "how many levels are shown",
    "-l --long": "all columns",
    "--decode": "read values",
    "--uses": "show uses too",
    "--as": "the form of what is written",
    "--slice": "a part of a tensor",
    "--part": "a part of an object",
    # what changes in them
    "--drop": "kinds of what may be left out",
    "--cast": "round to a type",
    "--quantized": "gather or undo quantized layers",
    "--sparse": "gather or undo masks",
    "--masking": "what is done about masks",
    "--nm": "the pattern of pruning",
    "--scores": "a model of scores",
    "--masks": "a model of masks",
    "--axis": "along which weights are grouped",
    "--recipe": "how weights are chosen or stored",
    "--shapes": "guess shapes",
    "--config": "a configuration",
    "--join": "further models",
    "--component": "further components",
    "--source": "further checkpoints",
    "--name": "the public name",
    "--architecture": "demand what the architecture calls for",
    "--architecture-name": "the name of the architecture",
    "--extract": "a role to write",
    "--resource": "another file for a role",
    "--text": "a value is text",
    # reading and judging
    "--generation": "the file as it was",
    "--lenient": "let pass what public readers do",
    "--structural": "let pass broken layouts",
    "--keep-going": "list what is left",
    "--threads": "how many threads",
    "--digest": "the algorithm of a digest",
    "--file": "of the file, not of the content",
    "--canonical": "demand canonical form",
    "--complete": "demand digests",
    "--deep": "read shards whole",
    "--seal": "a seal to compare with",
    "--values": "compare decoded values",
    "--parameters": "compare logical parameters",
    # keys and signatures
    "--key": "the key",
    "--public": "where the public key goes",
    "--passphrase": "encrypt the key",
    "--openssf": "an OpenSSF bundle or its key",
    "--over": "what is signed",
    "--signature": "the signature's file",
    "--digests": "digests that are known",
    "--trust-digests": "take digests as given",
    "--any-name": "the file may have another name",
}
"""Each concept that an option stands for. A new verb takes the spelling that is here."""


def options():
    for name in NAMES:
        for each in TARK.get_command(click.Context(TARK), name).params:
            if isinstance(each, click.Option) and each not in EVERYWHERE:
                yield name, each


def spelling(option):
    return " ".join((*option.opts, *option.secondary_opts))


def test_every_option_has_the_one_spelling_of_its_concept():
    """When this fails: take a spelling of the table, or add a concept that it does not have."""
    used = {spelling(option) for _, option in options()}
    assert used - SPELLINGS.keys() == set()
    assert SPELLINGS.keys() - used == set()
    assert len(set(SPELLINGS.values())) == len(SPELLINGS)


def test_an_option_is_of_one_kind_in_all_verbs():
    kinds = {}
    for name, option in options():
        kinds.setdefault(spelling(option), {}).setdefault(option.is_flag, []).append(name)
    assert {spelled for spelled, verbs in kinds.items() if len(verbs) > 1} == set()
    sizes = {spelling(o) for _, o in options() if o.metavar == "SIZE"}
    assert sizes == {"--align", "--max-size", "--frame-size"}
    assert {o.metavar for _, o in options() if spelling(o) in {"--include", "--exclude"}} == {
        "GLOB"
    }
    assert {o.metavar for _, o in options() if spelling(o) == "--limit"} == {"N"}


def test_every_path_that_is_written_is_an_output():
    for name, option in options():
        if spelling(option) == "-o --output":
            assert option.type is OUTPUT, name


def test_old_spellings_lead_to_new_ones(tark, st, tmp_path):
    assert not RENAMED.keys() & {new for news in RENAMED.values() for new in news}
    for news in RENAMED.values():
        assert any(news[0] in spelled.split() for spelled in SPELLINGS)
    ran = tark("id", st, "--algorithm=sha256", "-q")
    assert ran.out.startswith("sha256:")
    assert ran.err == "note: --algorithm is called --digest\n"
    ran = tark("convert", st, tmp_path / "x.safetensors", "--max-shard-size", "1MB")
    assert (ran.code, ran.err) == (0, "note: --max-shard-size is called --max-size\n")
    assert tark("keygen", tmp_path / "k", "--public", tmp_path / "p").err == ""


WRITERS = {
    "resources": ["MODEL", "--extract", "x", "-o", "-"],
    "cat": ["MODEL", "norm", "-o", "-"],
    "seal": ["MODEL", "-o", "-"],
    "keygen": ["-"],
    "sign": ["MODEL", "--key", "k", "-o", "-"],
    "diff": ["MODEL", "MODEL", "-o", "-"],
    "convert": ["MODEL", "-", "--to", "safetensors"],
    "pack": [".", "-", "--recipe", "bf16"],
    "unpack": ["MODEL", "-"],
    "split": ["MODEL", "-", "--by", "layer"],
    "merge": ["MODEL", "-"],
    "overlay": ["MODEL", "MODEL", "-"],
    "repack": ["MODEL", "-"],
    "prune": ["MODEL", "-", "--to", "zt"],
    "mend": ["MODEL", "-"],
}


def test_every_verb_that_writes_is_in_the_table():
    writing = set()
    for name in NAMES:
        params = TARK.get_command(click.Context(TARK), name).params
        if any(each.type is OUTPUT for each in params):
            writing.add(name)
    assert writing == WRITERS.keys()


@pytest.mark.parametrize("verb", WRITERS)
def test_no_verb_writes_a_file_called_dash(tark, zt, monkeypatch, tmp_path, verb):
    monkeypatch.chdir(tmp_path)
    ran = tark(verb, *(str(zt) if word == "MODEL" else word for word in WRITERS[verb]))
    assert (ran.code, "'-' is no file" in ran.err) == (2, True)
    assert not (tmp_path / "-").exists()


# -------------------------------------------------------------------------------------- many paths


@pytest.mark.parametrize("verb", ["validate", "verify", "id", "ls"])
def test_judging_verbs_take_many_paths_and_end_with_the_worst(tark, zt, folder, tmp_path, verb):
    other = tmp_path / "other.zt"
    save_file({"w": np.ones(2, np.float32)}, other)
    assert tark(verb, zt, other).code == 0
    ran = tark(verb, zt, other, folder, "--json")
    paths = [each["path"] for each in json.loads(ran.out)["models"]]
    assert paths == [str(zt), str(other), str(folder / "a.zt"), str(folder / "b.safetensors")]
    broken = tmp_path / "broken.zt"
    broken.write_bytes(zt.read_bytes()[:-9])
    ran = tark(verb, broken, zt, tmp_path / "gone.zt")
    assert ran.code == 5
    assert str(zt) in ran.out
    assert "gone.zt" in ran.err
    models = json.loads(tark(verb, broken, zt, tmp_path / "gone.zt", "--json").out)["models"]
    assert [each["path"] for each in models] == [str(broken), str(zt), str(tmp_path / "gone.zt")]
    assert models[2]["error"]["exit"] == 5


def test_a_folder_without_models_does_not_stop_the_others(tark, zt, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = tark("id", empty, zt, "-q")
    assert (ran.code, len(ran.out.split())) == (2, 1)
    assert "no model" in ran.err


def test_a_seal_is_about_one_model(tark, zt):
    assert tark("verify", zt, zt, "--seal", "x").code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "MODEL", "GOAL/x.safetensors"],
        ["convert", "MODEL", "-o", "GOAL/x.npz"],
        ["split", "MODEL", "GOAL/x.zt", "--by", "layer"],
        ["merge", "MODEL", "GOAL/x.zt"],
        ["repack", "MODEL", "GOAL/x.zt"],
        ["prune", "MODEL", "GOAL/x.npz"],
        ["overlay", "MODEL", "MODEL", "GOAL/x.zt"],
        ["keygen", "GOAL/x.pem"],
    ],
)
def test_the_folder_of_a_target_is_made_and_taken_back_where_nothing_came(
    tark, zt, tmp_path, words
):
    goal = tmp_path / "new" / "folder"
    spelled = [w.replace("MODEL", str(zt)).replace("GOAL", str(goal)) for w in words]
    if words[0] == "overlay":  # whose base lies beside it
        goal.mkdir(parents=True)
        base = zt.rename(goal / "base.zt")
        spelled[1:3] = [str(base), str(base)]
    assert tark(*spelled).code == 0
    assert list(goal.iterdir())
    for spoilt in ([*spelled, "--nonsense"], [spelled[0], "gone.zt", *spelled[2:]]):
        there = [each.replace(str(goal), str(tmp_path / "other" / "x")) for each in spoilt]
        if words[0] != "keygen" or "--nonsense" in there:
            assert tark(*there).code in {2, 5}
            assert not (tmp_path / "other").exists()
