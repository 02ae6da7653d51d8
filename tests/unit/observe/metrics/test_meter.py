"""A meter counts what happened once, tells as many names as it has room for, and its supervisor forgets nothing."""

import math
import threading
from itertools import pairwise

import pytest
from metered import ended, told

from figures_stage import bucket_of as fine_bucket_of
from standfast import Standfast, events
from standfast.errors import StoreUnavailableError
from standfast.model.clock import SystemClock
from standfast.model.job import Failure, JobAction, Verdict
from standfast.model.states import Move
from standfast.observe.figures.counts import CROWDED, DEAD, PAIRS, Named, Tally
from standfast.observe.metrics.cells import (
    BUCKETS,
    CALL_ENDS,
    JOB_ENDS,
    LAG,
    OUTCOME_OF,
    TOOK,
    WIDTH,
    bucket_of,
    read_cells,
)
from standfast.observe.metrics.meter import Meter, MeteredTally
from standfast.observe.metrics.totals import Totals
from standfast.stores.contract import change_job, count_states
from standfast.stores.url import open_backend
from standfast.testing.clock import FakeClock

OK, STALE = Verdict.ACCEPTED, Verdict.STALE


def count(meter, batch, verdicts):
    if not hasattr(meter, "test_tally"):
        meter.test_tally = MeteredTally(meter, SystemClock())
    meter.test_tally.count(batch, verdicts)


def send(to: str) -> None:
    """Serve as a task."""


@pytest.fixture
def meter(tmp_path):
    made = Meter(tmp_path / "one.counts")
    yield made
    made.close()


@pytest.fixture
def totals(meter):
    made = Totals()
    made.watch(meter.path)
    return made


def test_ends_are_counted_by_outcome_and_refused_ones_as_lost(meter, totals):
    moves = [Move.COMPLETE, Move.COMPLETE, Move.RETRY, Move.DIE, Move.CANCEL, Move.RELEASE, Move.SNOOZE, Move.BLOCK]
    count(meter, [ended(move=move) for move in (*moves, Move.DIE)], [*[OK] * len(moves), STALE])
    lines = told(totals)
    counts = {"completed": 2, "retried": 1, "dead": 1, "cancelled": 1, "released": 1, "snoozed": 1, "blocked": 1}
    for outcome, number in counts.items():
        assert f'standfast_attempts_total{{queue="mail",task="send",outcome="{outcome}"}} {number}' in lines
    assert 'standfast_claims_lost_total{queue="mail",task="send"} 1' in lines
    assert 'standfast_job_run_seconds_count{queue="mail",task="send"} 8' in lines
    assert 'standfast_job_run_seconds_sum{queue="mail",task="send"} 4' in lines


def test_figures_are_what_they_would_be_without(meter):
    """The same attempts, of every kind, make the same figures with metrics and without."""
    spans = [-1.0, 0.0, 1e-7, 0.0005, 0.001, 0.0017, 0.5, 1.0, 77.7, 5_000.0, 1e6]
    batch = [
        ended(task, "mail", move, seconds, late)
        for task in ("send", "pack")
        for move in OUTCOME_OF
        for seconds in spans
        for late in spans
    ]
    verdicts = [STALE if place % 7 == 0 else OK for place in range(len(batch))]
    clock = FakeClock()
    plain, metered = Tally(clock), MeteredTally(meter, clock)
    plain.count(batch, verdicts)
    metered.count(batch, verdicts)
    assert metered.take() == plain.take()


def test_figures_of_a_crowd_are_what_they_would_be_without(meter):
    """Though a batch has more pairs than there is room for, and each of them twice."""
    clock, named = FakeClock(), Named(tasks=frozenset({"send-7"}))
    plain, metered = Tally(clock, named), MeteredTally(meter, clock, named)
    batch = [ended(f"send-{number}") for _ in "ab" for number in range(CROWDED + 500)]
    for _ in range(3):
        plain.count(batch, [OK] * len(batch))
        metered.count(batch, [OK] * len(batch))
    [counts] = metered.take().values()
    assert sum(count[0] for count in counts.values()) == 3 * len(batch)
    assert [counts] == [*plain.take().values()]


