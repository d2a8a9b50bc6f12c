"""A file appears complete or not at all, whatever goes wrong on the way."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io import publish as module
from tensorark.io.load import load
from tensorark.io.local import LocalSource
from tensorark.io.publish import leftovers, publish

MIB = 1 << 20


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(target, data, *, overwrite=True):
    with publish(target, overwrite=overwrite) as sink:
        sink.write(data)


def test_a_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "out"
    with publish(target, overwrite=False) as sink:
        sink.write(b"new")
        sink.flush()
        assert not target.exists()
        assert sink.path.read_bytes() == b"new"
        assert names(tmp_path) == []  # not even a temporary name, where the system has it so
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_an_empty_file_is_a_file(tmp_path):
    write(tmp_path / "out", b"")
    assert (tmp_path / "out").read_bytes() == b""


def write_and_fail(target, size, failure):
    with publish(target, overwrite=True) as sink:
        sink.write(bytes(size))
        raise failure


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("size", [10, 30 * MIB])
def test_after_an_exception_nothing_has_happened(tmp_path, failure, size):
    target = tmp_path / "out"
    threads = threading.active_count()
    for before in (None, b"old"):
        if before is not None:
            target.write_bytes(before)
        with pytest.raises(failure):
            write_and_fail(target, size, failure)
        assert (target.read_bytes() if target.exists() else None) == before
        assert names(tmp_path) == ([] if before is None else ["out"])
    assert threading.active_count() == threads


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with pytest.raises(InvalidInput) as caught, publish(target, overwrite=False):
        pytest.fail("nothing may be written")
    assert caught.value.code == "exists"
    assert target.read_bytes() == b"old"


LINKS = {"links": None, "no links": errno.EPERM, "links unknown": errno.ENOSYS}


@pytest.fixture(params=LINKS)
def links(request, monkeypatch):
    """A filesystem with hard links, and two without."""
    number = LINKS[request.param]
    if number is not None:

        def refuse(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", refuse)
    return request.param


@pytest.mark.usefixtures("links")
def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    target = tmp_path / "out"
    with ExitStack() as stack:
        sink = stack.enter_context(publish(target, overwrite=False))
        sink.write(b"late")
        target.write_bytes(b"early")
        with pytest.raises(InvalidInput) as caught:
            stack.close()
    assert caught.value.code == "exists"
    assert target.read_bytes() == b"early"
    assert names(tmp_path) == ["out"]


@pytest.mark.usefixtures("links")
def test_new_files_appear_with_or_without_hard_links(tmp_path):
    write(tmp_path / "out", b"new", overwrite=False)
    assert (tmp_path / "out").read_bytes() == b"new"
    assert (tmp_path / "out").stat().st_nlink == 1
    assert names(tmp_path) == ["out"]


@pytest.mark.usefixtures("links")
def test_of_many_writers_that_may_not_overwrite_one_wins(tmp_path):
    target, results, gate = tmp_path / "out", [], threading.Barrier(8)

    def work(number):
        try:
            with publish(target, overwrite=False) as sink:
                sink.write(bytes([number]) * 5000)
                gate.wait()
            results.append(number)
        except InvalidInput as error:
            assert error.code == "exists"  # noqa: PT017

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = results
    assert target.read_bytes() == bytes([winner]) * 5000
    assert names(tmp_path) == ["out"]


def test_of_two_writers_that_may_overwrite_the_last_wins(tmp_path):
    target = tmp_path / "out"
    with publish(target, overwrite=True) as first:
        first.write(b"first" * 100)
        with publish(target, overwrite=True) as second:
            assert second.path != first.path
            second.write(b"second")
        assert target.read_bytes() == b"second"
        first.write(b"!")
    assert target.read_bytes() == b"first" * 100 + b"!"
    assert names(tmp_path) == ["out"]


# ---------------------------------------------------------------------- targets and permissions


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_new_file_honors_the_umask_and_an_old_one_passes_its_permissions_on(tmp_path):
    write(tmp_path / "new", b"1")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    for mode in (0o600, 0o444, 0o666):
        (tmp_path / "new").chmod(mode)
        with publish(tmp_path / "new", overwrite=True) as sink:
            assert stat.S_IMODE(sink.path.stat().st_mode) == mode
            sink.write(bytes(9 * MIB))
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


@pytest.mark.parametrize("named", [False, True])
def test_nobody_else_ever_opens_a_file_that_is_to_be_private(tmp_path, monkeypatch, named):
    if named:
        monkeypatch.setattr(module, "_open_unnamed", lambda *_: None)
    modes = []
    real = os.open

    def noted(path, flags, *rest, **how):
        descriptor = real(path, flags, *rest, **how)
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    (tmp_path / "secret").write_bytes(b"old")
    (tmp_path / "secret").chmod(0o600)
    before = os.umask(0)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", noted)
            staged = module.StagedFile(tmp_path / "new", overwrite=False, mode=0o600)
            staged.drop()
            module.StagedFile(tmp_path / "secret", overwrite=True).drop()
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]


def test_a_filesystem_without_links_keeps_permissions_and_tells_what_is_revealed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module.StagedFile, "_link", lambda *_: False)
    (tmp_path / "out").write_bytes(b"old")
    (tmp_path / "out").chmod(0o640)
    staged = module.StagedFile(tmp_path / "out", overwrite=True)
    staged.sink.write(b"new")
    staged.sink.sync()
    assert not staged.is_revealed()
    staged.reveal()
    assert staged.is_revealed()
    staged.drop()
    assert (tmp_path / "out").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640
    assert names(tmp_path) == ["out"]


def test_another_group_gets_no_more_than_everyone(tmp_path, monkeypatch):
    (tmp_path / "out").write_bytes(b"old")
    (tmp_path / "out").chmod(0o664)
    real = os.fstat

    def stranger(descriptor):
        return os.stat_result([*real(descriptor)[:4], 12345, *real(descriptor)[5:10]])

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "fstat", stranger)
    monkeypatch.setattr(os, "fchown", refuse)
    write(tmp_path / "out", b"new")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o644


def test_a_link_is_replaced_and_its_file_untouched(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InvalidInput), publish(tmp_path / "link", overwrite=False):
        pytest.fail("nothing may be written")
    write(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"new"
    assert (tmp_path / "real").read_bytes() == b"old"


def test_a_link_to_nothing_exists_too(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InvalidInput), publish(tmp_path / "link", overwrite=False):
        pytest.fail("nothing may be written")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").read_bytes() == b"new"


def test_what_is_no_file_is_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (tmp_path / "folder", tmp_path / "pipe", tmp_path / "null", "/", "..", ""):
        with pytest.raises(InvalidInput) as caught, publish(path, overwrite=True):
            pytest.fail("nothing may be written")
        assert caught.value.code == "not-a-file"


@pytest.mark.parametrize(
    ("path", "code"), [("none/out", "missing-folder"), ("a\0b", "read-failed"), ("x" * 300, None)]
)
def test_where_no_file_can_be_is_our_error(tmp_path, path, code):
    with pytest.raises(ReadFailed) as caught, publish(tmp_path / path, overwrite=True):
        pytest.fail("nothing may be written")
    assert code in {None, caught.value.code}
    assert names(tmp_path) == []


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("name", ["n" * 255, "ж" * 127], ids=["ascii", "two bytes a letter"])
def test_the_longest_names_have_room_for_a_temporary_one(tmp_path, monkeypatch, named, name):
    if named:
        monkeypatch.setattr(module, "_HAS_FD_LINKS", False)
    with publish(tmp_path / name, overwrite=False) as sink:
        if named:  # all the room is used, up to the last whole letter
            (temporary,) = names(tmp_path)
            assert 255 - len(os.fsencode(temporary)) < len(os.fsencode(name[0]))
        sink.write(b"0")
    for data in (b"1", b"22"):  # replaced, then once more
        write(tmp_path / name, data)
        assert (tmp_path / name).read_bytes() == data
    assert names(tmp_path) == [name]


def test_a_relative_target_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with publish("out", overwrite=False) as sink:
        sink.write(b"1")
        monkeypatch.chdir("/")
    assert (tmp_path / "out").read_bytes() == b"1"


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_saving_over_a_file_that_is_being_read(tmp_path, io):
    target = tmp_path / "out"
    old, new = bytes(range(256)) * 8192, bytes(range(255, -1, -1)) * 100
    target.write_bytes(old)
    source = LocalSource(target, io=io)
    everything = Span(0, len(old))
    (view,), (copy,) = source.read([everything]), load(source, [everything])
    private = source.copy_on_write(everything)
    write(target, new)
    assert view == old
    assert copy == old
    assert private is None or private == old
    assert source.read([everything])[0] == old
    assert target.read_bytes() == new


# --------------------------------------------------------------------------------------- full disks


def test_a_reservation_that_does_not_fit_is_refused_before_writing(tmp_path):
    with publish(tmp_path / "fits", overwrite=False) as sink:
        sink.reserve(0)
    with pytest.raises(ReadFailed) as caught, publish(tmp_path / "out", overwrite=False) as sink:
        sink.reserve(1 << 60)
    assert caught.value.code == "no-space"
    assert caught.value.exit_code == 5
    assert str(1 << 60) in str(caught.value)
    assert names(tmp_path) == ["fits"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["pwrite", "fsync", "ftruncate"])
@pytest.mark.parametrize("size", [100, 40 * MIB])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, number, call, size):
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ReadFailed) as caught:
        write(target, bytes(size))
    assert caught.value.code == "no-space"
    assert caught.value.path == str(target)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


LIMITED = """
import os, resource, signal, sys
from tensorark.errors import ReadFailed
from tensorark.io.publish import publish
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    with publish(sys.argv[1], overwrite=True) as sink:
        for _ in range(40):
            sink.write(bytes(1 << 20))
