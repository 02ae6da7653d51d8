"""The bell: a count per tone on the server, and a list for each listener to block on. See lua/bell.lua.

A listener says which count it saw last. If the tone was rung since, it hears so at once; if not, it is written down
as waiting in the same step, and the next ring pushes to its list. So no ring is lost between two waits, also none
that came before the first: a listener that has seen no count yet hears "look again" once, and so does one that lost
its connection.

Each listener has a connection of its own, which the event loop watches; threads only open it. What was asked on it
outlives a wait that is over or cancelled, and the next wait goes on with it.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from random import Random
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from standfast.errors import StandfastError
from standfast.model.backoff import RetryDelays
from standfast.stores.redis.connect import NOT_YET, Opened, Wire, hang_up
from standfast.stores.redis.engine import Engine
from standfast.stores.redis.url import Endpoint
from standfast.stores.threads import Handover
from standfast.stores.verb import Script, Tone

BLOCK = 10
"""Seconds that the server lets a listener wait before it is asked again: its word may be lost in a failover."""

GRACE = 5.0
"""Seconds on top after which a connection without an answer is given up."""

REST = 0.001
"""Seconds after a ring before the next is asked for: a flood of them wakes nobody more often than that."""

LONGEST_PAUSE = 5.0
"""Seconds between two attempts to connect, at most."""


class _Asked(Enum):
    """What a connection has not answered yet."""

    NOTHING = "nothing"
    EPOCH = "epoch"
    EAR = "ear"
    UNKNOWN = "unknown"
    """A signal handler interrupted a wait in the middle of a message."""


class _Ear:
    """The open connection of a listener, and what was asked on it."""

    def __init__(self, engine: Engine, place: Endpoint, connection: Wire, tone: Tone, listener: str) -> None:
        self._engine = engine
        self._place = place
        self._connection = connection
        self._tone = tone
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._asked = _Asked.NOTHING
        self._asked_at = 0.0

    async def hear(self, seen: bytes) -> bytes:
        """Return the epoch as soon as it is not the one that was seen. Raises RedisError once the ear is deaf."""
        try:
            return await self._next_epoch(seen)
        except RedisError as error:
            self._engine.lose_if_gone(self._place, error)
            raise

    def close(self) -> None:
        """Hang up. The loop must not watch the socket any more: its number will belong to another."""
        if not self._loop.is_closed() and (watched := self._connection.fileno()) >= 0:
            self._loop.remove_reader(watched)
        self._connection.close()

    async def _next_epoch(self, seen: bytes) -> bytes:
        while True:
            if self._asked is _Asked.NOTHING:
                self._asked = _Asked.UNKNOWN
                self._engine.ask_epoch(self._connection, self._tone.value, self._listener, seen)
                self._now_asked(_Asked.EPOCH)
            reply, asked = await self._reply()
            if asked is _Asked.EPOCH and reply is None:
                self._asked = _Asked.UNKNOWN
                self._engine.ask_ear(self._connection, self._listener, BLOCK)
                self._now_asked(_Asked.EAR)
            elif reply is not None:
                epoch: bytes = reply if asked is _Asked.EPOCH else reply[1]
                return epoch

    def _now_asked(self, what: _Asked) -> None:
        self._asked_at = self._loop.time()
        self._asked = what

    async def _reply(self) -> tuple[Any, _Asked]:
        """Return the next reply and what it answers. A reply may come in several parts."""
        reader = self._connection.reader
        while True:
            asked, self._asked = self._asked, _Asked.UNKNOWN
            if asked is _Asked.UNKNOWN:
                raise RedisConnectionError("a signal handler interrupted a listener")
            if (reply := reader.gets()) is not NOT_YET:
                break
            self._asked = asked
            await self._readable()
            self._asked = _Asked.UNKNOWN
            self._connection.receive()
            self._asked = asked
        self._asked = _Asked.NOTHING
        if isinstance(reply, Exception):
            raise reply
        return reply, asked

    async def _readable(self) -> None:
        if self._connection.is_readable:
            return
        came = asyncio.Event()
        watched = self._connection.fileno()
        self._loop.add_reader(watched, came.set)
        try:
            async with asyncio.timeout_at(self._asked_at + BLOCK + GRACE):
                await came.wait()
        except TimeoutError:
            raise RedisConnectionError("the server does not answer a listener") from None
        finally:
            self._loop.remove_reader(watched)


class RedisListener:
    """Hears for one who waits, over a connection that is opened anew when it is lost."""

    def __init__(self, engine: Callable[[], Engine], tone: Tone) -> None:
        self._engine = engine
        self._tone = tone
        self._name = secrets.token_hex(8)
        self._ear: _Ear | None = None
        self._opening: asyncio.Task[Opened] | None = None
        self._handover = Handover()
        self._seen = b""
        self._pauses = RetryDelays(Random(), LONGEST_PAUSE)  # noqa: S311 - jitter
        self._next_try_at = 0.0
        self._rests_until = 0.0

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell rings, False after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                return await self._hear()
        except TimeoutError:
            return False

    def close(self) -> None:
        """Stop listening."""
        self._handover.is_unwanted = True
        opening = self._opening
        if opening is not None and not opening.cancel() and not _has_failed(opening):
            hang_up(opening.result())
        if self._ear is not None:
            self._ear.close()

    async def _hear(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._rests_until > loop.time():
            await asyncio.sleep(self._rests_until - loop.time())
        while True:
            try:
                if self._ear is None:
                    self._ear = await self._connect()
                self._seen = await self._ear.hear(self._seen)
            except (RedisError, OSError, StandfastError):
                self._lose_ear()
            else:
                self._pauses.reset()
                self._next_try_at = 0.0
                self._rests_until = loop.time() + REST
                return True

    async def _connect(self) -> _Ear:
        loop = asyncio.get_running_loop()
        if self._next_try_at > loop.time():
            await asyncio.sleep(self._next_try_at - loop.time())
        engine = self._engine()
        if self._opening is None or _has_failed(self._opening):
            self._handover = Handover()
            self._opening = asyncio.create_task(engine.open_ear(self._handover))
        # A wait that is cancelled leaves the thread to its work, and the next wait takes what it brought.
        connection, place, _ = await asyncio.shield(self._opening)
        self._opening = None
        return _Ear(engine, place, connection, self._tone, self._name)

    def _lose_ear(self) -> None:
        """Hang up and plan the next attempt. What was rung meanwhile is not known: the next epoch is news."""
        if self._ear is not None:
            self._ear.close()
        self._ear, self._seen = None, b""
        self._next_try_at = asyncio.get_running_loop().time() + self._pauses.next()


class RedisBell:
    """Wakes listeners wherever they are. The scripts of the verbs ring by themselves."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def ring(self, tone: Tone = Tone.WORK) -> None:
        """Wake every listener for this tone, in this process and in others. Never raises, nor blocks a loop."""
        with suppress(StandfastError, RuntimeError):
            engine = self._engine()
            ring = engine.call_soon if _in_a_loop() else engine.call
            ring(Script("ring", (tone.value,)))

    def listen(self, tone: Tone = Tone.WORK) -> RedisListener:
        """Start listening for this tone alone, inside a running event loop."""
        return RedisListener(self._engine, tone)


def _has_failed(opening: asyncio.Task[Opened]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
