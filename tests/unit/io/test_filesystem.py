"""The mount table says whether page faults are a good idea."""

import pytest

from tensorark.io.filesystem import filesystem, is_remote

TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 27 0:40 / /home rw,relatime shared:2 master:3 - nfs4 server:/home rw,vers=4.2
32 31 0:41 / /home/me/fast rw - xfs /dev/nvme0n1 rw
33 27 0:42 / /mnt/with\\040space rw - fuse.sshfs host:/ rw
34 27 0:43 / /data rw - ext4 /dev/sdb rw
35 34 0:44 / /data rw - lustre mgs:/scratch rw
a line that is no mount
36 27 0:45 / /late rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "remote"),
    [
        ("/opt/model.zt", "ext4", False),
        ("/home/me/model.zt", "nfs4", True),
        ("/home/me/fast/model.zt", "xfs", False),
        ("/home/me/faster", "nfs4", True),
        ("/homework", "ext4", False),
        ("/mnt/with space/model.zt", "fuse.sshfs", True),
        ("/data/model.zt", "lustre", True),
        ("/data", "lustre", True),
        ("/late/model.zt", "ext4", False),
    ],
)
def test_the_longest_and_latest_mount_point_decides(tmp_path, path, kind, remote):
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert filesystem(path, table) == kind
    assert is_remote(kind) is remote


def test_without_a_table_nothing_is_known(tmp_path):
    assert filesystem("/opt", tmp_path / "none") is None
    assert not is_remote(None)


@pytest.mark.parametrize("kind", ["fuse", "fuseblk", "fuse.gcsfuse", "cifs", "9p", "virtiofs"])
def test_network_and_user_space_filesystems_are_read_with_calls(kind):
    assert is_remote(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "fusectl", "zfs"])
def test_local_filesystems_are_mapped(kind):
    assert not is_remote(kind)
