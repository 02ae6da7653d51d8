"""Who came, who went, and who was refused, for the audit trail.

Whoever guesses does so often: of refusals from one address few are written down.
"""

import logging
import time
from collections.abc import Awaitable, Callable

from standfast.dashboard.access.admitted import Admitted
from standfast.dashboard.access.caller import Caller
from standfast.dashboard.access.refusal import Code, Refusal
from standfast.dashboard.audit.thinning import OTHERS, Thinning, is_told
from standfast.errors import StandfastError
from standfast.health.guard import key_of

SIGN_IN, SIGN_OUT = "access.sign_in", "access.sign_out"

NOBODY = "(unknown)"
"""Who is refused: a name that was typed may be somebody's password."""

_TOLD = frozenset({Code.WRONG, Code.TOO_MANY, Code.AUTH})
_ELSEWHERE = "elsewhere"

log = logging.getLogger(__name__)

Write = Callable[..., Awaitable[None]]
"""Writes an entry down: who, what, and the other fields of an `Entry` by name."""


class Comings:
    """Writes down who comes and goes. A store that is away keeps nobody out."""

    def __init__(self, write: Write, ticks: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._refused = Thinning(ticks)

    async def came(self, admitted: Admitted) -> None:
        """Somebody has signed in."""
        asked = {"how": str(admitted.how), "from": str(admitted.caller.address)}
        await self._told(admitted.user.name, SIGN_IN, asked)

    async def went(self, admitted: Admitted) -> None:
        """Somebody has signed out."""
        await self._told(admitted.user.name, SIGN_OUT, {"from": str(admitted.caller.address)})

    async def refused(self, caller: Caller, refusal: Refusal) -> None:
        """Somebody was not let in with what they had; those who had nothing are no news."""
        if refusal.code not in _TOLD:
            return
        whose, times = self._refused.count(key_of(caller.address))
        if is_told(times):
            asked = {"from": _ELSEWHERE if whose == OTHERS else str(caller.address), "times": str(times)}
            await self._told(NOBODY, SIGN_IN, asked, refusal.says)

    async def _told(self, who: str, what: str, asked: dict[str, str], error: str | None = None) -> None:
        try:
            await self._write(who, what, asked=asked, error=error)
        except StandfastError as trouble:
            log.warning("%s of %s is not in the audit trail: %s", what, who, trouble)
