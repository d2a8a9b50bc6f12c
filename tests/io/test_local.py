"""Local files: the same bytes by mapping and by calls, and an exception where a crash could be."""

import errno
import gc
import logging
import mmap
import os
import pickle
import threading
from pathlib import Path

import pytest

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, NotFound, ReadFailed
from tensorark.io import local, memory
from tensorark.io import open_file as opened
from tensorark.io.local import LocalSource
from tensorark.io.safe_names import beside

MODES = ["mmap", "pread"]
MAP = mmap.mmap
BODY = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(BODY)
    return path


def refusing(monkeypatch, number):
    """Make the system refuse to map files, as FUSE (ENODEV) or a full address space (ENOMEM)."""

    class Refusing(mmap.mmap):
        def __new__(cls, fileno, *args, **kwargs):
            if fileno != -1:
                raise OSError(number, os.strerror(number))
            return super().__new__(cls, fileno, *args, **kwargs)

    def refused(*_facts):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mmap, "mmap", Refusing)
    monkeypatch.setattr(memory, "_map_placed", refused)


@pytest.mark.parametrize("io", ["auto", *MODES])
def test_every_way_gives_the_same_bytes(path, io):
    wanted = [Span(0, 10), Span(5, 0), Span(100, 5000), Span(len(BODY) - 1, 1), Span(0, len(BODY))]
    with LocalSource(path, io=io) as source:
        assert source.size() == len(BODY)
        views = source.read(wanted)
        assert [bytes(view) for view in views] == [BODY[s.offset : s.end] for s in wanted]
        assert all(view.readonly for view in views)
        for span in wanted:
            target = bytearray(span.length)
            source.readinto(span, target)
            assert target == BODY[span.offset : span.end]


@pytest.mark.parametrize("io", MODES)
def test_a_large_read_is_exact(tmp_path, noise, io):
    path = tmp_path / "large"
    path.write_bytes(noise)
    with LocalSource(path, io=io) as source:
        (view,) = source.read([Span(77, 9 << 20)])
        assert view == memoryview(noise)[77 : 77 + (9 << 20)]
        assert view.readonly


@pytest.mark.parametrize("io", MODES)
@pytest.mark.parametrize("span", [Span(len(BODY), 1), Span(0, len(BODY) + 1), Span(0, 1 << 62)])
def test_bytes_behind_the_end_are_refused_before_any_allocation(path, io, span):
    with LocalSource(path, io=io) as source:
        for ask in (lambda: source.read([span]), lambda: source.copy_on_write(span)):
            with pytest.raises(ReadFailed) as caught:
                ask()
            assert caught.value.code == "short-read"
            assert caught.value.path == str(path)
        with pytest.raises(InvalidInput):
            source.read([Span(-1, 1)])


def test_reading_into_a_wrong_buffer_is_refused(path):
    with LocalSource(path) as source:
        for buffer in (bytearray(9), bytes(10)):
            with pytest.raises(InvalidInput):
                source.readinto(Span(0, 10), buffer)


@pytest.mark.parametrize("io", MODES)
def test_an_empty_file_has_no_bytes(tmp_path, io):
    (tmp_path / "empty").touch()
    with LocalSource(tmp_path / "empty", io=io) as source:
        assert source.size() == 0
        assert [bytes(view) for view in source.read([Span(0, 0)])] == [b""]


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENOMEM])
@pytest.mark.parametrize("io", ["auto", "mmap"])
def test_a_refused_mapping_gives_the_same_bytes_and_one_line(path, monkeypatch, caplog, number, io):
    refusing(monkeypatch, number)
    with caplog.at_level(logging.INFO, "tensorark"):
        source = LocalSource(path, io=io)
        assert bytes(source.read([Span(3, 300)])[0]) == BODY[3:303]
        assert source.copy_on_write(Span(0, 4)) is None
    assert len(caplog.records) == 1