except ReadFailed as error:
    print(error.code, error.exit_code)
print(*os.listdir(os.path.dirname(sys.argv[1])))
"""


@pytest.mark.parametrize("limit", [1000, 5 * MIB + 100, 33 * MIB])
def test_a_limit_of_the_process_leaves_the_old_file(child, tmp_path, limit):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "out"
    target.write_bytes(b"old")
    done = child(LIMITED, target, limit)
    assert (done.returncode, done.stdout.split()) == (0, ["write-failed", "5", "out"]), done.stderr
    assert target.read_bytes() == b"old"


@pytest.fixture
def small_disk(tmp_path):
    """Mount a filesystem of 12 MiB; that takes the rights of an administrator."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a small filesystem")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_fills_up_leaves_the_old_file(small_disk):
    target = small_disk / "out"
    write(target, b"old" * MIB)
    with pytest.raises(ReadFailed) as caught:
        write(target, bytes(9 * MIB + 1))
    assert caught.value.code == "no-space"
    assert target.read_bytes() == b"old" * MIB
    assert names(small_disk) == ["out"]
    with pytest.raises(ReadFailed), publish(target, overwrite=True) as sink:
        sink.reserve(10 * MIB)
    write(target, b"new" * MIB * 2)
    assert target.read_bytes() == b"new" * MIB * 2


