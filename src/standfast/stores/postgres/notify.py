"""How PostgreSQL wakes those who wait: LISTEN, NOTIFY and an advisory lock.

The names under which a store's bell rings, one for each tone.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from random import Random

import psycopg

from standfast.errors import StandfastError
from standfast.model.backoff import RetryDelays
from standfast.stores.backend import Listener
from standfast.stores.postgres.readiness import OverdueError
from standfast.stores.postgres.statements import load_statements
from standfast.stores.postgres.wire import Call, Wire, call
from standfast.stores.verb import Tone

_LONGEST_CHANNEL = 63


@dataclass(frozen=True, slots=True)
class Sound:
    """What a tone is to the server: a channel, and the number of the lock that says who waits for it."""

    channel: str
    ring: Call
    listen: Call
    start_waiting: Call
    stop_waiting: Call


def sounds(schema: str) -> Mapping[Tone, Sound]:
    """Return what each tone is in a schema."""
    return {tone: _sound(schema, tone) for tone in Tone}


def _sound(schema: str, tone: Tone) -> Sound:
    sql = load_statements(schema)
    digest = blake2b(f"standfast/{schema}/{tone.value}".encode(), digest_size=8)
    lock = int.from_bytes(digest.digest(), "big", signed=True)
    channel = f"standfast_{tone.value}_{schema}"
    if len(channel) > _LONGEST_CHANNEL:
        channel = f"standfast_{tone.value}_{digest.hexdigest()}"
    return Sound(
        channel=channel,
        ring=call(sql["ring"], (lock, channel)),
        listen=call(f'LISTEN "{channel}"'),
        start_waiting=call(sql["start_waiting"], (lock,)),
        stop_waiting=call(sql["stop_waiting"], (lock,)),
    )


# The bell: LISTEN and NOTIFY, where the server knows whether anyone waits.
#
#     listener:  waits ─► takes the lock "someone waits" ─► True: look again ─► sleeps ─► notified ─► True ─► sleeps …
#                                   ▲                                                        │ and soon again
#                                   └────────────── rests ◄──────── lets go, True ◄──────────┘
#     ringer:    commits ─► can the lock be had alone? no: someone waits ─► NOTIFY
#
# Whatever was committed before the lock was taken is found by the look that follows; for whatever is committed after,
# its ringer finds the lock. So no ring is lost. Who is rung once keeps the lock: what is committed during its look is
# told of by another ring. Who is rung in quick succession has work anyway, and every ring costs the whole server: it
# lets go, and takes the lock again after a rest. So a busy fleet is hardly ever notified.
#
# Each listener has a connection of its own, watched by its event loop, and opens another when it breaks. Behind a
# pooler nobody can listen: there a listener looks again twice a second.

LOOK_EVERY = 0.5
"""Seconds between two looks of who cannot listen."""

LONGEST_PAUSE = 5.0
"""Seconds between attempts to connect again, at most."""

REST = 0.005
"""Seconds. Two rings within so short a time are followed by as long a rest, in which nobody is notified."""

_TELL_WITHIN = 1.0
"""Seconds for a message of a hundred bytes to leave this machine."""


class Waiting(Enum):
    """How far a listener is with falling asleep."""

    NO = auto()
    ASKED = auto()
    """The lock is asked for."""
    YES = auto()
    """Who waits has to look again, once."""
    ASLEEP = auto()


class PostgresListener:
    """The ear of one who waits. It belongs to the event loop in which it was made."""

    def __init__(self, sound: Sound, open_line: Callable[[], asyncio.Future[Wire]]) -> None:
        self._sound = sound
        self._open_line = open_line
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Future[Wire] | None = None
        self._line: Wire | None = None
        self._waiting = Waiting.NO
        self._rung = False
        self._rung_at = self._rests_until = float("-inf")
        self._news = asyncio.Event()
        self._pauses = RetryDelays(Random(), LONGEST_PAUSE)  # noqa: S311 - jitter
        self._retry_at = 0.0

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, and once before each sleep; False after `timeout` seconds."""
        give_up_at = self._loop.time() + timeout
        while True:
            self._news.clear()
            if self._rung or self._waiting is Waiting.YES:
                self._rung = False
                if self._waiting is Waiting.YES:
                    self._waiting = Waiting.ASLEEP
                return True
            wake_at = min(give_up_at, self._see_to_it())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wake_at):
                    await self._news.wait()
            if not self._news.is_set() and self._loop.time() >= give_up_at:
                return False

    def close(self) -> None:
        """Stop listening."""
        if self._opening is not None:
            self._opening.add_done_callback(_close_late)
            self._opening = None
        self._hang_up()
        self._retry_at = float("inf")

    def _see_to_it(self) -> float:
        """See to it that rings are heard, or will be; return when to look after it again."""
        if self._line is not None and self._waiting is Waiting.NO:
            if self._loop.time() < self._rests_until:
                return self._rests_until
            self._tell(self._sound.start_waiting, Waiting.ASKED)
        return float("inf") if self._line is not None else self._open()

    def _open(self) -> float:
        """See to it that a connection is being opened; return when to look again."""
        now = self._loop.time()
        if self._opening is None and now >= self._retry_at:
            try:
                self._opening = self._open_line()
            except (StandfastError, RuntimeError):
                self._retry_later()  # the store was closed
            else:
                self._opening.add_done_callback(self._opened)
        return self._retry_at if self._opening is None else float("inf")

    def _retry_later(self) -> None:
        self._retry_at = self._loop.time() + self._pauses.next()

    def _opened(self, opening: asyncio.Future[Wire]) -> None:
        if opening is not self._opening:
            return  # closed meanwhile
        self._opening = None
        try:
            self._line = opening.result()
            self._loop.add_reader(self._line.fileno(), self._read)
        except (StandfastError, psycopg.Error, OverdueError, RuntimeError, asyncio.CancelledError):
            self._retry_later()
        else:
            self._pauses.reset()
        self._news.set()

    def _read(self) -> None:
        line = self._line
        if line is None:
            return
        try:
            lost = line.catch_up() is not None
        except (psycopg.Error, OverdueError):
            lost = True
        if lost:
            self._hang_up()
        else:
            if self._waiting is Waiting.ASKED and line.is_quiet:
                self._waiting = Waiting.YES
            if line.heard():
                self._note_ring()
        self._news.set()

    def _note_ring(self) -> None:
        self._rung = True
        before, self._rung_at = self._rung_at, self._loop.time()
        if self._rung_at - before < REST and self._waiting is not Waiting.NO:
            self._rests_until = self._rung_at + REST
            self._tell(self._sound.stop_waiting, Waiting.NO)

    def _tell(self, call: Call, then: Waiting) -> None:
        self._waiting = then
        try:
            if self._line is not None:
                self._line.tell([call], time.monotonic() + _TELL_WITHIN)
        except (psycopg.Error, OverdueError):
            self._hang_up()

    def _hang_up(self) -> None:
        """Let the connection go; whoever waits opens another, and looks again then."""
        self._waiting = Waiting.NO
        self._rung = False
        if self._line is not None:
            with suppress(NotImplementedError, ValueError, RuntimeError, OSError):
                self._loop.remove_reader(self._line.fileno())
            self._line.close()
            self._line = None


