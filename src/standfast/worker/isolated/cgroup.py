"""Control groups (cgroup v2), where this process may make some: the kernel itself then keeps a cell to its limit.

A group that has groups with limits below it may hold no processes itself. So cells get theirs beside that of the
worker, which takes a parent that is ours: with systemd, `Delegate=memory` and `DelegateSubgroup=`.
"""

from contextlib import suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


class CellGroup:
    """The control group of one cell."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._killed_before = 0

    @classmethod
    def make(cls, home: Path, name: str) -> "CellGroup | None":
        """Make a group; None where that is not allowed."""
        folder = home / name
        try:
            folder.mkdir()
        except OSError:
            return None
        group = cls(folder)
        if not (folder / "memory.max").exists() or not group.limit(None):
            group.remove()
            return None
        group._write("memory.oom.group", "1")
        group._write("memory.swap.max", "0")
        return group

    def admit(self, pid: int) -> bool:
        """Take a process in, with all that it will start; return whether that was allowed."""
        return self._write("cgroup.procs", str(pid))

    def limit(self, size: int | None) -> bool:
        """Let the processes of the group take so many bytes together; return whether that was allowed."""
        self._killed_before = self._killed()
        return self._write("memory.max", "max" if size is None else str(size))

    @property
    def exceeded(self) -> bool:
        """Whether the kernel has ended processes of the group since its limit was set."""
        return self._killed() > self._killed_before

    def remove(self) -> None:
        """Remove the group, whose processes are gone."""
        with suppress(OSError):
            self._folder.rmdir()

    def _killed(self) -> int:
        with suppress(OSError, ValueError):
            events = dict(line.split() for line in (self._folder / "memory.events").read_text().splitlines())
            return int(events.get("oom_kill", 0))
        return 0

    def _write(self, name: str, text: str) -> bool:
        try:
            (self._folder / name).write_text(text)
        except OSError:
            return False
        return True


def find_home(mount: Path = MOUNT, own: Path = OWN) -> Path | None:
    """Return the group in which those of cells can be made; None where there is none."""
    try:
        lines = own.read_text().splitlines()
        ours = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
        home = (mount / ours).parent
        if not ours or "memory" not in (home / "cgroup.controllers").read_text().split():
            return None
        if "memory" not in (home / "cgroup.subtree_control").read_text().split():
            (home / "cgroup.subtree_control").write_text("+memory")
    except (OSError, StopIteration):
        return None
    return home
