"""What anyone may see: jobs, queues, workers, counts, and what a drain waits for."""

from datetime import timedelta

from conformance.harness import LEASE, Harness
from standfast.model.crash import DeathKind
from standfast.model.job import Job
from standfast.model.states import Move, State
from standfast.stores.contract import count_states
from standfast.stores.values import JobFilter, Queue, QueueAge, UnknownAge, WorkerInfo


def _listed(harness: Harness, which: JobFilter) -> list[str]:
    return [job.id for job in harness.run(harness.verbs.list_jobs(which)).jobs]


class Looking:
    """The views agree with what happened, at the time of looking."""

    def test_a_fresh_job_is_shown_whole(self, harness: Harness) -> None:
        """A job shows what was asked for and nothing that has not happened."""
        run_at = harness.clock.now() + timedelta(seconds=90)
        new = harness.new_job(payload=b"\x00x", version=2, queue="q", priority=3, run_at=run_at, max_attempts=9)
        harness.run(harness.verbs.enqueue([new]))
        assert harness.job(new.id) == Job(
            id=new.id,
            task=new.task,
            version=2,
            queue="q",
            priority=3,
            state=State.SCHEDULED,
            reason=None,
            run_at=run_at,
            created_at=harness.clock.now(),
            finished_at=None,
            fence=0,
            attempt=0,
            crashes=0,
            max_attempts=9,
            group=0,
            cancel_requested=False,
            worker=None,
            payload=b"\x00x",
            result=None,
            error=None,
            progress=None,
        )

    def test_an_unknown_job_is_none(self, harness: Harness) -> None:
        """Looking for what is not there is not an error."""
        assert harness.run(harness.verbs.get("unknown")) is None
        assert harness.run(harness.verbs.situation("unknown")) is None

    def test_enqueue_of_nothing(self, harness: Harness) -> None:
        """No jobs are no problem."""
        harness.run(harness.verbs.enqueue([]))
        assert harness.snapshot().jobs == ()

    def test_list_is_newest_id_first_in_pages(self, harness: Harness) -> None:
        """Pages follow each other without gap or overlap, newest id first, whatever the order of arrival."""
        jobs = [harness.new_job() for _ in range(5)]
        harness.run(harness.verbs.enqueue(jobs[::-1]))
        ids = [job.id for job in reversed(jobs)]
        assert _listed(harness, JobFilter()) == ids
        assert _listed(harness, JobFilter(limit=2)) == ids[:2]
        assert _listed(harness, JobFilter(limit=2, before=ids[1])) == ids[2:4]
        assert _listed(harness, JobFilter(limit=2, before=ids[3])) == ids[4:]
        assert _listed(harness, JobFilter(before=ids[4])) == []

    def test_list_filters_together(self, harness: Harness) -> None:
        """Every condition given must hold."""
        wanted = harness.enqueue(queue="a", task="x")
        harness.enqueue(queue="a", task="y")
        harness.enqueue(queue="b", task="x")
        later = harness.enqueue(queue="a", task="x", delay=timedelta(hours=1))
        assert _listed(harness, JobFilter(queue="a", task="x", states=(State.READY,))) == [wanted]
        assert _listed(harness, JobFilter(queue="a", task="x")) == [later, wanted]
        both = (State.READY, State.SCHEDULED)
        assert len(_listed(harness, JobFilter(states=both))) == 4
        assert _listed(harness, JobFilter(states=both, limit=1)) == [later]

    def test_a_job_whose_time_has_come_is_ready_everywhere(self, harness: Harness) -> None:
        """Every view calls a due job ready, without anything having touched it."""
        job_id = harness.enqueue(delay=timedelta(seconds=5))
        assert _listed(harness, JobFilter(states=(State.SCHEDULED,))) == [job_id]
        harness.clock.advance(5)
        assert harness.job(job_id).state is State.READY
        assert _listed(harness, JobFilter(states=(State.READY,))) == [job_id]
        assert _listed(harness, JobFilter(states=(State.SCHEDULED,))) == []
        assert harness.run(count_states(harness.verbs))[State.READY] == 1
        assert harness.run(harness.verbs.queues()) == (Queue("default", None, {State.READY: 1}),)

    def test_count_has_every_state(self, harness: Harness) -> None:
        """Every state is counted, those that do not occur as zero."""
        assert harness.run(count_states(harness.verbs)) == dict.fromkeys(State, 0)
        for state in State:
            harness.place(state, queue=state)
        assert harness.run(count_states(harness.verbs)) == dict.fromkeys(State, 1)

    def test_queues_by_name_with_their_states(self, harness: Harness) -> None:
        """A queue is shown while it has jobs, final ones too, or is paused; only states that occur are named."""
        harness.place(State.COMPLETED, queue="b")
        harness.enqueue(queue="b")
        harness.enqueue(queue="c")
        harness.run(harness.verbs.pause("a"))
        harness.run(harness.verbs.pause("c"))
        now = harness.clock.now()
        assert harness.run(harness.verbs.queues()) == (
            Queue("a", now, {}),
            Queue("b", None, {State.COMPLETED: 1, State.READY: 1}),
            Queue("c", now, {State.READY: 1}),
        )
        harness.run(harness.verbs.resume("a"))
        assert [queue.name for queue in harness.run(harness.verbs.queues())] == ["b", "c"]

    def test_the_age_of_a_queue_is_that_of_its_oldest_due_job(self, harness: Harness) -> None:
        """Whatever its priority, and whether it came due or was so on arrival; claimed ones do not count."""
        assert harness.run(harness.verbs.queue_ages()).queues == ()
        began = harness.clock.now()
        harness.enqueue(queue="b", priority=-3, delay=timedelta(seconds=2))
        harness.enqueue(queue="later", delay=timedelta(hours=1))
        for state in State:
            if state not in {State.READY, State.SCHEDULED}:
                harness.place(state, queue=state)
        harness.clock.advance(5)
        harness.enqueue(queue="b", priority=7)
        harness.enqueue(queue="b")
        harness.enqueue(queue="a")
        harness.enqueue(queue="a")
        harness.run(harness.verbs.pause("a"))
        harness.clock.advance(1)
        ages = harness.run(harness.verbs.queue_ages())
        assert ages.now == harness.clock.now()
        assert ages.queues == (
            QueueAge("a", began + timedelta(seconds=5), began + timedelta(seconds=5)),
            QueueAge("b", began + timedelta(seconds=2)),
        )

    def test_a_queue_is_as_old_as_its_oldest_suspect(self, harness: Harness) -> None:
        """They wait for a process of their own, and wait all the same."""
        placed = harness.place(State.RUNNING, queue="q")
        harness.bury(placed.worker, DeathKind.CRASHED, frozenset({placed.ref}))
        crashed_at = harness.job(placed.job_id).run_at
        harness.clock.advance(3)
        harness.enqueue(queue="q")
        assert harness.run(harness.verbs.queue_ages()).queues == (QueueAge("q", crashed_at),)

    def test_jobs_that_no_worker_knew_have_an_age_of_their_own(self, harness: Harness) -> None:
        """By queue, task and payload version: a misspelt task must not wait in silence."""
        began = harness.clock.now()
        for queue, task in (("b", "send_emial"), ("a", "send_emial"), ("a", "send_emial"), ("a", "gone")):
            harness.place(State.BLOCKED, queue=queue, task=task)
            harness.clock.advance(1)
        harness.place(State.BLOCKED, queue="a", task="gone", version=3)
        harness.enqueue(queue="a", task="known")
        ages = harness.run(harness.verbs.queue_ages())
        assert [age.name for age in ages.queues] == ["a"]
        assert ages.unknown == (
            UnknownAge("a", "gone", 1, began + timedelta(seconds=3)),
            UnknownAge("a", "gone", 3, began + timedelta(seconds=4)),
            UnknownAge("a", "send_emial", 1, began + timedelta(seconds=1)),
            UnknownAge("b", "send_emial", 1, began),
        )

    def test_workers_oldest_first(self, harness: Harness) -> None:
        """Workers are shown as they registered, with their beats and what they have."""
        infos = [
            WorkerInfo("z", "s1", "h1", 10, timedelta(seconds=LEASE), ("a", "b"), 3),
            WorkerInfo("y", "s2", "h2", 20, timedelta(seconds=2.5), None, 1),
        ]
        for info in infos:
            harness.run(harness.verbs.register(info))
            harness.clock.advance(1)
        for _ in range(3):
            harness.enqueue()
        harness.start("z", harness.claim("z")[0].ref)
        first, second = harness.run(harness.verbs.workers())
        assert [first.info, second.info] == infos
        assert (first.held, first.running, second.held, second.running) == (2, 1, 0, 0)
        assert (first.beat_age, second.beat_age) == (timedelta(seconds=2), timedelta(seconds=1))
        assert first.started_at == harness.clock.now() - timedelta(seconds=2)
        assert not first.condemned

    def test_situation(self, harness: Harness) -> None:
        """All that explains a waiting job: its queue's pause, the workers there are, and how many go first."""
        harness.enqueue(priority=1)
        harness.enqueue()
        harness.enqueue(queue="other", priority=9)
        harness.enqueue(delay=timedelta(hours=1), priority=9)
        job_id = harness.enqueue()
        harness.enqueue()
        harness.register()
        harness.run(harness.verbs.pause("default"))
        situation = harness.run(harness.verbs.situation(job_id))
        assert situation is not None
        assert situation.job == harness.job(job_id)
        assert (situation.now, situation.queue_paused_at) == (harness.clock.now(), harness.clock.now())
        assert situation.workers == harness.run(harness.verbs.workers())
        assert situation.ahead == 2


