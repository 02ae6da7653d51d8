"""A store does what the reference model does, step by step, over random histories."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec.structs import asdict

from conformance.harness import KNOWN, LEASE, TASK, Harness, new_save
from standfast.errors import StandfastError
from standfast.model.crash import OF_HOST, Death, DeathKind
from standfast.model.job import (
    Claim,
    ClaimRef,
    Ending,
    Failure,
    Job,
    JobAction,
    KnownTask,
    NewJob,
    OnConflict,
    OnLate,
    Progress,
)
from standfast.model.memos import SLEEPING, Save, signal_memo, signal_reason
from standfast.model.records import Change, Decision, Fire, FireCause, Kind
from standfast.model.states import CLAIMED, ENDINGS, Move, Reason, State
from standfast.stores.contract import Store, cancel_job, change_job, count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import ClaimAnswer, ClaimRequest, JobFilter, Vitals, WorkerBeat, WorkerInfo
from standfast.stores.verb import Verb

STEPS = 80
QUEUES = ("a", "b")
SECONDS = (0, 0, 0, 1, 20)
RECORDS = [(kind, name) for kind in (Kind.SCHEDULE, Kind.WINDOW) for name in "abc"]
SIGNALS = ("a", "ab", "a_")
TOKENS = ("t1", "t2", "t3")
LEFT_OUT: tuple[dict[str, Any], ...] = (
    {},
    {"closed_tasks": ("mail.sort",)},
    {"closed_tasks": (TASK,)},
    {"unknown": (KnownTask("mail.sort", 1),)},
    {"unknown": (KnownTask(TASK, 1), KnownTask("mail.sort", 2))},
)
MOST_WORKERS = 4
MOST_PARTS = 100
"""In so many calls a store has looked at all of its jobs for what is to be forgotten."""

C = TypeVar("C", Claim, ClaimRef)
Ask = Callable[[Store], Verb[Any]]


class Agreeing:
    """Asked the same, a store answers and shows the same as the model."""

    @pytest.mark.parametrize("seed", range(6))
    def test_the_store_agrees_with_the_model(self, harness: Harness, seed: int) -> None:
        """After each of many random steps both stores gave the same answer and show the same."""
        model = Harness(MemoryBackend(harness.clock), harness.clock)
        history = History(model, (harness,), Random(seed))
        for _ in range(STEPS):
            history.step()
            history.compare()
        assert history.most_jobs > STEPS // 20


class History:
    """Asks the model and other stores the same, one random thing after the other. All live by one clock."""

    def __init__(self, model: Harness, others: Sequence[Harness], random: Random) -> None:
        self._model = model
        self._others = others
        self._random = random
        self._calls = 0
        self._saves = 0
        self._workers: list[str] = []
        self.most_jobs = 0
        self._hire()
        first = model.new_job(queue=QUEUES[0])
        self._ask(lambda verbs: verbs.enqueue([first]))

    def step(self) -> None:
        """Do something, and expect the same answers."""
        often = (self._enqueue, self._enqueue, self._claim, self._claim, self._finish, self._finish, self._change)
        clients = (self._cancel, self._requeue, self._reschedule, self._signal)
        seldom = (*clients, self._start, self._progress, self._save, self._beat, self._reconcile)
        rare = (self._bury, self._vanish, self._discard, self._supersede, self._pause, self._sweep, self._retire)
        self._random.choice([*often, *often, *seldom, *rare])()
        self._model.clock.advance(self._random.choice(SECONDS))
        which = self._filter()
        self._ask(lambda verbs: verbs.list_jobs(which))
        self._ask(lambda verbs: verbs.unsettled(None))
        self._ask(count_states)
        self._ask(lambda verbs: verbs.queue_ages())
        self._look_at_records()

    def compare(self) -> None:
        """Expect that all show the same."""
        shown, kept = self._model.snapshot(), self._model.kept()
        for other in self._others:
            assert other.snapshot() == shown
            assert other.kept() == kept
        self.most_jobs = max(self.most_jobs, len(shown.jobs))

    def _ask(self, ask: Ask) -> None:
        expected = _answer(self._model, ask)
        for other in self._others:
            assert _answer(other, ask) == expected

    # -- clients ---------------------------------------------------------------------------------------------

    def _enqueue(self) -> None:
        jobs = [self._new_job(OnConflict.REPLACE, *OnConflict) for _ in range(self._random.choice((1, 1, 3)))]
        self._ask(lambda verbs: verbs.enqueue(jobs))

    def _new_job(self, *on_conflict: OnConflict) -> NewJob:
        return self._model.new_job(
            task=self._random.choice((TASK, TASK, "mail.sort")),
            queue=self._random.choice(QUEUES),
            priority=self._random.choice((0, 0, 5)),
            delay=self._span(),
            max_attempts=self._random.choice((1, 5)),
            key=self._key(),
            on_conflict=self._random.choice(on_conflict),
            keep_key=self._span(),
            tags=self._tags(),
            metadata=self._random.choice(({}, {"n": "1"})),
            **self._limit(),
        )

    def _cancel(self) -> None:
        job = self._job()
        self._ask(lambda verbs: cancel_job(verbs, job.id))

    def _requeue(self) -> None:
        job = self._job()
        self._ask(lambda verbs: change_job(verbs, JobAction.RETRY, job.id))

    def _reschedule(self) -> None:
        job, run_at = self._job(), self._model.clock.now() + self._random.choice((-1, 1, 1)) * self._span()
        self._ask(lambda verbs: change_job(verbs, JobAction.RESCHEDULE, job.id, run_at))

    def _signal(self) -> None:
        job, name, token = self._job(), self._random.choice(SIGNALS), self._random.choice(TOKENS)
        self._ask(lambda verbs: verbs.signal(job.id, name, token, b"sent"))

    def _discard(self) -> None:
        job = self._job()
        self._ask(lambda verbs: change_job(verbs, JobAction.DISCARD, job.id))

    def _supersede(self) -> None:
        job, other = self._job(), self._new_job(*OnConflict)
        self._ask(lambda verbs: change_job(verbs, JobAction.DISCARD, job.id, instead=other))

    def _pause(self) -> None:
        queue = self._random.choice(QUEUES)
        self._ask(lambda verbs: verbs.pause(queue))
        self._enqueue()
        self._claim()
        self._ask(lambda verbs: verbs.resume(queue))

    # -- records ---------------------------------------------------------------------------------------------

    def _change(self) -> None:
        places = self._random.sample(RECORDS, self._random.choice((1, 1, 3)))
        changes = [self._new_change(kind, name) for kind, name in places]
        for _ in range(self._random.choice((1, 1, 1, 2))):  # now and then the answer was lost
            self._ask(lambda verbs: verbs.change_records(changes))

    def _new_change(self, kind: Kind, name: str) -> Change:
        record = self._model.record(name, kind)
        seen = 0 if record is None else record.version
        jobs = [self._new_job(OnConflict.REPLACE, OnConflict.RETURN) for _ in range(self._random.choice((0, 1, 2)))]
        return self._model.new_change(
            name,
            kind=kind,
            seen=self._random.choice((seen, seen, seen, max(0, seen - 1), 1)),
            body=self._random.choice((b"1", b"2", b"3", None)),
            due_at=self._random.choice((None, self._model.clock.now() + self._span())),
            fires=tuple(self._fire(name) for _ in range(self._random.choice((0, 1, 2)) * (kind is Kind.SCHEDULE))),
            jobs=tuple(jobs),
            cancels=tuple(self._job().id for _ in range(self._random.choice((0, 0, 1, 2)))),
            withdraws=(self._job().id,) if record and self._random.random() < 0.3 else (),
        )

    def _fire(self, schedule: str) -> Fire:
        return self._model.new_fire(
            schedule,
            planned=self._planned(),
            decision=self._random.choice(list(Decision)),
            cause=self._random.choice(list(FireCause)),
            count=self._random.choice((1, 5)),
            until=self._random.choice((None, self._planned())),
            job_id=self._random.choice((None, "job")),
            note=self._random.choice((None, "so")),
        )

    def _planned(self) -> datetime:
        """Return one of few times, so that fires meet."""
        now = self._model.clock.now()
        return now.replace(second=0) + timedelta(seconds=self._random.choice((-60, 0, 30)))

    def _look_at_records(self) -> None:
        kind, ahead, limit = self._random.choice(list(Kind)), self._span(), self._random.choice((1, 2, 100))
        names = self._random.choice((None, ("b", "a"), ("c",)))
        schedule, before = self._random.choice((None, "a", "c")), self._random.choice((None, self._planned()))
        self._ask(lambda verbs: verbs.due_records(kind, ahead, limit))
        self._ask(lambda verbs: verbs.records(kind, names))
        self._ask(lambda verbs: verbs.fires(schedule, limit, before))

    # -- workers ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        self._calls += 1
        queues = self._random.choice((None, QUEUES, QUEUES[::-1]))
        limit = 100 if queues is None else self._random.choice((1, 4))
        request = ClaimRequest(
            worker=self._random.choice(self._workers),
            call=self._calls,
            limit=limit,
            queues=queues,
            shares=self._random.choice((None, (1, 2))),
            # Of several places, which starved job gets which is left to the store.
            max_wait=None if limit == 4 else self._random.choice((None, timedelta(seconds=2))),
            look_ahead=timedelta(seconds=5),
            ahead_limit=self._random.choice((0, 2)),
            adopt=self._random.choice(((), (KNOWN,))),
            group=self._random.choice((0, 0, 0, 0, 0, 1, 1, 2, 4, OF_HOST + 1, OF_HOST + 2)),
            closed=self._random.choice(((), (), QUEUES[:1], QUEUES[1:], QUEUES)),
            **self._random.choice(LEFT_OUT),
        )
        self._ask(lambda verbs: verbs.claim(request))

    def _start(self) -> None:
        worker = self._random.choice(self._workers)
        started = [(ref, self._model.clock.now()) for _, ref in self._claims(State.HELD)]
        self._ask(lambda verbs: verbs.start(worker, started))

    def _progress(self) -> None:
        reports = [(ref, Progress(1, 3, self._random.choice((None, "so far")))) for _, ref in self._claims()]
        worker = self._random.choice(self._workers)
        self._ask(lambda verbs: verbs.progress(worker, reports))

    def _save(self) -> None:
        worker = self._random.choice(self._workers)
        saves = [self._new_save(ref) for _, ref in self._claims() for _ in range(2)]
        self._ask(lambda verbs: verbs.save(worker, saves))

    def _new_save(self, ref: ClaimRef) -> Save:
        """Return a save; now and then it comes after some that it should have come before."""
        self._saves += 1
        number = max(1, self._saves - self._random.choice((0, 0, 0, 5)))
        taken = signal_memo(self._random.choice(SIGNALS), self._random.choice(TOKENS))
        memos = {
            "cursor": str(number).encode(),
            f"step:{self._random.choice('abc')}": str(number).encode(),
            taken: b"",
        }
        return new_save(ref, number, dict(self._random.sample(sorted(memos.items()), self._random.choice((1, 2)))))

    def _finish(self) -> None:
        worker = self._random.choice(self._workers)
        endings = [self._ending(ref) for _, ref in self._claims()]
        self._ask(lambda verbs: verbs.finish(worker, endings))

    def _ending(self, ref: ClaimRef) -> Ending:
        move = self._random.choice(sorted(ENDINGS))
        says: dict[str, Any] = {}
        if move is Move.COMPLETE:
            says = {"result": b"1", "keep_result": self._random.choice((None, self._span()))}
        elif move in {Move.BLOCK, Move.CANCEL}:
            says = {"reason": self._random.choice((Reason.NO_WORKER, "so"))}
        elif move in {Move.RETRY, Move.DIE}:
            says = {"failure": Failure("ValueError", "oh no", "Traceback"), "delay": self._span()}
        elif move is Move.SNOOZE:
            reasons = (None, SLEEPING, *map(signal_reason, SIGNALS), *map(signal_reason, SIGNALS))
            says = {"reason": self._random.choice(reasons), "delay": self._span()}
        started_at = self._random.choice((None, self._model.clock.now()))
        return Ending(ref, move, started_at, log=self._random.choice((None, "said")), **says)

    # -- supervisors -----------------------------------------------------------------------------------------

    def _hire(self) -> None:
        number = len(self._workers) + self._calls
        name, queues = f"worker-{number}-{self._random.random()}", self._random.choice((None, QUEUES, QUEUES[::-1]))
        info = WorkerInfo(name, "s", "h", number, timedelta(seconds=LEASE), queues)
        self._ask(lambda verbs: verbs.register(info))
        self._workers.append(name)

    def _beat(self) -> None:
        calling = self._random.sample(self._workers, self._random.randint(1, len(self._workers)))
        polled_at = self._model.clock.now() - self._span()
        beats = [
            WorkerBeat(worker, self._calls - 1, frozenset(), self._random.choice((None, polled_at)), self._vitals())
            for worker in calling
        ]
        self._ask(lambda verbs: verbs.beat(beats))
        if len(self._workers) < MOST_WORKERS:
            self._hire()

    def _reconcile(self) -> None:
        held = frozenset(ref for _, ref in self._claims() if self._random.random() < 0.5)
        beat = WorkerBeat(self._random.choice(self._workers), self._calls, held)
        self._ask(lambda verbs: verbs.reconcile(beat))

    def _bury(self) -> None:
        worker = self._random.choice(self._workers)
        refs = [ref for owner, ref in self._claims() if owner == worker]
        started = frozenset(refs[: self._random.choice((0, 1, 2, 5))])
        death = Death(self._random.choice((DeathKind.STOPPED, DeathKind.CRASHED)), started, "signal 9")
        self._ask(lambda verbs: verbs.bury(worker, death))
        self._workers.remove(worker)
        self._hire()

    def _vanish(self) -> None:
        self._model.clock.advance(LEASE + 1)
        worker = self._random.choice(self._workers)
        self._ask(lambda verbs: verbs.condemn(frozenset({worker})))
        self._ask(lambda verbs: verbs.bury(worker, Death(DeathKind.VANISHED)))
        self._workers.remove(worker)
        self._hire()

    def _sweep(self) -> None:
        self._ask(lambda verbs: verbs.forget_results(2))

    def _retire(self) -> None:
        age = timedelta(seconds=200)
        self._forget(lambda verbs: verbs.forget_jobs(age, 100))
        self._forget(lambda verbs: verbs.forget_dead(3 * age, 100))
        self._forget(lambda verbs: verbs.forget_dead(12, 100))

    def _forget(self, ask: Callable[[Store], Verb[int]]) -> None:
        expected = self._model.run(ask(self._model.verbs))
        for other in self._others:
            forgotten, calls = other.run(ask(other.verbs)), 1
            while forgotten < expected and calls < MOST_PARTS:
                forgotten, calls = forgotten + other.run(ask(other.verbs)), calls + 1
            assert forgotten == expected

    # -- what to do it with ----------------------------------------------------------------------------------

    def _span(self) -> timedelta:
        return timedelta(seconds=self._random.choice(SECONDS))

    def _limit(self) -> dict[str, Any]:
        limit = {"start_within": timedelta(seconds=2), "on_late": self._random.choice(list(OnLate))}
        return self._random.choice(({}, limit))

    def _vitals(self) -> Vitals | None:
        return self._random.choice((None, Vitals(self._random.randrange(2**40), self._calls)))

    def _key(self) -> str | None:
        return self._random.choice((None, "j", "k", "k"))

    def _tags(self) -> tuple[str, ...]:
        return self._random.choice(((), ("x",), ("x", "y")))

    def _filter(self) -> JobFilter:
        ids = [job.id for job in self._model.snapshot().jobs]
        return JobFilter(
            states=tuple(self._random.sample(list(State), self._random.choice((0, 0, 1, 3)))),
            queue=self._random.choice((None, None, *QUEUES)),
            before=self._random.choice((None, *ids)),
            after=self._random.choice((None, None, *ids)),
            key=self._random.choice((None, None, "k")),
            tags=self._tags(),
            error=self._random.choice((None, None, "OH")),
            worker=self._random.choice((None, None, None, *self._workers)),
        )

    def _job(self) -> Job:
        return self._random.choice(self._model.snapshot().jobs)

    def _claims(self, *states: State) -> list[tuple[str, ClaimRef]]:
        jobs = self._model.snapshot().jobs
        return [(job.worker or "", ClaimRef(job.id, job.fence)) for job in jobs if job.state in (states or CLAIMED)]


def _answer(harness: Harness, ask: Ask) -> Any:
    """Return the answer in a form that leaves out what is a store's own affair: words, and the order of claims."""
    try:
        answer = harness.run(ask(harness.verbs))
    except StandfastError as error:
        return type(error)
    if isinstance(answer, ClaimAnswer):
        return {**asdict(answer), "jobs": list(map(asdict, _by_job(answer.jobs)))}  # a claim shows little of itself
    if isinstance(answer, tuple) and answer and isinstance(answer[0], ClaimRef):
        return _by_job(answer)
    return answer


def _by_job(claims: Iterable[C]) -> tuple[C, ...]:
    return tuple(sorted(claims, key=lambda claim: claim.job_id))
