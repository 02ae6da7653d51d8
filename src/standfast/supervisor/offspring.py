"""A child process of ours, waited for in a thread of its own, so that all the kernel knows of its end is known.

    runs ─► ended: a zombie, still its number ─► taken: the kernel has forgotten it

The kernel tells once what a process has used, to who takes its status; event loops throw that away. Between its
end and that moment /proc still has its limits and its cgroup. So the end is seen first, then that is read, and then
the status is taken.

A number whose process was taken may be another's at once. So signals go by pidfd, which never means another one,
and under a lock that the taking needs as well: that alone does where there is no pidfd.
"""

import asyncio
import contextlib
import os
import resource  # noqa: F401 - os.wait4 imports it, which fails where no file descriptor is free
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from standfast.supervisor.child import Exit

LOOK_EVERY = 0.05
"""Seconds between two looks for its end on systems where that cannot be seen without taking it (macOS)."""

LOST_STATUS = 255
"""What is told of a process whose status somebody else took, or is lost."""

_CAN_SEE = hasattr(os, "waitid") and hasattr(os, "WNOWAIT")

_LEFT = ("limits", "cgroup")
"""What /proc tells of a process that has ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended, and what /proc told of it then."""

    exit: Exit
    left: Mapping[str, str] = field(default_factory=dict)


class Offspring:
    """One child process. Made, and used, in one event loop."""

    def __init__(self, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(command, pass_fds=pass_fds, env=env)  # noqa: S603 - our own interpreter
        self.pid = self._process.pid
        self._pidfd = _open_pidfd(self.pid)
        self._taken = False
        self._taking = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        threading.Thread(target=self._watch, name=f"standfast-child-{self.pid}", daemon=True).start()

    async def ended(self) -> Ended:
        """Return how it ended, once it has."""
        return await asyncio.shield(self._ended)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError), self._taking:
            if self._taken:
                return
            if self._pidfd is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self._pidfd, number)

    def _watch(self) -> None:
        """Wait for its end, in the thread."""
        if _CAN_SEE:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        left = {name: text for name in _LEFT if (text := of_proc(self.pid, name))} if _CAN_SEE else {}
        while (end := self._take()) is None:
            time.sleep(LOOK_EVERY)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver, Ended(end, left))

    def _take(self) -> Exit | None:
        """Take its status if it has ended."""
        with self._taking:
            try:
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
            except (ChildProcessError, ImportError):  # with an ImportError the kernel has given the status away
                end = Exit(LOST_STATUS)
            else:
                if not pid:
                    return None
                # At exec the kernel takes over what the parent used as the least that its child has used.
                peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
                end = Exit(os.waitstatus_to_exitcode(status), peak, used.ru_utime + used.ru_stime)
            self._taken = True
            self._process.returncode = end.code  # so that this object does not look for itself, some day
            if self._pidfd is not None:
                os.close(self._pidfd)
            return end

    def _deliver(self, ended: Ended) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)


def _open_pidfd(pid: int) -> int | None:
    """Return a handle on the process, which nobody can have taken yet; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def of_proc(pid: int, name: str) -> str:
    """Return what /proc tells of a process under this name, if it does."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
