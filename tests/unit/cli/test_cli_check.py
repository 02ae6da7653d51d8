"""`check`: which queues get a canary, what is said of each, and what becomes of those that are not through.

Real workers take them in the acceptance tests; here a hand in the store does.
"""

import threading
from datetime import timedelta

import pytest
from cli_world import WORKER, answer, assert_refused, bare

from standfast import Standfast
from standfast.cli.check import QueueChoice
from standfast.hosts.builtin import CANARY, built_in_tasks, new_canary
from standfast.model.clock import SystemClock
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Ending, OnLate
from standfast.model.states import Move, State
from standfast.observe.alerts.delivery import DELIVER
from standfast.observe.alerts.senders import Programs
from standfast.stores.values import ClaimRequest, JobFilter, Queue, Worker, WorkerInfo
from standfast.worker.attempt import Workload

FAILED, USAGE, STORE = 1, 2, 3
SECOND = timedelta(seconds=1)


def canaries(world):
    return world.do(world.verbs.list_jobs(JobFilter(task=CANARY))).jobs


def failed_report(result):
    assert result.exit_code == FAILED, result.output
    result.exit_code = 0
    return answer(result)


@pytest.fixture
def hand(world):
    """Complete whatever comes up in the store, as a worker would."""
    over = threading.Event()

    def work():
        while not over.wait(0.01):
            world.calls += 1
            for claim in world.do(world.verbs.claim(ClaimRequest(WORKER, world.calls, 10))).jobs:
                world.do(world.verbs.finish(WORKER, [Ending(claim.ref, Move.COMPLETE, result=b"null")]))

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("hand")
class TestThrough:
    def test_every_known_queue_gets_one(self, world, standfast):
        for queue in ("mail", "reports"):
            world.enqueue(queue=queue)
        report = answer(standfast("check", "--wait", "30", "--json"))
        assert report["ok"] is True
        assert [(each["queue"], each["through"], each["why"]) for each in report["queues"]] == [
            ("mail", True, None),
            ("reports", True, None),
        ]
        assert all(each["ms"] >= 0 for each in report["queues"])
        assert {(job.queue, job.state) for job in canaries(world)} == {
            ("mail", State.COMPLETED),
            ("reports", State.COMPLETED),
        }

    def test_without_a_known_queue_the_ordinary_one_stands_for_all(self, standfast):
        text = standfast("check", "--wait", "30").stdout
        assert "default  through in" in text
        assert "1 of 1 queue through." in text

    def test_only_those_named(self, world, standfast):
        world.enqueue(queue="mail")
        report = answer(standfast("check", "--wait", "30", "--queue", "other", "--queue", "other", "--json"))
        assert [each["queue"] for each in report["queues"]] == ["other"]

    def test_a_store_that_is_being_made_is_waited_for(self, world, tmp_path, monkeypatch):
        """A deployment starts workers and this command at once: the first worker makes the store."""
        late = tmp_path / "late.db"
        naps = []

        def nap(seconds):
            naps.append(seconds)
            if len(naps) == 3:
                late.symlink_to(world.path)

        monkeypatch.setattr("standfast.cli.check.time.sleep", nap)
        assert answer(bare("check", "--url", f"sqlite:///{late}", "--json"))["ok"] is True
        assert len(naps) >= 3


class TestNotThrough:
    def test_nobody_takes_it(self, world, standfast):
        """The worker is registered and idle as far as the store knows, and does nothing."""
        world.enqueue(queue="mail")
        [flight] = failed_report(standfast("check", "--wait", "0.2", "--json"))["queues"]
        assert (flight["queue"], flight["through"], flight["ms"]) == ("mail", False, None)
        assert "any moment" in flight["why"]
        [job] = canaries(world)
        assert (job.id, job.state) == (flight["job"], State.CANCELLED)

    def test_a_paused_queue_is_told(self, world, standfast):
        world.do(world.verbs.pause("mail"))
        result = standfast("check", "--wait", "0.2")
        assert result.exit_code == FAILED
        assert "not within 200 ms" in result.stdout
        assert "standfast queues resume mail" in result.stdout

    def test_without_a_worker_and_a_queue_nothing_is_sent(self, world, standfast):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        report = failed_report(standfast("check", "--wait", "0.2", "--json"))
        assert report["queues"] == []
        assert "no worker is running" in report["why"]
        assert canaries(world) == ()
        assert "start one with `standfast worker" in standfast("check", "--wait", "0.2").stdout

    def test_without_a_worker_a_queue_that_has_work_is_told(self, world, standfast):
        world.do(world.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
        world.enqueue(queue="mail")
        [flight] = failed_report(standfast("check", "--wait", "0.2", "--json"))["queues"]
        assert "no worker is running" in flight["why"]

    def test_a_store_that_never_comes_is_told(self, tmp_path):
        assert_refused(
            bare("check", "--wait", "0.2", "--url", f"sqlite:///{tmp_path}/none.db"), STORE, "there is no database"
        )

    @pytest.mark.parametrize("args", [["--wait", "0"], ["--wait", "soon"], ["--queue", "a b"], ["nonsense"]])
    def test_nonsense_is_wrong_usage(self, standfast, args):
        assert standfast("check", *args).exit_code == USAGE


class TestChoice:
    def worker(self, queues, age=0):
        info = WorkerInfo("w", "s", "h", 1, 15 * SECOND, queues)
        return Worker(info, None, age * SECOND, condemned=False, held=0, running=0)

    def test_what_workers_serve_and_what_has_work(self):
        queues = [
            Queue("history", None, {State.COMPLETED: 5}),
            Queue("work", None, {State.READY: 1}),
            Queue("mail", None, {State.COMPLETED: 1}),
        ]
        workers = [self.worker(("mail", "new")), self.worker(("lost",), age=99)]
        assert QueueChoice().of(queues, workers) == ["mail", "new", "work"]
        assert QueueChoice().of(queues, [self.worker(None)]) == ["history", "mail", "work"]
        assert QueueChoice().of(queues, []) == ["work"]
        assert QueueChoice((), frozenset({"declared"})).of(queues, []) == ["declared", "work"]
        assert QueueChoice(("named",)).of(queues, workers) == ["named"]

    def test_nothing_known(self):
        assert QueueChoice().of([], []) == []
        assert QueueChoice().of([], [self.worker(None)]) == ["default"]


class TestCanary:
    def test_it_goes_first_and_never_late(self):
        job = new_canary("mail", 60 * SECOND)
        assert (job.task, job.queue, job.priority, job.tags) == (CANARY, "mail", 32767, (CANARY,))
        assert (job.start_within, job.on_late) == (60 * SECOND, OnLate.EXPIRE)

    def test_every_worker_knows_it_and_the_app_does_not(self):
        app = Standfast()
        mine = app.task(name="mine")(_nothing)
        built_in = built_in_tasks(app, SystemClock().now, Programs())
        assert [built_in[name].name for name in (CANARY, DELIVER)] == [CANARY, DELIVER]
        assert set(built_in) == {CANARY, DELIVER}
        assert CANARY not in app.tasks
        workload = Workload(tasks=app.tasks, built_in=built_in)
        assert workload.task("mine") is mine
        assert workload.task(CANARY) is built_in[CANARY]
        later = app.task(name="later")(_nothing)
        assert workload.task("later") is later
        assert workload.task("none") is None

    def test_its_payload_is_one_that_it_can_read(self):
        job = new_canary("mail", SECOND)
        assert (
            built_in_tasks(Standfast(), SystemClock().now, Programs())[CANARY].arguments.decode(job.payload) == {}
        )


def _nothing():
    pass