# ------------------------------------------------------------------------------ crashes, leftovers

ENDLESS = """
import os, sys
#
from tensorark.io.publish import publish
number = 0
while True:
    number += 1
    with publish(sys.argv[1], overwrite=True) as sink:
        print(number, flush=True)
        for _ in range(int(sys.argv[2])):
            sink.write(number.to_bytes(8, "little") * 1000)
"""


def aged(path, days=2):
    os.utime(path, (time.time() - days * 86400,) * 2)


@pytest.mark.parametrize("pieces", [1, 3000])
@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path, environment, pieces, named):
    target, rng = tmp_path / "folder" / "out", random.Random(pieces)
    target.parent.mkdir()
    script = tmp_path / "script.py"
    script.write_text(ENDLESS.replace("#", "os.O_TMPFILE = 0" if named else ""))
    command = [sys.executable, str(script), str(target), str(pieces)]
    partials = 0
    for _ in range(8):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(rng.random() * 0.08)
            process.send_signal(signal.SIGKILL)
            lines = process.stdout.read().split()
        if target.exists():
            data = target.read_bytes()
            assert len(data) == pieces * 8000
            assert data == data[:8] * (pieces * 1000)
            # When number n was begun, n - 1 had been published: it must not be undone.
            assert not lines or int.from_bytes(data[:8], "little") >= int(lines[-1]) - 1
        rest = [name for name in names(target.parent) if name != "out"]
        assert all(name.startswith(".out.") and name.endswith(".partial") for name in rest)
        partials = max(partials, len(rest))
        assert leftovers(target.parent) == [target.parent / name for name in rest]
    write(target, b"last")
    assert names(target.parent) == ["out"]
    assert partials or not named, "no kill came in time to leave anything"


