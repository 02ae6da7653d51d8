"""`workers dump`: which worker is meant, what is waited for, and what is said.

Real supervisors take the picture in the acceptance tests; here a hand in the store does.
"""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from cli_world import WORKER, answer

from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.records import Kind
from standfast.observe.incidents import write_incident
from standfast.settings import load_settings
from standfast.stores.url import open_backend
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import take_orders


@pytest.fixture
def supervisor(world):
    """Play a supervisor that takes what it sees and writes an incident, on a connection of its own."""
    over = threading.Event()

    def live() -> None:
        backend = open_backend(load_settings({}, url=world.url))
        while not over.wait(0.02):
            for order in run_procedure(backend.run, take_orders(backend.verbs, lambda order: order.what == "dump")):
                now = datetime.now(UTC)
                jobs = (InvolvedJob("j-1", 1, "send", 2, "3 of 4"),)
                summary = f"worker {order.worker} was looked at while it ran send j-1"
                incident = Incident(
                    id=order.id, trouble=Trouble.SNAPSHOT, summary=summary, at=now, last_at=now, jobs=jobs
                )
                evidence = Evidence({"stacks": "in send", "versions": "many", "log": "all is well"})
                run_procedure(backend.run, write_incident(backend.verbs, incident, evidence))
        backend.close()

    thread = threading.Thread(target=live)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("supervisor")
class TestTaken:
    """Somebody takes the order."""

    @pytest.mark.parametrize("meant", [WORKER, WORKER[:6], WORKER[-6:]])
    def test_for_people(self, standfast, meant):
        """The summary, the jobs, what is worth reading at once, and where the rest is."""
        said = standfast("workers", "dump", meant)
        assert said.exit_code == 0, said.output
        assert f"worker {WORKER} was looked at while it ran send j-1." in said.stdout
        assert "send j-1, attempt 2, 3 of 4" in said.stdout
        assert "in send" in said.stdout
        assert "all is well" in said.stdout
        assert "which has besides: versions." in said.stdout
        assert "many" not in said.stdout.replace("has besides", "")

    def test_for_programs(self, world, standfast):
        """The whole incident, and all of its evidence; the order is gone."""
        told = answer(standfast("workers", "dump", WORKER, "--json"))
        assert told["trouble"] == "snapshot"
        assert told["jobs"][0]["task"] == "send"
        assert told["evidence"]["versions"]["text"] == "many"
        assert world.do(world.verbs.records(Kind.ORDER)) == ()


class TestRefused:
    """One clear line says what is wrong."""

    def test_a_worker_that_is_not_there(self, standfast):
        """With the command that lists them."""
        said = standfast("workers", "dump", "nobody")
        assert said.exit_code == 1
        assert said.stderr.startswith("standfast: there is no worker 'nobody': ")
        assert "`standfast workers` lists the ids" in said.stderr

    @pytest.mark.parametrize("meant", ["", "a1b2"])
    def test_which_one(self, world, standfast, meant):
        """More than one may be meant, or all of them."""
        world.do(world.verbs.register(WorkerInfo("a1b2ffff", "s", "web-02", 1, timedelta(seconds=15))))
        said = standfast("workers", "dump", meant)
        assert said.exit_code == 1
        assert "give more of the one meant" in said.stderr or "there is no worker ''" in said.stderr

    def test_a_worker_that_is_lost(self, world, standfast):
        """Nobody is there to take its picture."""
        world.do(world.verbs.register(WorkerInfo("quiet", "s", "web-02", 1, timedelta())))
        said = standfast("workers", "dump", "quiet")
        assert said.exit_code == 1
        assert "worker quiet was not heard of for" in said.stderr

    def test_nobody_takes_it(self, world, standfast):
        """After the timeout the order is taken back, so that nobody does it later."""
        said = standfast("workers", "dump", WORKER, "--timeout", "1")
        assert said.exit_code == 1
        assert f"no supervisor took the order to dump worker {WORKER} within 1 s" in said.stderr
        assert world.do(world.verbs.records(Kind.ORDER)) == ()

    def test_it_is_taken_and_never_done(self, world, standfast):
        """Then that is said."""
        taking = threading.Timer(
            0.3, lambda: run_procedure(world.backend.run, take_orders(world.verbs, lambda _: True))
        )
        taking.start()
        said = standfast("workers", "dump", WORKER, "--timeout", "2")
        taking.join()
        assert f"its supervisor has begun to dump worker {WORKER}, and was not done within 2 s" in said.stderr
        assert world.do(world.verbs.records(Kind.ORDER)) == ()
