"""What several operations look at, once for all of them; what changes seldom is looked at seldom."""

import time
from datetime import datetime

from standfast.alerts.board import read_board
from standfast.alerts.standing import Board
from standfast.catalogue.book import read_catalogue
from standfast.catalogue.entry import CatalogueView
from standfast.core.incident import Incident
from standfast.core.record import Kind
from standfast.dashboard.desk import Desk
from standfast.incidents.book import list_incidents
from standfast.schedule.published import read_windows
from standfast.store.protocol import Queue, QueueAges, Worker
from standfast.watch.closed import Windows

SELDOM = 10
"""So many times as old as usual an answer may be about what changes seldom, or is not what a page is about."""


async def all_ages(desk: Desk) -> tuple[QueueAges, float]:
    """Return how old queues are, and how many seconds this look at the store took."""

    async def look() -> tuple[QueueAges, float]:
        begun = time.monotonic()
        return await desk.ask(desk.verbs.queue_ages()), time.monotonic() - begun

    return await desk.recall("ages", look)


async def store_now(desk: Desk) -> datetime:
    """Return the store's time, a moment ago: that of a look that most pages take anyway."""
    return (await all_ages(desk))[0].now


async def all_workers(desk: Desk) -> tuple[Worker, ...]:
    """Return the registered workers, oldest first."""
    return await desk.recall("workers", lambda: desk.ask(desk.verbs.workers()))


async def all_queues(desk: Desk) -> tuple[Queue, ...]:
    """Return every queue that has jobs or is paused, by name."""
    return await desk.recall("queues", lambda: desk.ask(desk.verbs.queues()))


async def catalogue(desk: Desk) -> CatalogueView:
    """Return what workers have told of their apps."""
    return await desk.recall("catalogue", lambda: desk.ask(read_catalogue(desk.verbs)), SELDOM)


async def closed_hours(desk: Desk) -> Windows:
    """Return when queues and tasks are closed."""
    return read_windows(await desk.recall("windows", lambda: desk.ask(desk.verbs.records(Kind.WINDOW)), SELDOM))


async def late_incidents(desk: Desk) -> tuple[Incident, ...]:
    """Return all incidents, the newest first, as they were not long ago."""
    return await desk.recall("incidents", lambda: desk.ask(list_incidents(desk.verbs)), SELDOM)


async def board(desk: Desk) -> Board:
    """Return how alerts stand."""
    return await desk.recall("board", lambda: desk.ask(read_board(desk.verbs)))