def test_a_refused_private_mapping_lends_nothing(path, monkeypatch):
    source = LocalSource(path, io="mmap")
    refusing(monkeypatch, errno.ENOMEM)
    assert source.copy_on_write(Span(0, 4)) is None
    assert bytes(source.copy_on_write(Span(0, 0))) == b""
    assert bytes(source.read([Span(0, 4)])[0]) == BODY[:4]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["pread", "_preadv", "fstat"])
def test_an_error_of_the_system_is_ours(path, monkeypatch, number, call):
    source = LocalSource(path, io="pread")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    def ask():
        if call == "pread":
            return source.read([Span(0, 10)])
        return source.readinto(Span(0, 10), bytearray(10))

    with monkeypatch.context() as patch:
        patch.setattr(opened if call == "_preadv" else os, call, refuse)
        with pytest.raises(ReadFailed) as caught:
            ask()
    assert caught.value.code == "read-failed"
    assert caught.value.path == str(path)
    assert os.strerror(number) in str(caught.value)


def test_network_filesystems_are_not_mapped(path, monkeypatch):
    monkeypatch.setattr(local, "filesystem", lambda _: "nfs4")
    monkeypatch.setattr(mmap, "mmap", None)  # any use of it fails
    assert bytes(LocalSource(path).read([Span(3, 300)])[0]) == BODY[3:303]


def test_a_local_disk_is_mapped(path, monkeypatch):
    monkeypatch.setattr(local, "filesystem", lambda _: "ext4")
    (view,) = LocalSource(path).read([Span(3, 300)])
    assert isinstance(view.obj, mmap.mmap)


# ------------------------------------------------------------------------------- what is no file


def test_a_missing_file_is_said_so(tmp_path):
    with pytest.raises(ReadFailed) as caught:
        LocalSource(tmp_path / "none")
    assert caught.value.code == "missing-file"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link", "/dev/zero", "/dev/null"):
        with pytest.raises(ReadFailed) as caught:
            LocalSource(path)
        assert caught.value.code == "not-a-file"


def test_an_impossible_path_is_our_error():
    for path in ("a\0b", "x" * 5000, "/dev/null/x"):
        with pytest.raises(ReadFailed):
            LocalSource(path)


def test_an_unknown_way_is_refused(path):
    with pytest.raises(InvalidInput):
        LocalSource(path, io="direct")


# ------------------------------------------------------------------------------------ shards


def resolve(folder):
    return lambda label: beside(folder, f"{label}.bin")


@pytest.fixture
def shards(path):
    for label in ("one", "two"):
        (path.parent / f"{label}.bin").write_bytes(label.encode() * 1000)
    return path


@pytest.mark.parametrize("io", MODES)
def test_shards_are_found_by_label(shards, io):
    asked = []

    def find(label):
        asked.append(label)
        return shards.parent / f"{label}.bin"

    with LocalSource(shards, io=io, resolve=find) as source:
        assert asked == []
        views = source.read([Span(3, 3, "two"), Span(0, 3), Span(0, 3, "one"), Span(0, 3, "two")])
        assert [bytes(view) for view in views] == [b"two", BODY[:3], b"one", b"two"]
        assert source.size("one") == 3000
        assert sorted(asked) == ["one", "two"]


@pytest.mark.parametrize(
    "find",
    [None, {}.__getitem__, resolve("/nowhere")],
    ids=["no", "map", "path"],
)
def test_a_missing_shard_says_which(shards, find):
    with LocalSource(shards, resolve=find) as source, pytest.raises(ReadFailed) as caught:
        source.read([Span(0, 0, "gone")])
    assert caught.value.code == "missing-shard"
    assert caught.value.where == ("shards", "gone")


def test_a_shard_that_is_a_folder_says_which(shards):
    source = LocalSource(shards, resolve=lambda _: shards.parent)
    with pytest.raises(ReadFailed) as caught:
        source.size("odd")
    assert caught.value.code == "not-a-file"
    assert caught.value.where == ("shards", "odd")


def test_the_resolver_may_raise_errors_of_its_own(shards):
    def refuse(label):
        raise NotFound("no", code="mine")

    with pytest.raises((NotFound, ReadFailed)):
        LocalSource(shards, resolve=refuse).size("x")