def _close_late(opening: asyncio.Future[Wire]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class LookingListener:
    """Stands in where nobody can listen: it says to look again twice a second."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._look_at = self._loop.time() + LOOK_EVERY

    async def wait(self, timeout: float) -> bool:
        """Return True when it is time to look again, False after `timeout` seconds."""
        give_up_at = self._loop.time() + timeout
        await asyncio.sleep(min(self._look_at, give_up_at) - self._loop.time())
        if self._look_at > give_up_at:
            return False
        self._look_at = self._loop.time() + LOOK_EVERY
        return True

    def close(self) -> None:
        """Do nothing: nothing is open."""


class PostgresBell:
    """Wakes listeners wherever they are."""

    def __init__(
        self,
        ring: Callable[[Tone], None],
        listen: Callable[[Sound], asyncio.Future[Wire]],
        sounds: Mapping[Tone, Sound],
        *,
        pooled: bool,
    ) -> None:
        self._ring = ring
        self._listen = listen
        self._sounds = sounds
        self._deaf = pooled or sys.platform == "win32"  # whose event loop cannot watch a descriptor

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone, in this process and in others. Never raises, never waits."""
        with suppress(StandfastError, RuntimeError):
            self._ring(tone)

    def listen(self, tone: Tone = Tone.WORK) -> Listener:
        """Start listening for this tone alone, inside a running event loop."""
        if self._deaf:
            return LookingListener()
        sound = self._sounds[tone]
        return PostgresListener(sound, lambda: self._listen(sound))
