"""How much memory processes take, as Linux tells it, and how sizes are put into words."""

import os
from contextlib import suppress
from pathlib import Path

from holdfast.words import in_bytes

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


def resident_with_children(pid: int) -> int:
    """Return how many bytes a process and all that it has started take together."""
    return resident(pid) + sum(map(resident_with_children, _children(pid)))


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


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found
