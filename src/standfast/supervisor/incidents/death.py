"""Examines a dead child: how it ended, what it left behind, and whether memory ran out, by what the kernel counts."""

import os
import re
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from standfast.model.crash import Death
from standfast.model.incidents import Trouble
from standfast.model.job import ClaimRef
from standfast.supervisor.child import Child, Exit, Phase

NEAR = 0.85  # with this part of what there was in its hands, a process that was killed most likely wanted more
UNLIMITED = 1 << 60  # what a limit beyond this many bytes says is that there is none
_KILLED = re.compile(r"Killed process (\d+)\b|oom-kill:.*\bpid=(\d+)\b")
_KILO = 1024


class Certainty(StrEnum):
    """How sure it is that memory ran out."""

    CERTAIN = "certain"
    LIKELY = "likely"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a process ended because memory ran out, and what says so."""

    certainty: Certainty
    why: str

    @property
    def holds(self) -> bool:
        """Whether memory is to blame as far as anyone can tell."""
        return self.certainty is not Certainty.UNKNOWN

    def __str__(self) -> str:
        return f"{self.certainty}: {self.why}"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The cgroup that counts the memory of a process: of version 2, or the memory controller of version 1."""

    version: int
    path: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of memory around the end of a process; None where it could not be read.

    `kills_before` and `kills` are how often the kernel had killed in its cgroup a moment before and after; `limit`
    is what the cgroup allows, `total` what the machine has, `kernel` what the kernel logged of late.
    """

    kills_before: int | None = None
    kills: int | None = None
    limit: int | None = None
    total: int | None = None
    kernel: tuple[str, ...] | None = None


def judge(pid: int, end: Exit, seen: Seen) -> Verdict:
    """Return the verdict about a process that ended, and not by our hand."""
    for line in seen.kernel or ():
        if names_victim(line, pid):
            return Verdict(Certainty.CERTAIN, f"the kernel says: {line}")
    if end.code != -signal.SIGKILL:
        return Verdict(Certainty.UNKNOWN, "nothing says so, and the kernel kills by SIGKILL when memory runs out")
    if seen.kills is not None and seen.kills_before is not None and seen.kills > seen.kills_before:
        grown = f"from {seen.kills_before} to {seen.kills}"
        return Verdict(Certainty.CERTAIN, f"the kernel's count of kills for memory in its cgroup grew {grown}")
    room = min((size for size in (seen.limit, seen.total) if size), default=None)
    if end.peak_rss and room and end.peak_rss >= NEAR * room:
        part = f"{megabytes(end.peak_rss)} of {megabytes(room)}"
        return Verdict(Certainty.LIKELY, f"it was ended by SIGKILL and had had {part}")
    return Verdict(Certainty.UNKNOWN, _not_known(seen))


def _not_known(seen: Seen) -> str:
    found = [
        "the kernel log does not name it" if seen.kernel is not None else "the kernel log cannot be read",
        "its cgroup counts no kill" if seen.kills is not None else "its cgroup has no count of kills",
    ]
    return f"somebody sent SIGKILL; {', '.join(found)}"


def memory_group(proc_cgroup: str) -> MemoryGroup | None:
    """Return the cgroup that counts memory, from the text of /proc/PID/cgroup."""
    found = None
    for line in proc_cgroup.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            return MemoryGroup(1, path)
        if line.startswith("0::"):
            found = MemoryGroup(2, path)
    return found


def kills_in(events: str) -> int | None:
    """Return how many processes the kernel killed, from memory.events or, of version 1, memory.oom_control."""
    for line in events.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdigit():
            return int(count)
    return None


def limit_in(text: str) -> int | None:
    """Return a limit in bytes, from memory.max or memory.limit_in_bytes; None where there is none."""
    word = text.strip()
    return int(word) if word.isdigit() and int(word) < UNLIMITED else None


def sizes_in(meminfo: str) -> dict[str, int]:
    """Return bytes by name, from /proc/meminfo."""
    words = [line.split() for line in meminfo.splitlines()]
    return {each[0].rstrip(":"): int(each[1]) * _KILO for each in words if len(each) == 3 and each[1].isdigit()}  # noqa: PLR2004 - name, number, kB


def names_victim(line: str, pid: int) -> bool:
    """Tell whether a line of the kernel's log says that this process was killed for memory."""
    return any(str(pid) in found.groups() for found in _KILLED.finditer(line))


