"""The thread of a keeper."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from standfast.locks.renewing import RENEW_AFTER, RENEW_LATE, Rounds
from standfast.store.verb import Verb

if TYPE_CHECKING:
    from standfast.locks.keeper import Keeper


def go_rounds(keeper: "Keeper") -> None:
    """Keep what is held, in this thread, until there has been nothing for a moment."""

    async def go() -> None:
        loop, backend = asyncio.get_running_loop(), keeper.backend
        part = RENEW_AFTER if keeper.deputy is None else RENEW_LATE

        async def run(verb: Verb[Any]) -> Any:
            # When the main thread is over, others may hold locks for long, but nobody gets threads for async calls.
            return await backend.arun(verb) if threading.main_thread().is_alive() else backend.run(verb)

        rounds = Rounds(keeper, run, backend.verbs, keeper.clock, part)
        keeper.attend(lambda: loop.call_soon_threadsafe(rounds.wake))
        await rounds.go()

    asyncio.run(go())
