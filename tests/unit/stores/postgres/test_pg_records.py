"""Records while others change them: of two who have seen one version one is first, and none wait in a circle."""

from contextlib import closing
from datetime import timedelta

import pytest
from pg_underway import LONG

from standfast.errors import JobStateError
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Ending, OnConflict
from standfast.model.records import Kind
from standfast.model.states import Move, Reason, State
from standfast.stores.contract import cancel_job
from standfast.stores.postgres import records
from standfast.stores.values import ClaimRequest, Turn, Vitals, WorkerBeat
from standfast.stores.verb import Last

SECOND = timedelta(seconds=1)


def changing(crossing, *changes):
    return crossing.verbs.change_records(changes)


class TestTwoAtOnce:
    """The second waits for the first, and then compares with what that has written."""

    @pytest.mark.parametrize("seen", [0, 1])
    def test_the_second_is_refused(self, crossing, seen):
        if seen:
            crossing.change("a")
        jobs = [crossing.new_job() for _ in range(2)]
        first, second = (
            crossing.new_change("a", seen=seen, jobs=(job,), fires=(crossing.new_fire(job_id=job.id),))
            for job in jobs
        )
        with crossing.underway(changing(crossing, first)) as commit:
            verb = changing(crossing, second)
            answer = crossing.later(verb)
            crossing.wait_until_it_waits()
            assert commit() == (True,)
            assert answer.result(LONG) == (False,)
        assert (verb.wakes, verb.tells) == (False, False)
        assert crossing.record("a").version == seen + 1
        assert [fire.job_id for fire in crossing.kept().fires] == [jobs[0].id]
        assert [job.id for job in crossing.snapshot().jobs] == [jobs[0].id]

    @pytest.mark.parametrize("seen", [0, 1])
    def test_the_second_is_made_if_the_first_is_undone(self, crossing, seen):
        if seen:
            crossing.change("a")
        first, second = (crossing.new_change("a", seen=seen, jobs=(crossing.new_job(),)) for _ in range(2))
        with crossing.user_connection() as user:
            assert crossing.backend.run_in(changing(crossing, first), user) == (True,)
            answer = crossing.later(changing(crossing, second))
            crossing.wait_until_it_waits()
            user.rollback()
            assert answer.result(LONG) == (True,)
        assert [job.id for job in crossing.snapshot().jobs] == [second.jobs[0].id]

    @pytest.mark.parametrize("seen", [0, 1])
    def test_the_same_wish_twice(self, crossing, seen):
        """A call that was given up may still be under way when it is repeated."""
        if seen:
            crossing.change("a")
        change = crossing.new_change("a", seen=seen, jobs=(crossing.new_job(),), fires=(crossing.new_fire(),))
        with crossing.underway(changing(crossing, change)) as commit:
            answer = crossing.later(changing(crossing, change))
            crossing.wait_until_it_waits()
            assert commit() == (True,)
            assert answer.result(LONG) == (True,)
        assert crossing.record("a").version == seen + 1
        assert [job.id for job in crossing.snapshot().jobs] == [change.jobs[0].id]
        assert len(crossing.kept().fires) == 1

    def test_a_change_that_meets_a_forgetting(self, crossing):
        crossing.change("a", fires=(crossing.new_fire(),))
        change = crossing.new_change("a", seen=1, fires=(crossing.new_fire(),))
        with crossing.underway(changing(crossing, crossing.new_change("a", seen=1, body=None))) as commit:
            answer = crossing.later(changing(crossing, change))
            crossing.wait_until_it_waits()
            assert commit() == (True,)
            assert answer.result(LONG) == (False,)
        assert crossing.kept() == type(crossing.kept())((), ())

    def test_a_record_is_made_anew_while_it_is_forgotten(self, crossing):
        crossing.change("a", fires=(crossing.new_fire(),))
        with crossing.underway(changing(crossing, crossing.new_change("a", seen=1, body=None))) as commit:
            answer = crossing.later(changing(crossing, crossing.new_change("a", body=b"new")))
            crossing.wait_until_it_waits()
            commit()
            assert answer.result(LONG) == (True,)
        assert (crossing.record("a").version, crossing.record("a").body) == (1, b"new")
        assert crossing.kept().fires == ()

    def test_a_forgetting_that_meets_a_change(self, crossing):
        """It takes along nothing that the change has brought."""
        crossing.change("a")
        change = crossing.new_change("a", seen=1, fires=(crossing.new_fire(),))
        with crossing.underway(changing(crossing, change)) as commit:
            answer = crossing.later(changing(crossing, crossing.new_change("a", seen=1, body=None)))
            crossing.wait_until_it_waits()
            assert commit() == (True,)
            assert answer.result(LONG) == (False,)
        assert (crossing.record("a").version, len(crossing.kept().fires)) == (2, 1)

    @pytest.mark.parametrize("seen", [0, 1])
    def test_they_do_not_wait_for_each_other(self, crossing, seen):
        """Records are locked, and made, in one order, whatever the order of the changes."""
        if seen:
            crossing.run(changing(crossing, *map(crossing.new_change, "amz")))
        one, other = ([crossing.new_change(name, seen=seen) for name in names] for names in ("amz", "zma"))
        with crossing.underway(changing(crossing, crossing.new_change("m", seen=seen))) as commit:
            answers = [crossing.later(changing(crossing, *changes)) for changes in (one, other)]
            crossing.wait_until_it_waits(2)
            commit()
            made = [answer.result(LONG) for answer in answers]
        assert sorted(map(sum, made)) == [0, 2]
        assert {record.version for record in crossing.kept().records} == {seen + 1}


