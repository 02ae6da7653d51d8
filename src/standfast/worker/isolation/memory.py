"""Measures and limits the memory of processes on Linux."""

import os
import resource
from contextlib import suppress
from pathlib import Path

from standfast.model.display import in_bytes

ALLOWANCE = 32 * 1024**2
"""Bytes that a limit leaves beyond itself for what is reserved and not used, such as the stacks of threads."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


def out_of_memory(limit: int, peak: int) -> str:
    """Say that a handler took more than it may."""
    return f"out of memory (limit {in_bytes(limit)}, peak {in_bytes(peak)})"


def resident(pid: int | str = "self") -> int:
    """Return how many bytes of memory a process has; 0 where that cannot be known."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def taken_together(pid: int) -> int:
    """Return how many bytes a process and all that it has started take; what forks share counts once."""
    others = descendants(pid)
    return sum(map(_share, (pid, *others))) if others else resident(pid)


def descendants(pid: int) -> list[int]:
    """Return all processes that a process has started, directly or not, and that have not ended."""
    found = [child for child in _children(pid) if _lives(child)]
    return found + [further for child in found for further in descendants(child)]


def is_parent() -> bool:
    """Tell, within a microsecond, whether this process has others of its own that live or are not reaped."""
    if not hasattr(os, "waitid"):  # macOS: nothing is known of others there
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def status_of_self(*names: str) -> list[int]:
    """Return numbers of bytes from the status of this process; 0 for what is not there."""
    found = {}
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in names:
                found[name] = int(value.split()[0]) * 1024
    return [found.get(name, 0) for name in names]


def forget_peak() -> None:
    """Have the peak of this process begin anew."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _share(pid: int) -> int:
    """Return the bytes of a process, of what it shares its part only; all that it has where that is not told."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return resident(pid)


def _lives(pid: int) -> bool:
    """Tell whether a process has not ended, waiting to be reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


# Without a cgroup the subprocess limits its own data segment (RLIMIT_DATA): RLIMIT_AS would count libraries and
# reservations too. Memory of the interpreter, the app and earlier jobs comes on top. Only the soft limit moves: the
# next job may have another one.

_UNLIMITED = resource.RLIM_INFINITY


class MemoryLimit:
    """The limit of the attempt that runs, beyond what earlier ones have left; None: there is none."""

    def __init__(self, limit: int | None, *, capped: bool, left_over: int = 0) -> None:
        self.limit = limit
        self._left_over = left_over
        self._ours = limit is not None and not capped
        self.peak = 0
        self.exceeded = False

    def begin(self) -> None:
        """Let the limit count from now on."""
        if self.limit is None:
            return
        forget_peak()
        if self._ours:
            [data] = status_of_self("VmData")
            left = max(0, self.limit + self._left_over - resident())
            self._set(data + left + ALLOWANCE)

    def lift(self) -> None:
        """Let it count no more: what is said of the attempt takes memory, too."""
        if self.limit is None:
            return
        if self._ours:
            self._set(_UNLIMITED)
        [peak] = status_of_self("VmHWM")
        self.peak = peak - self._left_over

    def _set(self, soft: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard != _UNLIMITED and (soft == _UNLIMITED or soft > hard):
            soft = hard
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


# A cgroup whose children have limits may hold no processes itself. So the groups of subprocesses lie beside that of
# the worker, below a parent that is ours: with systemd, `Delegate=memory` and `DelegateSubgroup=`.

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
