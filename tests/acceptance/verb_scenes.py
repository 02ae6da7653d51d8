"""Every verb of a store in a scene of its own, and how one sees afterwards whether it is done.

A scene is set on a connection that nothing harms, and looked at there; only its verb goes the way that is harmed.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from conformance.harness import Harness, new_save
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import new_job_id
from standfast.model.job import Cancellation, ClaimRef, Ending, JobAction, OnConflict, Progress, Verdict
from standfast.model.records import Change, Kind
from standfast.model.states import Move, State
from standfast.stores.contract import Store, cancel_job, change_job, count_states
from standfast.stores.values import ClaimRequest, JobFilter, Vitals, WorkerBeat, WorkerInfo
from standfast.stores.verb import Verb
from standfast.testing.clock import FakeClock

PAST = datetime(2020, 1, 1, tzinfo=UTC)
LONG = timedelta(hours=1)
MANY = 40
NEVER = Progress(3, 7, "so far")


class Scene(NamedTuple):
    """A verb to call, and how to judge what came of it."""

    verb: Callable[[Store], Verb[Any]]
    is_right: Callable[[Any], bool]
    """Whether an answer is one to this call."""
    is_done: Callable[[], bool] | None = None
    """Whether the store holds what it does; None of one that does nothing to be seen."""


class Stage:
    """Sets scenes. Each has a queue, jobs and workers of its own."""

    def __init__(self, backend: Any) -> None:
        self.own = Harness(backend, FakeClock())
        self._numbers = count(1)
        self.names = [name.removeprefix("set_") for name in dir(self) if name.startswith("set_")]

    def set(self, name: str) -> Scene:
        """Set the scene of this name."""
        self._queue = f"{name}-{next(self._numbers)}"
        made: Scene = getattr(self, f"set_{name}")()
        return made

    # -- clients ---------------------------------------------------------------------------------------------

    def set_enqueue_one(self):
        return self._enqueuing(1)

    def set_enqueue_many(self):
        return self._enqueuing(MANY)

    def set_enqueue_tagged(self):
        return self._enqueuing(2, tags=("a", "b"), metadata={"for": "you"})

    def set_enqueue_delayed(self):
        return self._enqueuing(1, delay=LONG)

    def set_enqueue_keyed(self):
        return self._enqueuing(1, key=self._queue, on_conflict=OnConflict.RAISE)

    def set_enqueue_replacing(self):
        first = self._job(key=self._queue, delay=LONG)
        scene = self._enqueuing(1, key=self._queue, on_conflict=OnConflict.REPLACE)
        return scene._replace(is_done=lambda: scene.is_done() and self._state(first) is State.CANCELLED)

    def set_cancel(self):
        job_id = self._job()
        return Scene(
            lambda verbs: cancel_job(verbs, job_id),
            lambda answer: answer in {Cancellation.CANCELLED, Cancellation.TOO_LATE},  # that is so of a repetition
            lambda: self._state(job_id) is State.CANCELLED,
        )

    def set_signal(self):
        job_id = self._job(delay=LONG)
        return Scene(
            lambda verbs: verbs.signal(job_id, "go", "t1", b"1"),
            lambda answer: answer is True,
            lambda: len(self.own.memos(job_id)) == 1,
        )

    def set_requeue(self):
        job_id = self._placed(State.DEAD).job_id
        return self._of_job(job_id, lambda verbs: change_job(verbs, JobAction.RETRY, job_id), State.READY)

    def set_reschedule(self):
        job_id = self._job(delay=LONG)
        return self._of_job(
            job_id, lambda verbs: change_job(verbs, JobAction.RESCHEDULE, job_id, PAST), State.READY
        )

    def set_discard(self):
        job_id = self._placed(State.DEAD).job_id
        return self._of_job(job_id, lambda verbs: change_job(verbs, JobAction.DISCARD, job_id), State.CANCELLED)

    def set_change_jobs(self):
        ids = frozenset(self._placed(State.DEAD).job_id for _ in range(3))
        return Scene(
            lambda verbs: verbs.change_jobs(JobAction.RETRY, sorted(ids)),
            lambda answer: (
                {job_id for job_id in answer if answer[job_id].changed} in (ids, set())
            ),  # that is so of a repetition
            lambda: self._all_or_none(*(self._state(job_id) is State.READY for job_id in ids)),
        )

    def set_supersede(self):
        job_id, job = self._placed(State.DEAD).job_id, self._new_job()
        return Scene(
            lambda verbs: change_job(verbs, JobAction.DISCARD, job_id, instead=job),
            lambda answer: answer.changed,
            lambda: self._all_or_none(self._state(job_id) is State.CANCELLED, self._is_there(job)),
        )

    def set_pause(self):
        return self._of_queue("pause", paused=True)

    def set_resume(self):
        self.own.run(self.own.verbs.pause(self._queue))
        return self._of_queue("resume", paused=False)

    # -- views -----------------------------------------------------------------------------------------------

    def set_get(self):
        job_id = self._job()
        return Scene(lambda verbs: verbs.get(job_id), lambda job: job.id == job_id)

    def set_glance(self):
        job_id = self._job()
        return Scene(lambda verbs: verbs.glance([job_id]), lambda seen: list(seen) == [job_id])

    def set_list_jobs(self):
        job_id = self._job()
        which = JobFilter(queue=self._queue)
        return Scene(lambda verbs: verbs.list_jobs(which), lambda page: [job.id for job in page.jobs] == [job_id])

    def set_history(self):
        placed = self._placed(State.HELD)
        return Scene(
            lambda verbs: verbs.history(placed.job_id),
            lambda told: [each.worker for each in told] == [placed.worker],
        )

    def set_memos(self):
        job_id = self._job(delay=LONG)
        self.own.signal(job_id, self._queue)
        return Scene(lambda verbs: verbs.memos(job_id), lambda memos: self._queue in memos[0].name)

    def set_situation(self):
        job_id = self._job()
        return Scene(lambda verbs: verbs.situation(job_id), lambda seen: seen.job.id == job_id)

    def set_unsettled(self):
        for _ in range(3):
            self._job()
        return Scene(lambda verbs: verbs.unsettled((self._queue,)), lambda number: number == 3)

    def set_queues(self):
        self._job()
        return Scene(lambda verbs: verbs.queues(), lambda queues: self._queue in {queue.name for queue in queues})

    def set_workers(self):
        worker = self._register()
        return Scene(lambda verbs: verbs.workers(), lambda workers: worker in {each.info.id for each in workers})

    def set_count(self):
        self._job()
        return Scene(count_states, lambda counts: counts[State.READY] > 0)

    def set_records(self):
        name = self._queue
        self.own.change(name)
        return Scene(
            lambda verbs: verbs.records(Kind.SCHEDULE, [name]),
            lambda found: [each.name for each in found] == [name],
        )

    # -- records ---------------------------------------------------------------------------------------------

    def set_change_records(self):
        job = self._new_job()
        change = Change(Kind.SCHEDULE, self._queue, 0, new_job_id(), b"body", jobs=(job,))
        return Scene(
            lambda verbs: verbs.change_records([change]),
            lambda answer: answer == (True,),
            lambda: self._all_or_none(self.own.record(change.name) is not None, self._is_there(job)),
        )

    # -- workers ---------------------------------------------------------------------------------------------

    def set_claim_fresh(self):
        return self._claiming(self._job())

    def set_claim_waiting(self):
        job_id = self._job(delay=LONG)
        self.own.run(change_job(self.own.verbs, JobAction.RESCHEDULE, job_id, PAST))
        return self._claiming(job_id)

    def set_start(self):
        placed = self._placed(State.HELD)
        return self._fenced(
            lambda verbs: verbs.start(placed.worker, [(placed.ref, PAST)]),
            lambda: self._state(placed.job_id) is State.RUNNING,
        )

    def set_progress(self):
        placed = self._placed(State.RUNNING)
        return self._fenced(
            lambda verbs: verbs.progress(placed.worker, [(placed.ref, NEVER)]),
            lambda: self.own.job(placed.job_id).progress == NEVER,
        )

    def set_save(self):
        placed = self._placed(State.RUNNING)
        save = new_save(placed.ref, 1, {"cursor": b"1", "step:a": b"2"})
        return self._fenced(
            lambda verbs: verbs.save(placed.worker, [save]),
            lambda: self._all_or_none(*[name in self.own.memos(placed.job_id) for name in ("cursor", "step:a")]),
        )

    def set_finish(self):
        placed = self._placed(State.RUNNING)
        return self._ending(placed, Ending(placed.ref, Move.COMPLETE, result=b"42"), State.COMPLETED)

    def set_finish_failed(self):
        placed = self._placed(State.RUNNING)
        return self._ending(placed, Ending(placed.ref, Move.RETRY, delay=LONG), State.SCHEDULED)

    # -- supervisors -----------------------------------------------------------------------------------------

    def set_register(self):
        info = self._info()
        return Scene(
            lambda verbs: verbs.register(info), lambda answer: answer is None, lambda: self._knows(info.id)
        )

    def set_beat(self):
        worker = self._register()
        vitals = Vitals(memory=next(self._numbers), running=1, slots=2, lag=None, pulse_age=0.0, done=3)
        return Scene(
            lambda verbs: verbs.beat([WorkerBeat(worker, vitals=vitals)]),
            lambda answer: answer.accepted == {worker},
            lambda: self._workers()[worker].vitals == vitals,
        )

    def set_reconcile(self):
        placed = self._placed(State.HELD)
        beat = WorkerBeat(placed.worker, closed_call=1 << 30)
        return Scene(
            lambda verbs: verbs.reconcile(beat),
            lambda answer: set(answer) <= {placed.ref},
            lambda: self._state(placed.job_id) is State.READY,
        )

    def set_condemn(self):
        worker = self._register(lease=timedelta(microseconds=1))
        return Scene(
            lambda verbs: verbs.condemn(frozenset({worker})),
            lambda answer: answer == {worker},
            lambda: worker not in self.own.beat(worker).accepted,
        )

    def set_bury(self):
        placed = self._placed(State.RUNNING)
        return Scene(
            lambda verbs: verbs.bury(placed.worker, Death(DeathKind.STOPPED)),
            lambda answer: set(answer) <= {placed.ref},
            lambda: self._all_or_none(
                not self._knows(placed.worker), self._state(placed.job_id) is not State.RUNNING
            ),
        )

    def set_forget_results(self):
        return Scene(lambda verbs: verbs.forget_results(10), lambda number: number >= 0)

    def set_forget_jobs(self):
        return Scene(lambda verbs: verbs.forget_jobs(timedelta(days=1), 10), lambda number: number >= 0)

    def set_forget_dead(self):
        return Scene(lambda verbs: verbs.forget_dead(timedelta(days=1), 10), lambda number: number >= 0)

    # -- what they have in common ----------------------------------------------------------------------------

    def _new_job(self, **fields):
        return self.own.new_job(**{"id": new_job_id(), "queue": self._queue, "payload": self._payload, **fields})

    @property
    def _payload(self):
        return f'{{"args":["{self._queue}"]}}'.encode()

    def _job(self, **fields):
        job = self._new_job(**fields)
        self.own.run(self.own.verbs.enqueue([job]))
        return job.id

    def _state(self, job_id):
        return self.own.job(job_id).state

    def _is_there(self, job):
        found = self.own.run(self.own.verbs.get(job.id))
        assert found is None or found.payload == job.payload
        return found is not None

    def _all_or_none(self, *signs):
        assert len(set(signs)) == 1, f"half of it is done: {signs}"
        return signs[0]

    def _enqueuing(self, number, **fields):
        jobs = [self._new_job(**fields) for _ in range(number)]
        known = {job.id: job.id for job in jobs}  # where it was sent again, as the answer was lost
        return Scene(
            lambda verbs: verbs.enqueue(jobs),
            lambda answer: answer == {} or (number == 1 and answer == known),
            lambda: self._all_or_none(*map(self._is_there, jobs)),
        )

    def _of_job(self, job_id, verb, state):
        return Scene(verb, lambda answer: answer.changed, lambda: self._state(job_id) is state)

    def _of_queue(self, verb, *, paused):
        queue = self._queue
        self._job()
        return Scene(
            lambda verbs: getattr(verbs, verb)(queue),
            lambda answer: answer is None,
            lambda: (self._queues()[queue].paused_at is not None) is paused,
        )

    def _queues(self):
        return {each.name: each for each in self.own.run(self.own.verbs.queues())}

    def _info(self, lease=LONG):
        worker = f"worker-{new_job_id()}"
        return WorkerInfo(worker, f"supervisor-{worker}", "host-1", 1, lease, ("nothing",), 4)

    def _register(self, **fields):
        info = self._info(**fields)
        self.own.run(self.own.verbs.register(info))
        return info.id

    def _workers(self):
        return {each.info.id: each for each in self.own.run(self.own.verbs.workers())}

    def _knows(self, worker):
        return worker in self._workers()

    def _placed(self, state):
        worker, job_id = self._register(), self._job()
        [claim] = self.own.run(self.own.verbs.claim(ClaimRequest(worker, 1, 1, queues=(self._queue,)))).jobs
        if state is State.RUNNING:
            self.own.start(worker, claim.ref, PAST)
        if state is State.DEAD:
            self.own.finish(worker, claim.ref, Move.DIE)
        return _Placed(job_id, worker, claim.ref)

    def _claiming(self, job_id):
        worker, request_queue = self._register(), (self._queue,)
        request = ClaimRequest(worker, 1, 5, queues=request_queue)
        return Scene(
            lambda verbs: verbs.claim(request),
            lambda answer: [claim.ref for claim in answer.jobs] == [ClaimRef(job_id, 1)],
            lambda: self._all_or_none(self._state(job_id) is State.HELD, len(self.own.history(job_id)) == 1),
        )

    def _fenced(self, verb, is_done):
        return Scene(verb, lambda answer: answer == (Verdict.ACCEPTED,), is_done)

    def _ending(self, placed, ending, state):
        return self._fenced(
            lambda verbs: verbs.finish(placed.worker, [ending]), lambda: self._state(placed.job_id) is state
        )


class _Placed(NamedTuple):
    job_id: str
    worker: str
    ref: ClaimRef
