"""How much memory processes take, as Linux tells it, and how sizes are put into words."""

import os
from contextlib import suppress
from pathlib import Path

from standfast.words import in_bytes

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
