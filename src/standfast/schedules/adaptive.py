"""When fewer jobs run at a time so that requests are served in time, and when more again. Pure.

        strained: half of it, at once                    calm for a while: one step more
    most ──────────────────────────► … ──► lowest ──► … ──────────────────────────────► most

Between strained and calm lies a span in which nothing changes. Each time that it was too much after all, it has to
be calm for twice as long before the next step: requests are not slowed down again and again for a trial.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from enum import IntEnum
from typing import Any

from standfast.errors import ConfigurationError
from standfast.model.validation import Seconds, as_seconds, is_finite, is_int

SHARE = 0.05
"""The part of what was measured that may be over the limit."""

FEW = 2
"""So many must be, or it was an outlier."""

CALM = 0.5
"""The part of the limit below which all is calm."""

SETTLING = 1.0
"""Seconds that a lower number is given to show in what is measured."""

PATIENCE = 2.0
LONGEST_PATIENCE = 60.0
"""Seconds of calm before a step up: at first, and at most."""

STEPS = 8
"""In how many steps, at most, it goes from nothing to all."""


class Strain(IntEnum):
    """How the host does, from what was measured of it lately."""

    CALM = 0
    FAIR = 1
    STRAINED = 2


def strain_of(measured: Sequence[float], limit: float) -> Strain:
    """Return how the host does by one kind of measurement; of nothing, it is calm."""
    if _many_above(limit, measured):
        return Strain.STRAINED
    return Strain.FAIR if _many_above(limit * CALM, measured) else Strain.CALM


def _many_above(limit: float, measured: Sequence[float]) -> bool:
    above = sum(each > limit for each in measured)
    return above >= FEW and above > SHARE * len(measured)


class Adapting:
    """The number of attempts that may run at a time, from `lowest` to `most`. Times are seconds of any clock."""

    def __init__(self, most: int, lowest: int, now: float) -> None:
        self._most = most
        self._lowest = min(lowest, most)
        self._step = max(1, most // STEPS)
        self._patience = PATIENCE
        self._calm_since: float | None = now
        self.limit = most
        self.changed_at = now
        """When it last changed: what was measured before says nothing of how it is now."""

    def judge(self, strain: Strain, running: int, now: float) -> bool:
        """Set the number by how the host does while so many run; tell whether it changed."""
        before = self.limit
        if strain is not Strain.CALM:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        if strain is Strain.STRAINED and now - self.changed_at >= SETTLING:
            self._lower(running)
        elif self._calm_since is not None and now - max(self._calm_since, self.changed_at) >= self._patience:
            if self.limit == self._most:  # only now: that it has come so far does not show that it is not too much
                self._patience = PATIENCE
            self.limit = min(self._most, self.limit + self._step)
        if self.limit == before:
            return False
        self.changed_at = now
        return True

    def _lower(self, running: int) -> None:
        """Halve what may run, or what does where that is less: to allow fewer than nobody uses changes nothing."""
        lower = max(self._lowest, min(self.limit, running) // 2)
        if lower < self.limit:
            self.limit = lower
            self._patience = min(2 * self._patience, LONGEST_PATIENCE)


TICK = 0.05
"""Seconds between two looks at how late a loop is."""

RECENT = 2.0
"""Seconds for which a measurement counts."""

BLOCKED = 1.0
"""Seconds after which a loop that does not come to anything is no outlier: it counts once more for each of them."""

_KEPT = 256
TURN = 0.0005
"""Seconds for which a thread may keep the interpreter from the others, in a host that gives way to requests."""

_EXAMPLE = "as in app.adaptive(lag=0.05, latency=0.2, lowest=1)"

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_Asgi = Callable[[_Message, _Receive, _Send], Awaitable[None]]
_Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Adaptive:
    """Lets fewer jobs run at a time in a process while its event loop lags, or its requests take too long.

    `lag` and `latency` are limits in seconds, None for one that does not matter; `lowest` is how many jobs may
    always run. It goes by what it is told: by `watch_loop`, and by `observe` or one of the middlewares. While a
    host works, threads take turns of `turn` seconds at the interpreter (None: as Python has it).
    """

    def __init__(
        self,
        lag: Seconds | None = 0.05,
        latency: Seconds | None = None,
        lowest: int = 1,
        turn: Seconds | None = TURN,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = (("lag", lag), ("latency", latency), ("turn", turn))
        self.lag, self.latency, self.turn = (_checked(name, given) for name, given in limits)
        if self.lag is None and self.latency is None:
            raise ConfigurationError(f"app.adaptive needs a limit: lag, latency or both, {_EXAMPLE}")
        if not is_int(lowest) or lowest < 1:
            raise ConfigurationError(f"lowest must be a whole number, 1 or more, {_EXAMPLE}, not {lowest!r}")
        self.lowest = lowest
        self.clock = clock
        self._lags: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._latencies: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._watched: dict[asyncio.AbstractEventLoop, float | None] = {}

    def observe(self, seconds: float) -> None:
        """Tell how long a request took. Any thread may."""
        self._latencies.append((self.clock(), seconds))

    def observe_lag(self, seconds: float) -> None:
        """Tell how late an event loop was. Any thread may; `watch_loop` does so by itself."""
        self._lags.append((self.clock(), seconds))

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure how late an event loop is, from now on and as long as it runs. Any thread may ask for it."""
        if self.lag is not None and loop not in self._watched:
            self._watched[loop] = None
            loop.call_soon_threadsafe(self._tick, loop, None)

    @property
    def watches(self) -> bool:
        """Whether an event loop is measured."""
        return any(not loop.is_closed() for loop in self._watched)

    def strain(self, since: float) -> Strain:
        """Return how the host does, by what was measured lately and not before a time."""
        since = max(since, self.clock() - RECENT)
        kinds = (([*self._lags, *self._blocked()], self.lag), (list(self._latencies), self.latency))
        return max(
            strain_of([value for at, value in measured if at >= since], limit)
            for measured, limit in kinds
            if limit is not None
        )

    def asgi(self, app: _Asgi) -> _Asgi:
        """Return an ASGI app whose HTTP requests are observed: until their answer begins, however long it is."""

        async def observed(scope: _Message, receive: _Receive, send: _Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began = self.clock()

            async def sent(message: _Message) -> None:
                if message["type"] == "http.response.start":
                    self.observe(self.clock() - began)
                await send(message)

            await app(scope, receive, sent)

        return observed

    def wsgi(self, app: _Wsgi) -> _Wsgi:
        """Return a WSGI app whose requests are observed: until it has returned."""

        def observed(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            began = self.clock()
            try:
                return app(environ, start_response)
            finally:
                self.observe(self.clock() - began)

        return observed

    def _tick(self, loop: asyncio.AbstractEventLoop, due_at: float | None) -> None:
        now = loop.time()
        if due_at is not None:
            for lag in _counted(max(0.0, now - due_at)):
                self.observe_lag(lag)
        self._watched[loop] = self.clock() + TICK
        loop.call_later(TICK, self._tick, loop, now + TICK)

    def _blocked(self) -> Iterator[tuple[float, float]]:
        """Return by how much loops are late that have not come to it yet: one that is blocked measures nothing."""
        now = self.clock()
        for loop, due_at in self._watched.copy().items():
            if due_at is not None and now - due_at > BLOCKED and loop.is_running():
                yield from ((now, lag) for lag in _counted(now - due_at))


def _counted(lag: float) -> list[float]:
    """Return a lag as often as it counts: who is late for long is measured seldom."""
    return [lag] * (1 + int(lag / BLOCKED))


def _checked(name: str, given: Any) -> float | None:
    seconds = as_seconds(given)
    if seconds is None:
        return None
    if not is_finite(seconds) or seconds <= 0:
        raise ConfigurationError(f"{name} must be a timedelta or seconds, above 0, {_EXAMPLE}, not {given!r}")
    return float(seconds)