class TestWhatComesOfThem:
    """Jobs that a change ends or brings are locked in the order in which everybody does."""

    def test_claims_are_cancelled_in_the_order_of_their_ids(self, crossing):
        """Whoever finishes several of them meanwhile waits, and is waited for, in no circle."""
        first, second = (crossing.place(State.RUNNING, queue=queue) for queue in "ab")
        crossing.change("x")
        change = crossing.new_change("x", seen=1, cancels=(second.job_id, first.job_id))
        ends = [Ending(placed.ref, Move.COMPLETE) for placed in (first, second)]
        with crossing.locked(second.job_id):
            cancelled = crossing.later(changing(crossing, change))
            crossing.wait_until_it_waits()
            finished = crossing.later(crossing.verbs.finish(first.worker, ends))
            crossing.wait_until_it_waits(2)
        assert cancelled.result(LONG) == (True,)
        finished.result(LONG)
        assert crossing.job(first.job_id).cancel_requested
        assert crossing.job(second.job_id).cancel_requested

    def test_waiting_jobs_are_cancelled_in_the_order_of_their_ids(self, crossing):
        """Two who cancel the same ones wait in no circle."""
        jobs = [crossing.enqueue(delay=60 * SECOND) for _ in range(3)]
        crossing.run(changing(crossing, *map(crossing.new_change, "ab")))
        changes = [
            crossing.new_change(name, seen=1, cancels=tuple(order))
            for name, order in (("a", jobs), ("b", jobs[::-1]))
        ]
        with crossing.underway(cancel_job(crossing.verbs, jobs[1])) as commit:
            answers = [crossing.later(changing(crossing, change)) for change in changes]
            crossing.wait_until_it_waits(2)
            commit()
            assert [answer.result(LONG) for answer in answers] == [(True,), (True,)]
        assert {crossing.job(job_id).state for job_id in jobs} == {State.CANCELLED}

    def test_a_key_is_locked_before_the_job_that_has_it(self, crossing):
        """A change that cancels a job and takes its key meets an enqueue that does so too."""
        placed = crossing.place(State.RUNNING, key="k")
        mine, others = (crossing.new_job(key="k", on_conflict=OnConflict.REPLACE) for _ in range(2))
        change = crossing.new_change("a", cancels=(placed.job_id,), jobs=(mine,))
        with crossing.locked(placed.job_id):
            changed = crossing.later(changing(crossing, change))
            crossing.wait_until_it_waits()
            enqueued = crossing.later(crossing.verbs.enqueue([others]))
            crossing.wait_until_it_waits(2)
        assert (changed.result(LONG), enqueued.result(LONG)) == ((True,), {})
        assert crossing.job(placed.job_id).cancel_requested
        assert (crossing.job(mine.id).state, crossing.job(mine.id).reason) == (State.CANCELLED, Reason.REPLACED)
        assert crossing.job(others.id).after == placed.job_id

    def test_a_withdrawal_that_meets_a_claim(self, crossing):
        """It waits until that is decided. Who has the job keeps it, and nothing comes of the change."""
        worker, job_id, other = crossing.register(), crossing.enqueue(), crossing.enqueue(delay=60 * SECOND)
        crossing.change("a")
        before = crossing.kept()
        change = crossing.new_change("a", seen=1, cancels=(other,), withdraws=(job_id,), jobs=(crossing.new_job(),))
        with crossing.underway(crossing.verbs.claim(ClaimRequest(worker, 1, 1))) as commit:
            answer = crossing.later(changing(crossing, change))
            crossing.wait_until_it_waits()
            commit()
            with pytest.raises(JobStateError, match="a worker has it"):
                answer.result(LONG)
        assert crossing.kept() == before
        assert {job.id: job.state for job in crossing.snapshot().jobs} == {
            job_id: State.HELD,
            other: State.SCHEDULED,
        }

    def test_a_withdrawal_is_one_with_its_change(self, crossing):
        """A claim passes over a job that is about to be withdrawn."""
        worker, job_id = crossing.register(), crossing.enqueue()
        with crossing.underway(changing(crossing, crossing.new_change("a", withdraws=(job_id,)))) as commit:
            assert crossing.claim(worker) == ()
            assert commit() == (True,)
        assert crossing.job(job_id).state is State.CANCELLED


