"""What a worker needs from the world: real in a process, virtual in the simulator; and the alarm for the next held job.

An event loop on Linux sleeps in whole milliseconds and does not count a suspend of the machine. A kernel timer goes off
within a tenth of that, by the boot clock.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from standfast.durable.files import FileStore
from standfast.events import Events, StopStage
from standfast.model.clock import Clock
from standfast.observe.figures.counts import Tally
from standfast.stores.backend import Backend
from standfast.worker.attempt import Subprocesses
from standfast.worker.claim_log import ClaimLogWriter
from standfast.worker.messages import Channel

_CLOCK_BOOTTIME = 7
_NANO = 1_000_000_000


class Alarm(Protocol):
    """Calls back once, after the time that was set last."""

    def set(self, seconds: float) -> None:
        """Go off in so many seconds, and no more at the time that was set before."""
        ...

    def close(self) -> None:
        """Go off no more."""
        ...


Alarms = Callable[[Callable[[], None]], Alarm]  # makes an alarm that calls this back, inside a running event loop


class LoopAlarm:
    """An alarm of the event loop's own: as exact as that, and in its time, which may be a virtual one."""

    def __init__(self, go_off: Callable[[], None]) -> None:
        self._go_off = go_off
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Go off in so many seconds, and no more at the time that was set before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._go_off)

    def close(self) -> None:
        """Go off no more."""
        if self._timer is not None:
            self._timer.cancel()


class _Span(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("every", _Span), ("first", _Span))


class KernelAlarm:
    """A timer of the kernel's that the event loop watches like a socket.

    Its calls take no time, so they keep the interpreter's lock: a thread that took it would not soon give it back.
    """

    def __init__(self, go_off: Callable[[], None]) -> None:
        self._go_off = go_off
        self._kernel = ctypes.PyDLL(None, use_errno=True)
        self._timer = self._kernel.timerfd_create(_CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(self._timer, self._ring)
        except BaseException:
            os.close(self._timer)
            raise

    def set(self, seconds: float) -> None:
        """Go off in so many seconds, and no more at the time that was set before."""
        self._wait(*divmod(max(1, int(seconds * _NANO)), _NANO))

    def close(self) -> None:
        """Go off no more."""
        self._loop.remove_reader(self._timer)
        os.close(self._timer)

    def _ring(self) -> None:
        self._wait(0, 0)  # it has rung, and is quiet until it is set again
        self._go_off()

    def _wait(self, seconds: int, nanoseconds: int) -> None:
        setting = _Setting(_Span(0, 0), _Span(seconds, nanoseconds))
        self._kernel.timerfd_settime(self._timer, 0, ctypes.byref(setting), None)


def finest_alarm(go_off: Callable[[], None]) -> Alarm:
    """Return the most exact alarm that this machine and its event loop have."""
    if sys.platform == "linux" and sys.maxsize > 2**32:
        with suppress(OSError, AttributeError, NotImplementedError):
            return KernelAlarm(go_off)
    return LoopAlarm(go_off)


Staged = Callable[[StopStage, int], None]  # hears how far a stop is, and how many jobs run then


def not_told(_stage: StopStage, _running: int) -> None:
    """Tell nobody how far a stop is."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All of it."""

    backend: Backend
    channel: Channel
    claim_log: ClaimLogWriter
    clock: Clock
    random: Random
    events: Events
    files: FileStore
    alarms: Alarms = LoopAlarm
    busy: Callable[[bool], None] = lambda _: None
    """Hears, on the event loop, when jobs begin to run and when none runs any more."""
    subprocesses: Callable[[], Subprocesses] | None = None
    """Gives the processes for isolated tasks, which otherwise run in this one."""
    staged: Staged = not_told
    tally: Callable[[Clock], Tally] = Tally  # makes what counts how attempts end
