"""The narrator: what is told at each level, what is counted, and that nothing is put into words in vain."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from standfast import events
from standfast.model.job import Failure
from standfast.observe.logs.levels import Level
from standfast.observe.logs.narrator import EVERY, FirstCompletion, Folded, Narrator, Summary
from standfast.testing.clock import FakeClock

AT = datetime(2030, 1, 2, tzinfo=UTC)


class Listener:
    """Stands where lines are made, and remembers what was to be told."""

    def __init__(self):
        self.told = []

    def tell(self, event, level):
        self.told.append((level, event))

    def kinds(self):
        return Counter(type(event) for _, event in self.told)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def heard():
    return Listener()


class Subscribed:
    """A narrator that hears events as it does in a process: those that it wants."""

    def __init__(self, narrator):
        emitted = events.Events()
        emitted.subscribe(narrator, narrator.wants)
        self.emit, self.heard, self.tick, self.finish = emitted.emit, emitted.heard, narrator.tick, narrator.finish

    def __call__(self, event):
        self.emit(event)


@pytest.fixture
def narrator_at(heard, clock):
    return lambda level: Subscribed(Narrator(level, heard.tell, clock))


def started(number=1):
    return events.JobStarted(f"job-{number}", "send", "mail", 1, 5, AT, timedelta())


def completed(number=1, task="send"):
    return events.JobCompleted(f"job-{number}", task, "mail", 1, 5, timedelta(milliseconds=3))


def died(number=1):
    return events.JobDied(f"job-{number}", "send", "mail", 5, 5, Failure("ConnectionError", "no"))


def test_debug_tells_everything_one_by_one(narrator_at, heard, clock):
    narrator = narrator_at(Level.DEBUG)
    for number in range(50):
        narrator(started(number))
        narrator(completed(number))
        narrator(died(number))
    clock.advance(EVERY)
    narrator.tick()
    narrator.finish()
    assert heard.kinds() == {events.JobStarted: 50, events.JobCompleted: 50, events.JobDied: 50}


def test_info_sums_up_what_goes_well(narrator_at, heard, clock):
    narrator = narrator_at(Level.INFO)
    for number in range(50):
        narrator(started(number))
        narrator(completed(number))
    narrator(completed(51, "report"))
    narrator(completed(52, "report"))
    assert [event for _, event in heard.told] == [
        FirstCompletion(completed(0), hint=True),
        FirstCompletion(completed(51, "report"), hint=False),
    ]
    clock.advance(EVERY - 1)
    narrator.tick()
    assert len(heard.told) == 2
    clock.advance(1)
    narrator.tick()
    assert heard.told[2:] == [(Level.INFO, Summary({"send": 49, "report": 1}, 0, EVERY))]
    clock.advance(EVERY)
    narrator.tick()
    narrator.finish()
    assert len(heard.told) == 3


def test_a_summary_counts_the_failures_beside_it(narrator_at, heard, clock):
    narrator = narrator_at(Level.INFO)
    for number in range(20):
        narrator(completed(number))
        narrator(died(number))
    narrator.finish()
    (summary,) = [event for _, event in heard.told if isinstance(event, Summary)]
    assert (summary.completed, summary.failed) == (19, 20)
    narrator(died())
    clock.advance(EVERY)
    narrator.tick()
    narrator(completed())
    narrator.finish()
    assert heard.told[-1][1].failed == 0, "a failure of an earlier window is not of this one"


def test_folded_lines_have_the_level_of_what_they_fold(narrator_at, heard):
    narrator = narrator_at(Level.WARNING)
    for number in range(10):
        narrator(died(number))
    narrator.finish()
    assert heard.kinds() == {events.JobDied: 3, Folded: 1}
    assert {level for level, _ in heard.told} == {Level.ERROR}


@pytest.mark.parametrize("level", [Level.WARNING, Level.ERROR])
def test_above_info_nothing_is_said_of_what_goes_well(narrator_at, heard, clock, level):
    narrator = narrator_at(level)
    for number in range(10):
        narrator(started(number))
        narrator(completed(number))
    narrator(events.WorkerStopping("w", 1, 30.0))
    clock.advance(EVERY)
    narrator.tick()
    narrator.finish()
    assert heard.told == []


def test_crashes_and_other_news_of_workers_are_never_folded(narrator_at, heard):
    narrator = narrator_at(Level.INFO)
    for _ in range(20):
        narrator(events.WorkerCrashed("w", 1, "killed", 1, 2))
    assert heard.kinds() == {events.WorkerCrashed: 20}


@pytest.mark.parametrize(
    ("level", "wanted"),
    [
        (Level.DEBUG, {events.JobStarted, events.JobCompleted, events.JobDied}),
        (Level.INFO, {events.JobCompleted, events.JobDied}),
        (Level.WARNING, {events.JobDied}),
    ],
)
def test_what_nobody_wants_need_not_be_said(narrator_at, level, wanted):
    """A worker asks before it makes an event of every start."""
    narrator = narrator_at(level)
    kinds = events.JobStarted, events.JobCompleted, events.JobDied
    assert {kind for kind in kinds if narrator.heard(kind)} == wanted


def test_who_subscribes_later_hears_what_others_did_not_want():
    late = events.Events()
    late.subscribe(lambda _: None, lambda kind: kind is events.JobDied)
    assert not late.heard(events.JobStarted)
    heard = []
    late.subscribe(heard.append)
    late.emit(started())
    assert heard == [started()]


@pytest.mark.parametrize(
    ("level", "told"), [(Level.INFO, ["claiming", "waiting"]), (Level.DEBUG, list(events.StopStage))]
)
def test_of_the_stages_of_a_stop_those_are_told_that_take_a_while(narrator_at, heard, level, told):
    """The end is told besides; who looks for more has the level DEBUG."""
    narrator = narrator_at(level)
    for stage in events.StopStage:
        narrator(events.HostStopping("w", 1, stage, 1))
    assert [event.stage for _, event in heard.told] == told
