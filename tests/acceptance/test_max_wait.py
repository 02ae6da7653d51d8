"""However urgent the others are, a due job does not wait for longer than max_wait because of them."""

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from shopfloor import Shop, eventually

MAX_WAIT = 3.0
BACKLOG = 300
URGENT = {"priority": 9}
MOMENT = {"seconds": 0.01}


@contextmanager
def urgent_stream(shop, queue="default"):
    """Keep a backlog of urgent jobs topped up for as long as the block lasts."""
    over = threading.Event()
    stow = shop.tasks.stow.options(queue=queue, **URGENT)

    def feed():
        while not over.is_set():
            if shop.counts().get("ready", 0) < BACKLOG:
                stow.enqueue_many([MOMENT] * BACKLOG)
            over.wait(0.05)

    stow.enqueue_many([MOMENT] * BACKLOG)
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


@pytest.mark.parametrize(
    "options", ["--concurrency 1", "--concurrency 4", "--concurrency 2 --queues default=3,mail=1"]
)
def test_a_humble_job_starts_under_an_endless_urgent_stream(tmp_path, options):
    """It starts within max_wait of its time by the store's own record, while urgent ones still wait."""
    with Shop(tmp_path) as shop, urgent_stream(shop):
        shop.worker(*options.split(), STANDFAST_MAX_WAIT=str(MAX_WAIT))
        eventually(lambda: len(shop.ledger()) > 50, "the stream flows")
        humble = [shop.tasks.pack.options(priority=low).enqueue(order=low) for low in (0, -5)]
        shop.settled(humble)
        assert shop.counts()["ready"] > 0, "the stream has dried up, and this proves nothing"
        for handle in humble:
            [attempt] = shop.history(handle)
            assert attempt.started_at - shop.job(handle).run_at <= timedelta(seconds=MAX_WAIT)


def test_without_max_wait_it_starves(tmp_path):
    """With the limit switched off, every urgent job goes before it, however long that takes."""
    with Shop(tmp_path) as shop:
        humble = shop.tasks.pack.enqueue(order=0)
        shop.tasks.stow.options(**URGENT).enqueue_many([MOMENT] * BACKLOG)
        shop.drain("--concurrency", "1", STANDFAST_MAX_WAIT="none")
        assert [line["job"] for line in shop.ledger()][-1] == humble.id


def test_with_a_short_max_wait_the_same_job_goes_before_most(tmp_path):
    """The very same backlog, and the humble job is among the first ones."""
    with Shop(tmp_path) as shop:
        humble = shop.tasks.pack.enqueue(order=0)
        shop.tasks.stow.options(**URGENT).enqueue_many([MOMENT] * BACKLOG)
        eventually(lambda: shop.app.clock.now() > humble.job().run_at + timedelta(seconds=0.2), "it has waited")
        shop.drain("--concurrency", "1", STANDFAST_MAX_WAIT="0.2")
        assert humble.id in [line["job"] for line in shop.ledger()][:3]