@pytest.mark.parametrize("seconds", [0.0, 0.0009, 0.0011, 0.003, 0.5, 3.0, 65.0, 66.0, 4194.0, 4195.0, 1e9])
def test_a_span_is_in_the_first_bucket_whose_end_is_not_before_it(meter, totals, seconds):
    count(meter, [ended(seconds=seconds or 0.5, late=min(seconds, 1e8))], [OK])
    first = next(bucket for bucket, end in enumerate((*JOB_ENDS, math.inf)) if seconds <= end)
    row = totals.sums().rows["jobs", "mail", "send"]
    assert [place for place, count in enumerate(row[LAG : LAG + BUCKETS]) if count] == [first]
    assert bucket_of(seconds * 1000) == first == min((fine_bucket_of(seconds * 1000) + 3) // 4, BUCKETS - 1)


def test_jobs_that_are_due_since_the_year_1_fill_a_cell_and_no_more(meter, totals):
    """Who wants a job to be the first gives it such a time: their sum is cut, all else is counted on."""
    count(meter, [ended(late=2e11)] * 100, [OK] * 100)
    count(meter, [ended(late=2e11)], [OK])
    lines = told(totals)
    assert 'standfast_attempts_total{queue="mail",task="send",outcome="completed"} 101' in lines
    assert 'standfast_job_start_lag_seconds_count{queue="mail",task="send"} 101' in lines


def test_buckets_grow_fourfold_and_fit_into_a_row():
    assert all(after == 4 * before for before, after in (*pairwise(JOB_ENDS), *pairwise(CALL_ENDS)))
    assert (JOB_ENDS[0], CALL_ENDS[0]) == (0.001, 0.0001)
    assert max(LAG, TOOK) + BUCKETS <= WIDTH


def test_what_has_ended_is_kept_and_nothing_is_counted_twice(meter, totals, tmp_path):
    count(meter, [ended()], [OK])
    other = Meter(tmp_path / "two.counts")
    totals.watch(other.path)
    count(other, [ended(), ended(task="pack")], [OK, OK])
    before = told(totals)
    totals.fold(other.path)
    totals.fold(other.path)
    other.path.unlink()
    assert told(totals) == before
    assert 'standfast_attempts_total{queue="mail",task="send",outcome="completed"} 2' in before
    other.close()


def test_a_file_that_cannot_be_read_takes_nothing_back(meter, totals):
    """There may be no file descriptor left just then, or somebody has tidied up: what was told stays told."""
    count(meter, [ended()], [OK])
    before = told(totals)
    meter.path.unlink()
    assert told(totals) == before
    totals.fold(meter.path)
    assert told(totals) == before


def test_ten_thousand_names_are_few_series_and_their_sum_is_right(meter, totals, tmp_path):
    """Also when other processes have met other names first."""
    other = Meter(tmp_path / "two.counts")
    totals.watch(other.path)
    for number in range(10_000):
        count(meter, [ended(task=f"task-{number}", queue=f"queue-{number}")], [OK])
        count(other, [ended(task=f"task-{9_999 - number}")], [OK])
    lines = told(totals)
    assert len(lines) < 40 * PAIRS + 200
    completed = [line for line in lines if 'outcome="completed"' in line]
    assert len(completed) == PAIRS + 1
    assert sum(int(line.split()[-1]) for line in completed) == 20_000
    assert len(meter._pairs) <= 2 * PAIRS
    other.close()


def test_a_name_that_is_too_long_is_cut_and_an_odd_one_is_escaped(meter, totals):
    count(meter, [ended(task="x" * 500), ended(task="x" * 600), ended(task='a"b\\c\nd', queue="é")], [OK] * 3)
    lines = told(totals)
    assert f'standfast_attempts_total{{queue="mail",task="{"x" * 120}",outcome="completed"}} 2' in lines
    assert r'standfast_attempts_total{queue="é",task="a\"b\\c\nd",outcome="completed"} 1' in lines


def test_names_that_stand_for_others_are_counted_once_and_bounded_like_any(meter, totals, tmp_path):
    """A queue or a task may be called so: no count is lost, and no more pairs are told."""
    count(meter, [ended(task="_other_", queue="_other_")], [OK])
    for number in range(PAIRS + 50):
        count(meter, [ended(task=f"task-{number}", queue="_other_")], [OK])
    other = Meter(tmp_path / "two.counts")
    totals.watch(other.path)
    for number in range(PAIRS):
        count(other, [ended(task="_other_", queue=f"queue-{number}")], [OK])
    completed = [line for line in told(totals) if 'outcome="completed"' in line]
    assert sum(int(line.split()[-1]) for line in completed) == 1 + PAIRS + 50 + PAIRS
    assert len(completed) == PAIRS + 1
    other.close()


def test_tasks_are_told_before_they_have_run_unless_they_are_very_many(meter, totals, tmp_path):
    meter.know([("mail", "send")])
    assert 'standfast_attempts_total{queue="mail",task="send",outcome="dead"} 0' in told(totals)
    other = Meter(tmp_path / "many.counts")
    other.know([("mail", str(number)) for number in range(PAIRS)])
    assert len(read_cells(other.path).rows) == 2
    other.close()


def test_events_are_counted(meter, totals):
    bus = events.Events()
    bus.subscribe(meter.hear, meter.hears)
    bus.emit(events.WorkerCrashed("w", 1, "", 0, 0))
    bus.emit(events.WorkerLost("w", 1))
    bus.emit(events.LoopBlocked(1.5, "here", count=2))
    bus.emit(events.StoreAway("gone"))
    bus.emit(events.JobDied("j", "send", "mail", 1, 1, Failure("X", "")))  # which is counted by who ends it
    bus.emit(events.StoreBack(1.0))
    lines = told(totals)
    for line in (
        'standfast_worker_events_total{event="crashed"} 1',
        'standfast_worker_events_total{event="lost"} 1',
        'standfast_worker_events_total{event="hung"} 0',
        "standfast_loop_blocked_total 2",
        "standfast_loop_blocked_seconds_total 1.5",
        "standfast_store_outages_total 1",
    ):
        assert line in lines
    assert not any("attempts_total" in line and line.endswith(" 1") for line in lines)


def test_jobs_that_died_with_their_workers_are_counted_among_those_that_ended(meter, totals):
    tally = MeteredTally(meter, FakeClock())
    tally.count_dead("mail", "send")
    tally.count([ended(move=move) for move in (Move.COMPLETE, Move.DIE)], [OK, OK])
    tally.count_dead("mail", "send")
    assert 'standfast_attempts_total{queue="mail",task="send",outcome="dead"} 3' in told(totals)
    [counts] = tally.take().values()
    assert counts["mail", "send"][DEAD] == 3


@pytest.fixture
def app(meter, tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/jobs.db") as made:
        made.observe(meter.observe)
        yield made


def test_calls_of_the_store_are_counted_by_verb(totals, app):
    app.task(send, queue="mail").enqueue_many([{"to": each} for each in "abc"])
    app.call(count_states(app.verbs))
    app.call(app.verbs.finish("nobody", [ended().ending]))
    with pytest.raises(Exception, match="no job"):
        app.call(change_job(app.verbs, JobAction.DISCARD, "none"))
    lines = told(totals)
    for line in (
        'standfast_store_call_seconds_count{verb="enqueue"} 1',
        'standfast_jobs_enqueued_total{queue="mail",task="send"} 3',
        'standfast_store_errors_total{verb="change_jobs"} 1',
        'standfast_store_errors_total{verb="queues"} 0',
        'standfast_stale_writes_total{verb="finish"} 1',
    ):
        assert line in lines


async def test_a_job_that_is_not_stored_is_not_enqueued(totals, app):
    task = app.task(send, queue="mail").options(key="one")
    await task.aenqueue("a")
    await task.aenqueue("b")
    assert 'standfast_jobs_enqueued_total{queue="mail",task="send"} 1' in told(totals)
    assert 'standfast_store_call_seconds_count{verb="enqueue"} 2' in told(totals)


def test_a_store_that_is_open_already_is_observed_too(meter, totals, tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/other.db") as app:
        app.call(count_states(app.verbs))
        app.observe(meter.observe)
        app.call(count_states(app.verbs))
    assert 'standfast_store_call_seconds_count{verb="queues"} 1' in told(totals)


def test_threads_lose_no_count(meter, totals, app):
    backend = open_backend(app.settings)
    backend.observe(meter.observe)
    threads = [
        threading.Thread(target=lambda: [meter.called("beat", 0.001) for _ in range(2_000)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backend.close()
    assert 'standfast_store_call_seconds_count{verb="beat"} 16000' in told(totals)


def test_a_store_that_is_observed_still_has_locks_of_its_server(meter):
    """Counting must not hide what a store can do beside verbs."""
    app = Standfast("postgresql://nobody@127.0.0.1:1/none")
    app.observe(meter.observe)
    with pytest.raises(StoreUnavailableError), app.lock("import", session=True, timeout=0.1):
        pass