class Draining:
    """A drain ends when nothing is left that could still run by itself."""

    def test_what_a_drain_waits_for(self, harness: Harness) -> None:
        """Ready, held and running jobs are waited for; scheduled, blocked and final ones are not."""
        waited_for = {State.READY, State.HELD, State.RUNNING}
        for state in State:
            harness.place(state, queue=state)
            assert harness.run(harness.verbs.unsettled((state,))) == (state in waited_for), state
        assert harness.run(harness.verbs.unsettled(None)) == len(waited_for)
        assert harness.run(harness.verbs.unsettled((State.READY, State.HELD))) == 2
        assert harness.run(harness.verbs.unsettled(())) == 0

    def test_a_retry_is_waited_for(self, harness: Harness) -> None:
        """A job that was claimed before and waits for its retry is not settled."""
        placed = harness.place(State.RUNNING)
        harness.finish(placed.worker, placed.ref, Move.RETRY, delay=timedelta(hours=1))
        assert harness.run(harness.verbs.unsettled(None)) == 1

    def test_a_paused_queue_is_not_waited_for(self, harness: Harness) -> None:
        """What is ready in a paused queue will not run; what is claimed there still ends."""
        harness.place(State.RUNNING)
        harness.enqueue()
        harness.run(harness.verbs.pause("default"))
        assert harness.run(harness.verbs.unsettled(None)) == 1

    def test_claims_of_the_dead_are_waited_for(self, harness: Harness) -> None:
        """A job of a worker that is condemned and not yet buried will come back."""
        placed = harness.place(State.RUNNING)
        harness.expire(placed.worker)
        assert harness.run(harness.verbs.unsettled(None)) == 1
