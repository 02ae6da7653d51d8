"""Who came, who went, and who was refused, for the audit trail.

Whoever guesses does so often: of refusals from one address only the first is written down, the tenth, the hundredth
and so on, until none has come for a while. So a trail tells of an attack, and is not filled by it.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from holdfast.dashboard.access.admitted import Admitted
from holdfast.dashboard.access.caller import Caller
from holdfast.dashboard.access.refusal import Code, Refusal
from holdfast.errors import HoldfastError
from holdfast.health.guard import key_of

SIGN_IN, SIGN_OUT = "access.sign_in", "access.sign_out"

NOBODY = "(unknown)"
"""Who is refused: a name that was typed may be somebody's password."""

FORGIVEN = 600.0
"""Seconds without a refusal after which the next one from there is a first one again."""

MOST_ADDRESSES = 100
"""Refusals from more than these, at the same time, are counted together."""

_TOLD = frozenset({Code.WRONG, Code.TOO_MANY, Code.AUTH})
_OTHERS = "elsewhere"

log = logging.getLogger(__name__)

Write = Callable[..., Awaitable[None]]
"""Writes an entry down: who, what, and the other fields of an `Entry` by name."""


@dataclass(slots=True)
class _Refused:
    count: int
    last_at: float


class Comings:
    """Writes down who comes and goes. A store that is away keeps nobody out."""

    def __init__(self, write: Write, ticks: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._ticks = ticks
        self._refused: OrderedDict[Hashable, _Refused] = OrderedDict()

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
        whose = self._whose(caller)
        count = self._count(whose)
        if str(count).strip("0") == "1":
            asked = {"from": _OTHERS if whose == _OTHERS else str(caller.address), "times": str(count)}
            await self._told(NOBODY, SIGN_IN, asked, refusal.says)

    def _whose(self, caller: Caller) -> Hashable:
        now = self._ticks()
        while self._refused and now - next(iter(self._refused.values())).last_at >= FORGIVEN:
            self._refused.popitem(last=False)
        key = key_of(caller.address)
        return key if key in self._refused or len(self._refused) < MOST_ADDRESSES else _OTHERS

    def _count(self, whose: Hashable) -> int:
        found = self._refused.setdefault(whose, _Refused(0, 0.0))
        found.count, found.last_at = found.count + 1, self._ticks()
        self._refused.move_to_end(whose)
        return found.count

    async def _told(self, who: str, what: str, asked: dict[str, str], error: str | None = None) -> None:
        try:
            await self._write(who, what, asked=asked, error=error)
        except HoldfastError as trouble:
            log.warning("%s of %s is not in the audit trail: %s", what, who, trouble)