# --------------------------------------------------------------------- changes under the reader


@pytest.mark.parametrize("io", MODES)
@pytest.mark.parametrize("change", ["cut", "grow", "rewrite"])
def test_a_file_changed_in_place_is_noticed(path, io, change):
    source = LocalSource(path, io=io)
    before = path.stat()
    with path.open("r+b") as file:
        if change == "cut":
            file.truncate(100)
        elif change == "grow":
            file.truncate(len(BODY) + 1)
        else:
            file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    asks = [
        lambda: source.read([Span(0, 10)]),
        lambda: source.readinto(Span(0, 10), bytearray(10)),
        lambda: source.copy_on_write(Span(0, 10)),
        source.recheck,
    ]
    for ask in asks:
        with pytest.raises(ReadFailed) as caught:
            ask()
        assert caught.value.code == "changed"


@pytest.mark.parametrize("io", MODES)
def test_a_file_replaced_by_a_rename_stays_readable(path, io):
    source = LocalSource(path, io=io)
    (path.parent / "new").write_bytes(b"new")
    (path.parent / "new").replace(path)
    assert bytes(source.read([Span(0, len(BODY))])[0]) == BODY
    path.unlink()
    assert bytes(source.read([Span(1, 5)])[0]) == BODY[1:6]


def test_a_change_during_a_call_is_noticed(path, monkeypatch):
    source, real = LocalSource(path, io="pread"), os.pread

    def pread(descriptor, length, offset):
        data = real(descriptor, length, offset)
        os.utime(path, (1, 1))
        return data

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(ReadFailed) as caught:
        source.read([Span(0, 10)])
    assert caught.value.code == "changed"


TRUNCATED = """
import os, sys
from tensorark.errors import ReadFailed
from tensorark.io.local import LocalSource
from tensorark.io.load import load
from tensorark.core.model import Span
path, io = sys.argv[1:]
with open(path, "wb") as file:
    file.write(b"x" * (4 << 20))
source = LocalSource(path, io=io)
source.read([Span(0, 10)])
os.truncate(path, 4096)
for ask in (source.read, lambda spans: load(source, spans)):
    try:
        for view in ask([Span(1 << 20, 2 << 20)]):
            bytes(view)
    except ReadFailed as error:
        print(error.code)
"""


@pytest.mark.parametrize("io", MODES)
def test_truncation_under_a_reader_is_an_exception(child, tmp_path, io):
    done = child(TRUNCATED, tmp_path / "cut", io)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["changed"] * 2, "")


RACING = """
import os, sys
from tensorark.errors import ReadFailed
from tensorark.io.local import LocalSource
from tensorark.io.open_file import OpenFile
from tensorark.core.model import Span
path = sys.argv[1]
with open(path, "wb") as file:
    file.write(b"x" * (4 << 20))
source = LocalSource(path, io="pread")
os.truncate(path, (1 << 20) + 5)
checks = []
OpenFile.recheck = lambda opened: checks.append(opened)  # as if the file were cut after the check
for span in (Span(1 << 20, 10), Span(1 << 20, 2 << 20), Span(2 << 20, 1)):
    for ask in (lambda: source.read([span]), lambda: source.readinto(span, bytearray(span.length))):
        try:
            ask()
        except ReadFailed as error:
            print(error.code)
assert checks
"""


def test_truncation_between_check_and_call_is_a_short_read(child, tmp_path):
    done = child(RACING, tmp_path / "cut")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["short-read"] * 6, "")


# ---------------------------------------------------------------------------------- life and death


@pytest.mark.parametrize("io", MODES)
def test_views_outlive_the_source(path, io):
    source = LocalSource(path, io=io)
    (view,) = source.read([Span(0, len(BODY))])
    private = source.copy_on_write(Span(0, 10))
    source.close()
    source.close()
    assert view == BODY
    assert private is None or private == BODY[:10]
    asks = [
        source.size,
        source.recheck,
        lambda: source.read([]),
        lambda: source.copy_on_write(Span(0, 1)),
        lambda: pickle.dumps(source),
    ]
    for ask in asks:
        with pytest.raises(InvalidInput) as caught:
            ask()
        assert caught.value.code == "closed"