def lines_about(pid: int, kernel: Iterable[str]) -> list[str]:
    """Return the lines of the kernel's log in which a process is named, segmentation faults among them."""
    naming = re.compile(rf"\[{pid}\]|\bpid[=: ]+{pid}\b|\bprocess {pid}\b")
    return [line for line in kernel if naming.search(line)]


def megabytes(size: float) -> str:
    """Return a size in words."""
    return f"{size / _KILO / _KILO:,.1f} MB"


CGROUPS = Path("/sys/fs/cgroup")
KERNEL_LOG = Path("/dev/kmsg")
MOST_LINES = 100  # lines of the kernel's log that are remembered
MOST_READ = 20_000  # records that are read of it at a time
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


T = TypeVar("T")

_OF_MEMORY = {Certainty.CERTAIN: "ran out of memory", Certainty.LIKELY: "most likely ran out of memory"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a child died of, in words that follow its name, with what was found and what it ran.

    `cause` is the same for the same cause of death, whatever else differs.
    """

    trouble: Trouble
    how: str
    cause: str
    parts: Mapping[str, str]
    claims: frozenset[ClaimRef]


def examine(child: Child, death: Death, end: Exit, memory: MemoryWatch) -> Finding:
    """Look at a dead child, before anything of it is cleared away."""
    parts: dict[str, str] = {"exit": _exit(death, end)}
    verdict = None
    if not child.verdict:  # else it was ended by us
        verdict = _tried(parts, "memory", lambda: _judged(child, end, memory, parts))
    _tried(parts, "remains", lambda: parts.update(child.process.remains()))
    parts |= child.portrait or {}
    if child.portrait is not None:
        fate = "is beaten for no longer" if child.dropped else "was ended"
        trouble, how, cause = Trouble.HANG, f"hung ({child.verdict}) and {fate}", f"hung {child.where}"
    elif verdict is not None and verdict.holds:
        trouble = Trouble.OUT_OF_MEMORY
        how = cause = _OF_MEMORY[verdict.certainty]
    elif child.phase is Phase.STARTING and child.verdict:
        trouble = Trouble.CRASH
        how = cause = f"failed ({child.verdict.partition(chr(10))[0]})"
    else:
        trouble = Trouble.CRASH
        how = cause = _died(end)
    return Finding(trouble, how, cause, parts, death.started)


def _died(end: Exit) -> str:
    if end.unseen:
        return "is gone with its process"
    return f"exited with status {end.code}" if end.signal_name is None else f"died of {end.signal_name}"


def _exit(death: Death, end: Exit) -> str:
    lines = [death.evidence.partition("\n")[0] or str(end)]
    if end.peak_rss is not None:
        lines.append(f"peak memory: {megabytes(end.peak_rss)}")
    if end.cpu is not None:
        lines.append(f"processor time: {end.cpu:.2f} s")
    return "\n".join(lines)


def _judged(child: Child, end: Exit, memory: MemoryWatch, parts: dict[str, str]) -> Verdict:
    seen = memory.seen(child.process.remains().get("cgroup", ""))
    memory.look()  # the next death is judged by what comes from here on
    verdict = judge(child.process.pid, end, seen)
    parts["memory"] = f"out of memory: {verdict}"
    if about := lines_about(child.process.pid, seen.kernel or ()):
        parts["kernel log"] = "\n".join(about)
    return verdict


def _tried(parts: dict[str, str], name: str, collect: Callable[[], T]) -> T | None:
    """Return what was collected; what goes wrong stands in the evidence."""
    try:
        return collect()
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        parts[name] = f"(not known: {type(error).__name__}: {error})"
        return None