class TestFires:
    def test_old_ones_go_now_and_then(self, crossing, monkeypatch):
        """Not with every change, as that has to look for them; but a schedule never has many more than are kept."""
        monkeypatch.setattr(records, "FIRES_KEPT", 10)
        start, most = crossing.clock.now(), 0
        crossing.change(
            "other", fires=tuple(crossing.new_fire("other", planned=start - n * SECOND) for n in range(20))
        )
        for seen in range(3 * records.FORGET_EVERY):
            crossing.change("a", seen=seen, fires=(crossing.new_fire(planned=start + seen * SECOND),))
            most = max(most, len(crossing.run(crossing.verbs.fires("a", 1000))))
        assert 10 < most < 10 + 2 * records.FORGET_EVERY
        latest = [fire.planned for fire in crossing.run(crossing.verbs.fires("a", 10))]
        assert latest == [start + (seen - n) * SECOND for n in range(10)]
        assert len(crossing.run(crossing.verbs.fires("other", 1000))) == 20

    def test_a_change_that_brings_many_takes_the_old_along(self, crossing, monkeypatch):
        monkeypatch.setattr(records, "FIRES_KEPT", 10)
        fires = [crossing.new_fire(planned=crossing.clock.now() + n * SECOND) for n in range(100)]
        crossing.change("a", fires=tuple(fires))
        assert [fire.planned for fire in crossing.kept().fires] == [fire.planned for fire in fires[:-11:-1]]


class TestBeats:
    @pytest.mark.parametrize("polled", [False, True])
    def test_a_beat_is_one_message(self, crossing, polled):
        """Whatever it tells, and however much it learns."""
        worker = crossing.register()
        crossing.change("a", due_at=crossing.clock.now())
        verb = crossing.verbs.beat([WorkerBeat(worker, polled_at=crossing.clock.now() if polled else None)])
        with closing(verb.steps):
            assert isinstance(next(verb.steps), Last)
        answer = crossing.beat(worker, polled_at=crossing.clock.now() if polled else None)
        assert answer.record_due_at == crossing.clock.now()
        assert answer.turns == {worker: Turn(0, 1, crossing.clock.now() if polled else None)}

    def test_what_the_dead_told_is_forgotten(self, crossing):
        """With the next registration, whoever buried them, and however."""
        workers = [crossing.register() for _ in range(2)]
        for worker in workers:
            crossing.beat(worker, polled_at=crossing.clock.now(), vitals=Vitals())
        crossing.run(crossing.verbs.bury(workers[0], Death(DeathKind.STOPPED)))
        crossing.register()
        for table in ("poll", "vitals"):
            told = crossing.own.execute(crossing.named(f"SELECT worker FROM {{}}.{table}")).fetchall()
            assert told == [(workers[1],)]

    def test_a_registration_waits_for_no_beat(self, crossing):
        worker = crossing.register()
        news = {"polled_at": crossing.clock.now(), "vitals": Vitals()}
        crossing.beat(worker, **news)
        with crossing.underway(crossing.verbs.beat([WorkerBeat(worker, **news)])):
            other = crossing.register()
        assert crossing.beat(other).turns[other].of == 2


def test_records_of_a_kind_are_due_by_themselves(crossing):
    """However many of another kind are due before them."""
    for number in range(20):
        crossing.change(f"w{number}", kind=Kind.WINDOW, due_at=crossing.clock.now() - SECOND)
    crossing.change("s", due_at=crossing.clock.now())
    due = crossing.run(crossing.verbs.due_records(Kind.SCHEDULE, timedelta(), 3))
    assert [record.name for record in due.records] == ["s"]