def descriptors():
    gc.collect()  # what an earlier test has let go of
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("io", MODES)
def test_closing_gives_descriptors_and_mappings_back(path, io):
    before = descriptors()
    source = LocalSource(path, io=io)
    source.read([Span(0, 10)])
    source.copy_on_write(Span(0, 10))
    source.close()
    assert descriptors() == before
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_many_forgotten_sources_leave_no_descriptor(path):
    before = descriptors()
    for _ in range(50):
        LocalSource(path).read([Span(0, 1)])
    assert descriptors() == before


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="nothing lists descriptors")
@pytest.mark.parametrize("io", MODES)
def test_a_shard_takes_one_descriptor_however_it_is_read(tmp_path, io):
    for number in range(163):
        (tmp_path / str(number)).write_bytes(BODY)
    (tmp_path / "root").write_bytes(BODY)
    before = descriptors()
    source = LocalSource(tmp_path / "root", io=io, resolve=lambda label: tmp_path / label)
    spans = [Span(7, 5000, str(number)) for number in range(163)]
    views = source.read(spans)
    lent = [source.copy_on_write(span) for span in spans]
    assert descriptors() - before <= 164
    assert {bytes(view) for view in views} == {BODY[7:5007]}
    if io == "mmap":
        assert source.is_mapped
        for view in lent:
            view[:] = bytes(5000)  # changes stay here
        again = [source.copy_on_write(span) for span in spans]
        assert {bytes(view) for view in again} == {BODY[7:5007]}
        assert {bytes(view) for view in views} == {BODY[7:5007]}
        assert descriptors() - before <= 164
    source.close()
    assert descriptors() == before
    assert [bytes(view) for view in views[:3]] == [BODY[7:5007]] * 3  # mappings live on
    assert (tmp_path / "5").read_bytes() == BODY


def test_where_python_can_map_without_a_descriptor_it_is_asked_to(path, monkeypatch):
    asked = []

    def recorded(descriptor, nbytes, **how):
        asked.append(how.pop("trackfd"))
        return MAP(descriptor, nbytes, **how)

    monkeypatch.setattr(memory, "_PYTHON_KEEPS_ONE", False)  # as from 3.13 on
    monkeypatch.setattr(mmap, "mmap", recorded)
    with LocalSource(path, io="mmap") as source:
        (view,) = source.read([Span(3, 9)])
        lent = source.copy_on_write(Span(3, 9))
    assert asked == [False, False]
    assert bytes(view) == bytes(lent) == BODY[3:12]
    assert (view.readonly, lent.readonly) == (True, False)


@pytest.mark.skipif(not memory._PYTHON_KEEPS_ONE, reason="only older Pythons go another way")
def test_where_memory_cannot_be_taken_the_place_of_a_mapping_has_its_own(path, monkeypatch):
    monkeypatch.setattr(memory, "_system_mmap", lambda: lambda *_: 2**64 - 1)  # MAP_FAILED
    before = descriptors()
    with LocalSource(path, io="mmap") as source:
        (view,) = source.read([Span(3, 9)])
        assert source.is_mapped
        assert descriptors() - before == 2
    assert bytes(view) == BODY[3:12]


def test_no_more_is_mapped_than_a_file_has(path):
    with path.open("rb") as file:
        for private in (False, True):
            with pytest.raises(ValueError, match=r"shorter|greater"):
                memory.map_file(file.fileno(), len(BODY) + 1, private=private)


PICKLED = """
import multiprocessing, pickle, sys
from functools import partial
from pathlib import Path
from tensorark.io.local import LocalSource
from tensorark.io.safe_names import beside
from tensorark.core.model import Span

def first(source):
    return bytes(source.read([Span(0, 3)])[0]), bytes(source.read([Span(0, 3, "one.bin")])[0])

def inherited(results):
    results.put(first(SOURCE))

if __name__ == "__main__":
    path = Path(sys.argv[1])
    SOURCE = LocalSource(path, io=sys.argv[2], resolve=partial(beside, path.parent))
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(set(pool.map(first, [SOURCE] * 4)))
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=inherited, args=(results,))
    process.start()
    print({results.get()})
    process.join()
"""


