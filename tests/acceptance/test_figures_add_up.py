"""Figures are what happened: after a graceful stop nothing is missing, and nothing is counted twice."""

import os
import signal
from datetime import UTC, datetime, timedelta

from shopfloor import Shop

from standfast.observe.burn_rates import read_standings
from standfast.observe.catalogue import published_objectives
from standfast.observe.figures.counts import PAIRS
from standfast.observe.figures.series import Series, read_figures
from standfast.stores.verb import run_procedure


def read(shop: Shop) -> Series:
    return run_procedure(shop.app.call, read_figures(shop.app.verbs, datetime.now(UTC) - timedelta(hours=1)))


def test_figures_add_up_after_a_graceful_stop(tmp_path):
    """200 jobs by two processes: some are retried, some die, some are discarded, one is put off."""
    with Shop(tmp_path) as shop:
        for order in range(170):
            shop.tasks.pack.enqueue(order=order)
        for _ in range(10):
            for error in ("retried", "discarded", "other"):
                shop.tasks.sort_out.enqueue(error=error)
        shop.tasks.say.enqueue(how="snooze")
        shop.drain("--processes", "2")

        told = {row.task.rpartition(".")[2]: row for row in read(shop).by_task()}
        assert told["pack"].completed == sum(told["pack"].run) == sum(told["pack"].lag) == 170
        sorted_out = told["sort_out"]
        assert (sorted_out.completed, sorted_out.failed, sorted_out.dead, sorted_out.cancelled) == (0, 20, 20, 10)
        assert sum(sorted_out.run) == 50
        assert (told["say"].completed, told["say"].given_back) == (1, 1)
        states = shop.counts()
        total = read(shop).total
        assert (total.completed, total.dead, total.cancelled) == (
            states["completed"],
            states["dead"],
            states["cancelled"],
        )


def test_a_job_that_dies_with_its_worker_is_counted(tmp_path):
    """By the supervisor, as no worker is left to do it."""
    with Shop(tmp_path) as shop:
        worker = shop.worker()
        killed = shop.tasks.guard.options(max_attempts=1).enqueue(until="never")
        shop.become(killed, "running")
        os.kill(worker.children[0], signal.SIGKILL)
        shop.become(killed, "dead")
        assert worker.stop() == 0
        assert read(shop).total.dead == 1


def test_what_an_objective_is_about_is_counted_among_very_many(tmp_path):
    """A worker knows what its app has promised: a queue with one job is told where hundreds of others are not."""
    with Shop(tmp_path) as shop:
        with shop.module.open("a") as module:
            module.write('app.objective("rare-works", target=0.9, queue="rare")\n')
        for number in range(PAIRS + 60):
            shop.tasks.pack.options(queue=f"customer-{number}").enqueue_many([{"order": 1}, {"order": 2}])
        shop.tasks.pack.options(queue="rare").enqueue(order=1)
        shop.drain()
        objectives = run_procedure(shop.app.call, published_objectives(shop.app.verbs))
        [found] = run_procedure(shop.app.call, read_standings(shop.app.verbs, objectives))
        assert (found.objective.name, found.good, found.bad) == ("rare-works", 1, 0)
        assert read(shop).total.completed == 2 * (PAIRS + 60) + 1
