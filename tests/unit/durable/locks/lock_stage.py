"""What tests of locks have in common."""

import asyncio
import time

from standfast.durable.lockstate import look_at_all

SHORT = 0.6
"""A ttl after whose third something happens soon."""

PATIENCE = 10.0


def wait_for(condition):
    """Wait until something is so."""
    give_up_at = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


async def await_for(condition):
    """Wait until something is so, and let others go on."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it is another process, or thread, that changes it
            await asyncio.sleep(0.005)


def line(app):
    """Return who waits for lock a."""
    return app.call(look_at_all(app.verbs))[1]["a"].line


def holders(app):
    """Return who holds lock a."""
    return app.call(look_at_all(app.verbs))[1]["a"].holders
