"""The limit to the memory of a cell, set by the cell itself where no cgroup does.

It is a limit to the data of the process (RLIMIT_DATA), which is what a program writes to: its address space
(RLIMIT_AS) would count libraries and reservations as well, several times what is used. As the interpreter and the
app take their part before the handler begins, the limit is what is left of it then. What earlier jobs have left in
the process is not the handler's, and comes on top. Only the soft limit moves: the next job may have another one.
"""

import resource

from standfast.worker.isolated.memory import ALLOWANCE, forget_peak, resident, status_of_self

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
