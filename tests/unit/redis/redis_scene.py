"""What the tests of the Redis store share besides fixtures."""

from collections.abc import Callable
from typing import Any

from holdfast.store.redis.backend import RedisBackend
from holdfast.store.verb import Access, Script, Steps, Verb
from servers import RedisServer

Open = Callable[..., RedisBackend]
"""Opens a store by its URL."""

Servers = Callable[..., RedisServer]
"""Starts a private server with settings."""


def scripted(name: str, *args: Any, access: Access = Access.WRITE) -> Verb[Any]:
    """Return a verb that is one script."""

    def steps() -> Steps[Any]:
        return (yield Script(name, args))

    return Verb(name, access, steps())
