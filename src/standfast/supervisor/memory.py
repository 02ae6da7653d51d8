"""How much memory processes take: what of it is resident."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PS_WITHIN = 5.0


def memory_of(pids: Sequence[int]) -> Mapping[int, int]:
    """Return the resident bytes of processes; of those that are gone, nothing."""
    return _by_proc(pids) if sys.platform == "linux" else _by_ps(pids)


def memory_at_hand(pids: Sequence[int]) -> Mapping[int, int]:
    """Return the same where that costs next to nothing: on Linux; elsewhere nothing."""
    return _by_proc(pids)


def _by_proc(pids: Sequence[int]) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError, ValueError):
            _, resident, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            found[pid] = int(resident) * _PAGE
    return found


def _by_ps(pids: Sequence[int]) -> Mapping[int, int]:
    asked = ["ps", "-o", "pid=,rss=", "-p", ",".join(map(str, pids))]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=_PS_WITHIN, check=False)  # noqa: S603 - numbers alone
        return {int(pid): int(kilobytes) * 1024 for pid, kilobytes in map(str.split, said.stdout.splitlines())}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
