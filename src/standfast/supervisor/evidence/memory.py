"""Did it run out of memory? A verdict from what the kernel counts and logs, and how to read that. Pure."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from standfast.supervisor.child import Exit

NEAR = 0.85
"""With this part of what there was in its hands, a process that was killed most likely wanted more."""

UNLIMITED = 1 << 60
"""What a limit beyond this many bytes says is that there is none."""

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
