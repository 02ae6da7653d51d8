"""Jobs that run at once: whatever makes one due is followed by a drain."""

from collections.abc import Callable, Coroutine
from typing import Any

from standfast.testing.loops import run_anywhere


class Inline:
    """Heeds what wakes workers. While `raising` is None it does nothing."""

    def __init__(self, drain: Callable[[bool], Coroutine[Any, Any, Any]]) -> None:
        self.raising: bool | None = None
        self._drain = drain

    def woken(self) -> None:
        """Run what became due, before the call that made it so returns."""
        __tracebackhide__ = True
        if (raising := self.raising) is not None:
            run_anywhere(lambda: self._drain(raising))

    async def awoken(self) -> None:
        """Do so on the running event loop."""
        __tracebackhide__ = True
        if self.raising is not None:
            await self._drain(self.raising)
