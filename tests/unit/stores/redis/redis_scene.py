"""What the tests of the Redis store share besides fixtures."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import redis

from servers import RedisServer
from standfast.errors import StoreUnavailableError
from standfast.stores.redis.store import RedisBackend
from standfast.stores.verb import Access, Script, Steps, Tone, Verb

Open = Callable[..., RedisBackend]
"""Opens a store by its URL."""

Servers = Callable[..., RedisServer]
"""Starts a private server with settings."""

Connected = Callable[[int], bool]
"""Tells whether so many more are connected than before."""

LONG = 30.0
"""Longer than any test: who waits so long and returns was woken."""


def scripted(name: str, *args: Any, access: Access = Access.WRITE) -> Verb[Any]:
    """Return a verb that is one script."""

    def steps() -> Steps[Any]:
        return (yield Script(name, args))

    return Verb(name, access, steps())


def names_of(server: redis.Redis) -> set[str]:
    """Return the names of all keys of a database."""
    return {bytes(key).decode() for key in server.scan_iter()}


def everything(server: redis.Redis) -> dict[str, bytes | None]:
    """Return all that is in a database: if two are equal, nothing was changed between them."""
    return {name: server.dump(name) for name in names_of(server)}


def fill(server: RedisServer, *, is_full: bool = True) -> None:
    """Let a server have no room for anything new, or room again."""
    with server.connect() as own:
        own.config_set("maxmemory", int(is_full))  # 0 is no limit


def calls_of(server: RedisServer, action: Callable[[], object]) -> dict[str, int]:
    """Do something; return how often the server was told each command, by whoever did."""
    with server.connect() as own:
        own.config_resetstat()
        action()
        ran = {name.removeprefix("cmdstat_"): each["calls"] for name, each in own.info("commandstats").items()}
    ran.pop("config|resetstat", ran.pop("config", None))
    return ran


def until_answered(backend: RedisBackend) -> None:
    """Ring, and do so again until somebody answers: to take over, or to come back, takes a server a moment."""
    while True:
        try:
            return backend.run(scripted("ring", "work"))
        except StoreUnavailableError:
            os.sched_yield()


async def until_registered(url: str, tone: Tone = Tone.WORK, count: int = 1) -> None:
    """Return once so many listeners are known to wait."""
    async with asyncio.timeout(LONG):
        with redis.Redis.from_url(url) as own:
            while own.zcard(f"{{standfast}}:waiting:{tone.value}") < count:  # noqa: ASYNC110 - the server knows it
                await asyncio.sleep(0.001)
