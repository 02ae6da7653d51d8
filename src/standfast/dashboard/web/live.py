"""Live updates: GET /live?at=PAGE sends what changes on a page, whenever it has changed.

    open ─► frame ─► wait for the tick ─► still in? ─► frame, if it is another one ─► …

All viewers wake at the same ticks, and share what they read: ten of them cost the store one look.
Those of a page that takes long to look at do not wake at every tick.
Nothing is kept for a viewer but the hash of the last frame; one who reads slowly is not sent the next.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from standfast.dashboard.web.pages import frame_at
from standfast.dashboard.web.site import Site

TICK = 2.0
"""Seconds between looks."""

LONGEST_TICK = 6.0
"""Seconds between looks at a page that takes long to look at."""

WATCHED = 1 / 40
"""For so much of the time, at most, a viewer looks, unless that were less often than LONGEST_TICK."""

BEAT = 15.0
"""After so many seconds without news something is sent, so that nobody on the way takes the line for dead."""

MOST_VIEWERS = 64
_UNAVAILABLE = 503


@dataclass(slots=True)
class LiveStream:
    """Where viewers watch from; it has so many places."""

    site: Site
    places: int = MOST_VIEWERS
    tick: float = TICK
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    watching: int = 0

    async def watch(self, request: Request) -> Response:
        """Answer with a stream of frames, or refuse where all places are taken: the script then asks by itself."""
        if self.watching >= self.places:
            return PlainTextResponse("too many watch already", _UNAVAILABLE, {"retry-after": "30"})
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._seated(request), media_type="text/event-stream", headers=headers)

    async def _seated(self, request: Request) -> AsyncIterator[str]:
        if self.watching >= self.places:  # others have sat down since there was room
            return
        self.watching += 1
        try:
            async for event in self.events(request):
                yield event
        finally:
            self.watching -= 1

    async def events(self, request: Request) -> AsyncIterator[str]:
        """Yield frames that differ from the one before, and a beat where there is nothing new for long."""
        address = request.query_params.get("at", "/")
        before, told_at = b"", self.clock()
        while await self.site.still_in(request):
            began = self.clock()
            frame = await frame_at(self.site, request, address)
            seen = blake2b(frame.encode(), digest_size=16).digest()
            now = self.clock()
            if seen != before:
                before, told_at = seen, now
                yield event_of("frame", frame)
            elif now - told_at >= BEAT:
                told_at = now
                yield ": beat\n\n"
            await self.sleep(self.pause(now - began))
        yield event_of("end", "")

    def pause(self, took: float) -> float:
        """Return the seconds to the next look after one that took so long: to the next tick, or to a later one."""
        now = self.clock()
        ticks = max(1, math.ceil(min(took / WATCHED, LONGEST_TICK) / self.tick))
        return self.tick * ticks - now % self.tick


def event_of(name: str, text: str) -> str:
    """Return an event as it is sent: every line of its text is a line of data."""
    lines = "\n".join(f"data: {line}" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n\n"