def test_only_abandoned_files_of_the_pattern_are_leftovers(tmp_path):
    random_part = "0123456789abcdef"
    old = [tmp_path / f".{name}.{random_part}.partial" for name in ("out", "other", "a.b")]
    innocent = [
        f"out.{random_part}.partial",
        f".out.{random_part[1:]}.partial",
        f".out.{random_part.upper()}.partial",
        f".out.{random_part}.partial.bak",
        f".out.{random_part}.partial\n",
        f"x.out.{random_part}.partial",
        ".out.partial",
        "out",
        ".out",
    ]
    for path in (*old, *(tmp_path / name for name in innocent)):
        path.write_bytes(b"1")
    (tmp_path / f".dir.{random_part}.partial").mkdir()
    (tmp_path / f".link.{random_part}.partial").symlink_to("out")
    assert leftovers(tmp_path) == sorted(old)
    assert leftovers(tmp_path, name="a.b") == [old[2]]
    write(tmp_path / "out", b"2")
    assert leftovers(tmp_path) == sorted(old[1:])
    assert leftovers(tmp_path / "none") == []


def test_on_a_network_filesystem_leftovers_are_older_than_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "filesystem", lambda _: "nfs4")
    path = tmp_path / ".out.0123456789abcdef.partial"
    path.write_bytes(b"1")
    assert leftovers(tmp_path) == []
    aged(path, days=23 / 24)
    assert leftovers(tmp_path) == []
    aged(path, days=25 / 24)
    assert leftovers(tmp_path) == [path]


def test_what_is_still_being_written_is_no_leftover_however_old(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_HAS_FD_LINKS", False)  # so that it has a name
    with publish(tmp_path / "out", overwrite=True) as slow:
        slow.write(b"slow")
        slow.flush()
        aged(slow.path)
        assert leftovers(tmp_path) == []
        write(tmp_path / "out", b"quick")
        assert slow.path.exists()
    assert (tmp_path / "out").read_bytes() == b"slow"


def test_without_locks_nothing_is_called_a_leftover(tmp_path, monkeypatch):
    path = tmp_path / ".out.0123456789abcdef.partial"
    path.write_bytes(b"1")
    aged(path)

    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(module.locks.fcntl, "flock", refuse)
    assert leftovers(tmp_path) == []
    write(tmp_path / "out", b"2")
    assert path.exists()


@pytest.mark.parametrize(("number", "fails"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch, number, fails):
    real = os.fsync

    def patched(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", patched)
    if fails:
        with pytest.raises(ReadFailed) as caught:
            write(tmp_path / "out", b"1")
        assert caught.value.code == "not-durable"
        assert caught.value.path == str(tmp_path / "out")
        assert "stands" in str(caught.value)
        assert "nothing was changed" not in str(caught.value)
    else:
        write(tmp_path / "out", b"1")
    assert Path(tmp_path / "out").read_bytes() == b"1"


def test_a_rename_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "out").write_bytes(b"0")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(ReadFailed):
            write(tmp_path / "out", b"1")
    assert (tmp_path / "out").read_bytes() == b"0"
    (tmp_path / "out").unlink()
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ReadFailed):
        write(tmp_path / "out", b"1", overwrite=False)
    assert names(tmp_path) == []
