"""An app whose jobs go through gates, each until a file is there."""

import asyncio
from pathlib import Path

from standfast import Standfast

LIMIT = 2


async def hold(until: str) -> None:
    """Last until a file is there."""
    while not Path(until).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.05)


async def note() -> None:
    """Do nothing: it is free, and behind the others in their queue."""


def make_app(url: str | None = None) -> Standfast:
    app = Standfast(url)
    app.gate("disk", LIMIT)
    app.queue("mail", concurrency=LIMIT)
    app.task(hold, name="scan", concurrency=LIMIT)
    app.task(hold, name="copy", gate="disk")
    app.task(hold, name="move", gate="disk")
    app.task(hold, name="send", queue="mail")
    app.task(note)
    return app


app = make_app()
