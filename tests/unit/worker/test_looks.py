"""When a worker looks, how many jobs it takes ahead of their time, and what it leaves to others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from standfast.model.job import Claim, ClaimRef
from standfast.settings import Settings
from standfast.stores.values import ClaimAnswer, ClaimRequest, Turn
from standfast.worker.claimer import LEAD, ON_ITS_WAY, SHORTEST_NAP, PlannedPoll, PollPlanner, PollResult
from standfast.worker.control import Slots
from standfast.worker.lease import TOLERANCE, PollTurns
from standfast.worker.timers import Load

SETTINGS = Settings(url="memory://", concurrency=20, look_ahead=10.0, safety_poll=2.0, lease=15.0)
ROUND = datetime(2026, 1, 1, tzinfo=UTC)
"""A time at which a round of turns begins."""

CALLED, BY_TURN = PlannedPoll
NOTHING = PollResult(filled=False)


def at(seconds: float) -> datetime:
    return ROUND + timedelta(seconds=seconds)


JOB = Claim(ClaimRef("job", 1), "task", 1, b"", "default", 0, ROUND, attempt=0, crashes=0, max_attempts=5)


class Idle:
    """A completer without anything to do."""

    crowded = False


class Desk:
    """The looks of one worker among three, whose next turn comes 4 s after the beginning."""

    def __init__(self, settings: Settings = SETTINGS, of: int = 3) -> None:
        self.ahead = self.due = self.soon = 0
        load = Load(_Clock(), Slots(settings.concurrency), self, Idle(), settings)  # type: ignore[arg-type]
        self.looks = PollPlanner(settings, load, PollTurns(settings.safety_poll, settings.beat_every))
        self.looks.take_turns(Turn(of - 1, of, at(0)), at(0), at(0), at_once=False)
        look = self.looks.begin(at(0.1))
        if look is not None:
            self.heed(look, 0.1)

    def due_within(self, _seconds: float) -> int:
        """Return how many claims are held that become due soon."""
        return self.soon

    def heed(self, look: PlannedPoll, now: float, next_due: float | None = None, **told: Any) -> PollResult:
        """Let a look be answered: nothing was to be had, unless the test tells otherwise."""
        ahead = told.get("ahead", 0)
        request = ClaimRequest("w", 1, told.get("limit", 20), ahead_limit=told.get("ahead_limit", 500))
        due = request.limit if told.get("filled") else 0
        job = replace(JOB, ref=ClaimRef("job", told.get("fence", 1)))
        answer = ClaimAnswer((job,) * (due + ahead), at(now), None if next_due is None else at(next_due))
        return self.looks.heed(look, request, answer, due=due, crowded=told.get("crowded", False))

    def ring(self, now: float, next_due: float | None = None, **told: Any) -> None:
        """Let the bell ring, and the look for that be answered."""
        self.looks.call(rung=True)
        look = self.looks.begin(at(now))
        assert look is CALLED
        self.heed(look, now, next_due, **told)

    def beat(self, told_at: float, of: int) -> None:
        """Let a beat tell again who is there."""
        self.looks.take_turns(Turn(of - 1, of, at(0)), at(told_at), at(told_at), at_once=False)

    def next_look(self, since: float) -> float:
        """Return when the next look is made if nobody calls."""
        return since + self.looks.rest_for(at(since))


class _Clock:
    @staticmethod
    def boot() -> float:
        return 0.0


def test_who_is_called_looks_and_who_is_not_waits_for_its_turn() -> None:
    desk = Desk()
    assert desk.looks.begin(at(1)) is None
    desk.looks.call()
    assert desk.looks.begin(at(1)) is CALLED
    assert desk.looks.begin(at(1)) is None
    assert desk.next_look(1) == pytest.approx(4)
    assert desk.looks.begin(at(4)) is BY_TURN


def test_who_is_called_takes_what_it_could_start_at_once_and_whose_turn_it_is_all() -> None:
    desk = Desk()
    assert desk.looks.wanted_ahead(CALLED) == 20
    assert desk.looks.wanted_ahead(BY_TURN) == 200
    desk.ahead = 15
    assert desk.looks.wanted_ahead(CALLED) == 5
    assert desk.looks.wanted_ahead(BY_TURN) == 185


def test_who_is_alone_takes_all_whenever_it_looks() -> None:
    desk = Desk(of=1)
    assert desk.looks.wanted_ahead(CALLED) == 200


def test_jobs_beyond_reach_are_the_business_of_those_whose_turn_it_will_be() -> None:
    desk = Desk()
    assert desk.heed(CALLED, 1.0, next_due=60) == NOTHING
    assert desk.next_look(1) == pytest.approx(4)


@pytest.mark.parametrize("look_ahead", [0.0, 1.0, 2.1])
def test_where_turns_come_too_late_for_it_one_looks_for_the_next_job_oneself(look_ahead: float) -> None:
    desk = Desk(replace(SETTINGS, look_ahead=look_ahead))
    desk.heed(CALLED, 1.0, next_due=3.9)
    assert desk.next_look(1) == pytest.approx(3.9 - look_ahead)


def test_what_was_left_within_reach_is_for_the_next_turn_of_anybody() -> None:
    """Somebody looks 2 s after the beginning."""
    desk = Desk()
    assert desk.heed(CALLED, 1.0, next_due=9) == NOTHING
    assert desk.next_look(1) == pytest.approx(4)


@pytest.mark.parametrize(("of", "sure"), [(3, True), (4, True), (5, False), (20, False)])
def test_what_was_left_to_others_is_looked_for_by_those_with_the_next_turns(of: int, sure: bool) -> None:
    """This one has the last turn of a round. One of many need not look: so many others do."""
    desk = Desk(of=of)
    own = 2.0 * (of - 1)
    desk.heed(CALLED, 0.2, next_due=2.5)
    assert desk.next_look(0.2) == pytest.approx(2.5 - LEAD if sure else own)
    desk.heed(CALLED, own - 3.8, next_due=own - 1)  # only one has a turn before it
    assert desk.next_look(own - 3.8) == pytest.approx(own - 1 - LEAD)


MANY = 8
OWN = 2.0 * (MANY - 1)
"""The next turn of the last of them."""


def test_after_a_ring_without_news_one_looks_to_be_sure_until_a_beat_tells_who_is_there() -> None:
    """It may have told that somebody has gone, on whose turn the others count."""
    desk = Desk(of=MANY)
    desk.ring(0.3, next_due=3)
    assert desk.next_look(0.3) == pytest.approx(3 - LEAD)
    desk.beat(0.25, of=MANY)  # sent before that one went
    desk.heed(CALLED, 0.4, next_due=3)
    assert desk.next_look(0.4) == pytest.approx(3 - LEAD)
    desk.beat(0.5, of=MANY)
    assert desk.next_look(0.5) == pytest.approx(OWN)
    desk.heed(CALLED, 0.6, next_due=3)
    assert desk.next_look(0.6) == pytest.approx(OWN)


def test_if_somebody_has_gone_what_was_left_is_looked_for_though_a_beat_has_told() -> None:
    """The turn that was waited for may be over by then."""
    desk = Desk(of=MANY)
    desk.ring(0.3, next_due=3)
    desk.beat(0.5, of=MANY - 1)
    assert desk.next_look(0.5) == pytest.approx(3 - LEAD)


def test_a_ring_that_brought_new_jobs_has_told_of_them() -> None:
    desk = Desk(of=MANY)
    desk.ring(0.3, next_due=3, ahead=20)
    assert desk.next_look(0.3) == pytest.approx(OWN)


def test_jobs_that_somebody_had_or_that_were_left_before_are_no_news() -> None:
    desk = Desk(of=MANY)
    desk.ring(0.3, next_due=3, ahead=20, fence=2)
    assert desk.next_look(0.3) == pytest.approx(3 - LEAD)
    desk = Desk(of=MANY)
    desk.heed(CALLED, 0.2, next_due=2.9)
    desk.ring(0.3, next_due=3, ahead=20)
    assert desk.next_look(0.3) == pytest.approx(3 - LEAD)


def test_a_ring_during_a_look_is_explained_by_the_next_one() -> None:
    desk = Desk(of=MANY)
    desk.looks.call(rung=True)
    assert desk.looks.begin(at(0.3)) is CALLED
    desk.looks.call(rung=True)
    desk.heed(CALLED, 0.3, next_due=3, ahead=20)
    assert desk.next_look(0.3) == pytest.approx(OWN)
    assert desk.looks.begin(at(0.31)) is CALLED
    desk.heed(CALLED, 0.31, next_due=3)
    assert desk.next_look(0.31) == pytest.approx(3 - LEAD)


def test_a_ring_for_which_there_was_no_look_has_brought_no_news() -> None:
    desk = Desk(of=MANY)
    desk.looks.call(rung=True)
    assert desk.looks.begin(at(0.3)) is CALLED
    desk.looks.put_off(CALLED, at(0.3))
    desk.heed(CALLED, 0.4, next_due=3)
    assert desk.next_look(0.4) == pytest.approx(3 - LEAD)


def test_without_a_bell_all_look_to_be_sure() -> None:
    desk = Desk(replace(SETTINGS, safety_poll=10.0, look_ahead=30.0), of=MANY)
    desk.heed(CALLED, 0.3, next_due=15)
    assert desk.next_look(0.3) == pytest.approx(15 - LEAD)


def test_what_is_due_before_anybody_looks_is_looked_for_again() -> None:
    """Shortly before its time, and then at its time."""
    desk = Desk()
    assert desk.heed(CALLED, 1.0, next_due=1.9) == NOTHING
    assert desk.next_look(1) == pytest.approx(1.9 - LEAD)
    assert desk.looks.begin(at(1.9 - LEAD)) is CALLED
    desk.heed(CALLED, 1.9 - LEAD, next_due=1.9)
    assert desk.next_look(1.5) == pytest.approx(1.9)


def test_what_is_urgent_is_taken_at_once_where_what_is_held_is_not() -> None:
    """Of twenty held jobs none is due soon: there is room for twenty that are."""
    desk = Desk()
    desk.ahead = 20
    desk.heed(CALLED, 1.0, next_due=1.9, ahead_limit=5, ahead=4)  # somebody else is about to take that one
    assert desk.next_look(1) == pytest.approx(1.9 - LEAD)
    desk.heed(CALLED, 1.0, next_due=1.9, ahead_limit=5, ahead=5)
    assert desk.next_look(1) == 1
    assert desk.looks.begin(at(1)) is CALLED
    assert desk.looks.wanted_ahead(CALLED) == 20
    desk.soon = 20
    desk.heed(CALLED, 1.0, next_due=1.9, ahead_limit=0)
    assert desk.next_look(1) == pytest.approx(1.9 - LEAD)


def test_whose_turn_leaves_something_urgent_rings() -> None:
    """Others may have a place. What is not urgent is seen by the next turn; what is due is urgent."""
    assert Desk().heed(BY_TURN, 4.0, next_due=5.9).ring
    assert Desk().heed(BY_TURN, 4.0, next_due=3.0).ring
    assert not Desk().heed(BY_TURN, 4.0, next_due=7).ring
    assert not Desk().heed(CALLED, 4.0, next_due=5.9).ring
    assert not Desk().heed(BY_TURN, 4.0, next_due=3.0, filled=True).ring
    assert not Desk(of=1).heed(BY_TURN, 4.0, next_due=5.9).ring


def test_due_jobs_that_were_left_are_asked_for_when_a_place_is_free() -> None:
    desk = Desk()
    desk.heed(CALLED, 1.0, next_due=0.5, filled=True)
    assert desk.looks.begin(at(1)) is CALLED
    desk.looks.put_off(CALLED, at(1))
    assert desk.looks.begin(at(1.5)) is None
    assert desk.looks.place_free()
    assert desk.looks.begin(at(1.5)) is CALLED


def test_a_due_job_that_somebody_else_is_about_to_take_is_asked_for_again_soon() -> None:
    desk = Desk()
    desk.heed(CALLED, 1.0, next_due=0.5)
    assert desk.next_look(1) == pytest.approx(1 + SHORTEST_NAP)


def test_the_end_of_a_job_is_no_reason_to_look_where_nothing_was_left() -> None:
    desk = Desk()
    desk.heed(CALLED, 1.0, next_due=9)
    assert not desk.looks.place_free()


def test_who_could_take_nothing_in_its_turn_looks_when_a_place_is_free() -> None:
    desk = Desk()
    desk.heed(BY_TURN, 4.0, limit=0, ahead_limit=0)
    assert desk.looks.place_free()


def test_what_was_given_back_is_out_of_reach_until_its_time() -> None:
    """The store would give it again, and it would go back again."""
    desk = Desk()
    assert desk.looks.reach(at(1)) == timedelta(seconds=10)
    desk.looks.gave_back(at(3))
    assert desk.looks.reach(at(1)) == timedelta(seconds=2) - ON_ITS_WAY
    assert desk.next_look(1) == pytest.approx(3)
    assert desk.looks.reach(at(3)) == timedelta(seconds=10)


def test_where_slots_are_long_others_hear_of_a_look_that_left_nothing() -> None:
    slow = replace(SETTINGS, safety_poll=10.0, look_ahead=10.3)
    assert Desk(slow).heed(BY_TURN, 20.0).report
    assert Desk(slow).heed(BY_TURN, 20.0, next_due=31).report
    assert not Desk(slow).heed(BY_TURN, 20.0, next_due=30).report
    assert not Desk(slow).heed(BY_TURN, 20.0, crowded=True).report
    assert not Desk(slow).heed(CALLED, 20.0).report
    assert not Desk().heed(BY_TURN, 4.0).report


def test_what_is_given_back_is_heard_of_by_a_bell_or_a_beat() -> None:
    slow = replace(SETTINGS, safety_poll=10.0)
    assert Desk().looks.heard_at(at(1)) == at(1)
    assert Desk(slow).looks.heard_at(at(1)) == at(1 + SETTINGS.beat_every + TOLERANCE)
    assert Desk(of=1).looks.heard_at(at(1)) is None