@pytest.mark.parametrize("io", MODES)
def test_sources_travel_to_workers_of_every_kind(child, shards, io):
    done = child(PICKLED, shards, io)
    line = str({(BODY[:3], b"one")})
    assert (done.returncode, done.stdout.splitlines()) == (0, [line] * 4), done.stderr


def test_a_pickled_source_finds_its_file_from_another_folder(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    sent = pickle.dumps(LocalSource("a.bin", io="pread"))
    monkeypatch.chdir("/")
    assert bytes(pickle.loads(sent).read([Span(0, 3)])[0]) == BODY[:3]


@pytest.mark.parametrize("io", MODES)
def test_sixteen_threads_read_what_is_there(shards, io):
    source = LocalSource(shards, io=io, resolve=resolve(shards.parent))
    contents = {None: BODY, "one": b"one" * 1000, "two": b"two" * 1000}
    wrong, gate = [], threading.Barrier(16)

    def work(number):
        gate.wait()
        for step in range(200):
            label = (None, "one", "two")[(number + step) % 3]
            span = Span((number * 131 + step * 17) % 2000, 900, label)
            (view,) = source.read([span])
            target = bytearray(900)
            source.readinto(span, target)
            if not contents[label][span.offset : span.end] == view == target:
                wrong.append(span)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -------------------------------------------------------------------------------- copy on write


def test_writing_to_a_private_view_reaches_neither_file_nor_readers(path):
    source = LocalSource(path, io="mmap")
    view = source.copy_on_write(Span(10, 20))
    assert view == BODY[10:30]
    view[:] = b"z" * 20
    assert path.read_bytes() == BODY
    assert bytes(source.read([Span(10, 20)])[0]) == BODY[10:30]


@pytest.mark.parametrize(
    "again", [Span(10, 20), Span(0, 11), Span(29, 5), Span(0, 100), Span(15, 1)]
)
def test_no_two_private_views_share_a_byte(path, again):
    source = LocalSource(path, io="mmap")
    others = [source.copy_on_write(Span(offset, 10)) for offset in (200, 0, 100)]
    view = source.copy_on_write(Span(10, 20))
    view[:] = b"z" * 20
    second = source.copy_on_write(again)
    assert second == BODY[again.offset : again.end]
    second[:] = b"y" * again.length
    assert view == b"z" * 20
    assert [bytes(other) for other in others] == [BODY[at : at + 10] for at in (200, 0, 100)]


def test_disjoint_private_views_share_one_mapping(path):
    source = LocalSource(path, io="mmap")
    views = [source.copy_on_write(Span(at, 10)) for at in (50, 0, 20, 10, 40, 30, 60)]
    assert len({id(view.obj) for view in views}) == 1


def test_without_a_mapping_nothing_is_lent(path):
    assert LocalSource(path, io="pread").copy_on_write(Span(0, 10)) is None


def test_an_evicted_range_can_be_read_again(tmp_path, noise):
    path = tmp_path / "large"
    path.write_bytes(noise)
    source = LocalSource(path, io="mmap")
    (view,) = source.read([Span(0, len(noise))])
    sum(view[::4096])

    def resident():
        lines = Path("/proc/self/smaps").read_text().partition(str(path))[2].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    assert resident() == len(noise) >> 10
    source.evict([Span(5, len(noise) - 10)])
    assert resident() <= 8
    assert view == noise


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_file_of_another_time_is_not_said_to_have_another_size(tmp_path, io):
    path = tmp_path / "a"
    path.write_bytes(bytes(8))
    with LocalSource(path, io=io) as source:
        os.utime(path, (1, 1))
        with pytest.raises(ReadFailed, match="its time is another") as caught:
            source.read([Span(0, 8)])
    assert (caught.value.expected, caught.value.found) == (None, None)
