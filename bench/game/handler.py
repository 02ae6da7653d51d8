"""The job of the game, as our instances run it: it says that it starts, works for 83 ms, and says so again."""

import asyncio
from functools import cache

from game.ledger import Ledger, this_ledger
from game.rules import WORK
from standfast.context import Context

TASK = "game.job"


async def run_job(ctx: Context, number: int) -> None:
    """Do the work of a job."""
    ledger = _ledger()
    ledger.start(number, ctx.fence)
    await asyncio.sleep(WORK)
    ledger.end(number, ctx.fence)


@cache
def _ledger() -> Ledger:
    return this_ledger()
