"""Where a database file lies. WAL needs shared memory and working locks, which network file systems do not give."""

import re
from pathlib import Path

from standfast.errors import StoreError

_MOUNTS = Path("/proc/mounts")
_NETWORK = {
    *(
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.ceph",
        "fuse.davfs2",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
    ),
    *("fuse.smbnetfs", "fuse.sshfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
}
_OCTAL = re.compile(r"\\([0-7]{3})")


def refuse_network_file_system(path: Path) -> None:
    """Raise StoreError if the file lies, or would lie, on a file system of another machine."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return
    kind = file_system_of(path, mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where SQLite loses data: put it on a local disk, or use"
            " a postgresql:// or redis:// store"
        )


def file_system_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds an absolute path, '' if the mounts do not tell."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        _, point, candidate, *_ = line.split(" ")
        place = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), point))
        depth = len(place.parts)
        # On a tie the later line wins: it is mounted over the earlier one.
        if depth >= best and path.is_relative_to(place):
            best, kind = depth, candidate
    return kind
