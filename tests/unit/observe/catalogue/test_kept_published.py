"""A worker publishes beside its work: it says so again while it lives, and whatever goes wrong does not stop it."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta

import pytest

from simulator.world import VirtualClock
from standfast import Standfast
from standfast.errors import StoreUnavailableError
from standfast.hosts import publication
from standfast.hosts.publication import AGAIN, TRY_AGAIN, keep_published
from standfast.observe.catalogue import KEPT_FOR, CatalogueView, read_catalogue
from standfast.settings import Loaded
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.verb import Verb, run_procedure

pytestmark = pytest.mark.virtual_time


class Moody(MemoryBackend):
    """A store that can be away, and remembers what it was asked."""

    away = False

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.called: list[str] = []

    async def arun(self, verb: Verb[object]) -> object:
        self.called.append(verb.name)
        if self.away:
            raise StoreUnavailableError("away")
        return await super().arun(verb)


class Worker:
    """All that is asked of a worker: the store's time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.now = clock.now


class Scene:
    """A worker that publishes."""

    def __init__(self, *, away: bool = False) -> None:
        self.clock = VirtualClock()
        self.store = Moody(self.clock)
        self.store.away = away
        self.app = Standfast("memory://", name="shop", release="1")
        self.app.task(name="mail")(lambda: None)
        self.publishing = asyncio.ensure_future(self.publish())

    async def publish(self) -> None:
        loaded = Loaded(self.app.settings, self.app.settings_from)
        await keep_published(self.app, "jobs:app", loaded, self.store, Worker(self.clock))  # type: ignore[arg-type]

    def view(self) -> CatalogueView:
        return run_procedure(self.store.run, read_catalogue(self.store.verbs))

    async def end(self) -> None:
        self.publishing.cancel()
        with suppress(asyncio.CancelledError):
            await self.publishing


async def test_the_next_worker_costs_one_read() -> None:
    """What its release has published already is not written again."""
    scene = Scene()
    await asyncio.sleep(1)
    assert [known.task.name for known in scene.view().tasks] == ["mail"]
    scene.store.called = []
    second = asyncio.ensure_future(scene.publish())
    await asyncio.sleep(AGAIN / 2)
    assert scene.store.called == ["records"]
    second.cancel()
    await scene.end()


async def test_who_lives_long_is_not_forgotten() -> None:
    """A worker that is never restarted keeps what it has published from being old."""
    scene = Scene()
    await asyncio.sleep(2 * KEPT_FOR.total_seconds())
    [release] = scene.view().releases
    assert scene.clock.now() - release.published_at <= timedelta(seconds=AGAIN)
    assert len(scene.store.called) < 5 * 2 * KEPT_FOR.days
    await scene.end()


async def test_a_store_that_is_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """Not often: others are waiting for it, too."""
    scene = Scene(away=True)
    await asyncio.sleep(2.5 * TRY_AGAIN)
    assert len(scene.store.called) == 3
    assert "is not published yet" in caplog.text
    scene.store.away = False
    await asyncio.sleep(TRY_AGAIN)
    assert [known.task.name for known in scene.view().tasks] == ["mail"]
    await scene.end()


async def test_a_bug_is_told_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It returns as if nothing had happened."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(publication, "catalogue_of", broken)
    with caplog.at_level(logging.ERROR):
        await Scene().publishing
    assert "could not be published" in caplog.text
    assert "ZeroDivisionError" in caplog.text
