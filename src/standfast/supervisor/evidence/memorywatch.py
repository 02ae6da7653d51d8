"""Keeps count of what the kernel kills for want of memory, so that a death can be told from those before it."""

import os
import re
from collections import deque
from contextlib import suppress
from pathlib import Path

from standfast.supervisor.evidence.memory import MemoryGroup, Seen, kills_in, limit_in, memory_group, sizes_in

CGROUPS = Path("/sys/fs/cgroup")
KERNEL_LOG = Path("/dev/kmsg")

MOST_LINES = 100
"""Lines of the kernel's log that are remembered."""

MOST_READ = 20_000
"""Records that are read of it at a time."""

_OF_A_DEATH = re.compile(
    r"Killed process|oom-kill|[Oo]ut of memory|segfault|general protection|trap |traps:|SIGBUS"
)
_RECORD = 8192


class MemoryWatch:
    """What the kernel says about memory. `look` now and again: what is new since is what a death is judged by."""

    def __init__(
        self, cgroups: Path = CGROUPS, kernel_log: Path = KERNEL_LOG, proc_cgroup: str | None = None
    ) -> None:
        self._cgroups = cgroups
        self._kernel = KernelLog(kernel_log)
        self._group = memory_group(_read(Path("/proc/self/cgroup")) if proc_cgroup is None else proc_cgroup)
        self._kills: int | None = None
        self.look()

    def look(self) -> None:
        """Take down how things stand."""
        self._kills = self._kills_of(self._group)
        self._kernel.read()

    def seen(self, proc_cgroup: str = "") -> Seen:
        """Return what was seen since the last look of the cgroup of a process, ours if that is not known."""
        group = memory_group(proc_cgroup) or self._group
        before = self._kills if group == self._group else None
        return Seen(
            kills_before=before,
            kills=self._kills_of(group),
            limit=self._limit_of(group),
            total=sizes_in(_read(Path("/proc/meminfo"))).get("MemTotal"),
            kernel=self._kernel.read(),
        )

    def _kills_of(self, group: MemoryGroup | None) -> int | None:
        name = "memory.events" if group is not None and group.version > 1 else "memory.oom_control"
        folders = self._folders(group)
        return kills_in(_read(folders[0] / name)) if folders else None

    def _limit_of(self, group: MemoryGroup | None) -> int | None:
        name = "memory.max" if group is not None and group.version > 1 else "memory.limit_in_bytes"
        limits = [limit_in(_read(folder / name)) for folder in self._folders(group)]
        return min((limit for limit in limits if limit is not None), default=None)

    def _folders(self, group: MemoryGroup | None) -> list[Path]:
        """Return the folder of a cgroup and those above it. A container may see its own as the root of all."""
        if group is None:
            return []
        root = self._cgroups if group.version > 1 else self._cgroups / "memory"
        own = root / group.path.lstrip("/")
        return [own, *own.parents[: len(own.parts) - len(root.parts)]] if own.is_dir() else [root]


class KernelLog:
    """The kernel's log from now on, as far as this process may read it; only what tells of deaths is kept."""

    def __init__(self, path: Path = KERNEL_LOG) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._file, 0, os.SEEK_END)

    def read(self) -> tuple[str, ...] | None:
        """Return what it said of deaths of late; None where it cannot be read."""
        if self._file is None:
            return None
        for _ in range(MOST_READ):
            try:
                record = os.read(self._file, _RECORD)
            except BrokenPipeError:  # the oldest were overwritten before we came
                continue
            except OSError:
                break
            if not record:
                break
            self._keep(record.decode(errors="replace"))
        return tuple(self._lines)

    def _keep(self, record: str) -> None:
        line = record.partition(";")[2].partition("\n")[0]
        if _OF_A_DEATH.search(line):
            self._lines.append(line)


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
