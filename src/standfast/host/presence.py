"""What of ours a host has in common for all its lives: hooks of the process, set once and put back in the end.

Only what handlers do is heard, unless the host asks for more. Its own log is left as it is.
"""

import asyncio
import faulthandler
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from standfast.child.excepthooks import hear_left_behind, hear_loop, hear_strays
from standfast.worker.logtail import keep_log_tails_quietly
from standfast.worker.stray import Strays


class Presence:
    """The hooks of a host. `strays` is who hears: that of the latest life; if `whole`, also what no handler did."""

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole
        self.strays: Strays | None = None
        self._hooks = ExitStack()
        self._stacks: IO[str] | None = None
        self._others = False

    def begin(self) -> None:
        """Set the hooks."""
        self._others = faulthandler.is_enabled()
        self._hooks.callback(hear_strays(self) if self._whole else hear_left_behind(self))
        self._hooks.callback(keep_log_tails_quietly())

    def hear_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear of an event loop of the host's own, if it asks for that."""
        if self._whole:
            self._hooks.callback(hear_loop(self, loop))

    def write_stacks(self, to: Path) -> None:
        """Have the stacks of all threads written there on a fatal signal, unless they are written elsewhere."""
        if not self._others:
            former, self._stacks = self._stacks, to.open("w")
            faulthandler.enable(file=self._stacks, all_threads=True)
            if former is not None:
                former.close()

    def heard(self, *told: Any, **more: Any) -> bool:
        """Hear of an exception as `Strays` does; tell whether it will be told."""
        strays = self.strays
        return strays is not None and strays.heard(*told, **more)

    def end(self) -> None:
        """Put the hooks back."""
        self._hooks.close()
        if self._stacks is not None:
            faulthandler.disable()
            self._stacks.close()
            self._stacks = None
