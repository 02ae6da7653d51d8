"""What follows from a look: when alerts begin, fire and end, and what people are told of it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from standfast.model.alerts import AlertRule, AlertState, Check, Notice, NoticeKind, Severity, Silence
from standfast.observe.alerts.board import EMPTY, Board, Said
from standfast.observe.alerts.evaluation import Round, evaluate
from standfast.observe.alerts.observations import MOST_SUBJECTS, OTHERS, Breach

START = datetime(2026, 1, 1, tzinfo=UTC)
RULE = AlertRule(name="old", check=Check.QUEUE_AGE, above=60, cool_down=300.0, repeat=None)
FIRING, RESOLVED, REPEATED = NoticeKind.FIRING, NoticeKind.RESOLVED, NoticeKind.REPEATED


@dataclass
class Story:
    """A board, and what happens to it."""

    rule: AlertRule = RULE
    board: Board = EMPTY
    now: datetime = START
    told: list[tuple[float, NoticeKind]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def look(self, *subjects: str, after: float = 10.0, **how: Any) -> None:
        """Look after so many seconds, and find that these subjects break the rule."""
        self.now += timedelta(seconds=after)
        rules = how.pop("rules", (self.rule,))
        looked = how.pop("looked", {Check.QUEUE_AGE})
        severity = Severity.CRITICAL if how.pop("worse", False) else None
        found = [
            Breach(self.rule, subject, f"queue {subject} is old", 61.0, severity=severity) for subject in subjects
        ]
        judged = evaluate(self.board, Round(self.now, rules, looked, found, **how))
        self.board = judged.board
        self.notices += judged.notices
        self.told += [((self.now - START).total_seconds(), notice.kind) for notice in judged.notices]

    @property
    def states(self) -> list[AlertState]:
        """The states of its alerts."""
        return [alert.state for alert in self.board.alerts]


@pytest.mark.parametrize(
    ("check", "words"), [(Check.QUEUE_AGE, "no longer so"), (Check.INCIDENT, "nothing new of this")]
)
def test_that_it_is_over_is_said_so_and_how_long_it_fired(check: Check, words: str) -> None:
    """Nobody reads in the words of a resolved alert that it still is so; silence does not make it longer."""
    story = Story(replace(RULE, check=check))
    story.look("mail", looked={check})
    silence = Silence(id="1", rule="old", until=story.now + timedelta(seconds=60))
    story.board = replace(story.board, silences=(silence,))
    for _ in range(10):
        story.look(looked={check})
    assert [notice.title for notice in story.notices] == [
        "queue mail is old",
        f"{words}: queue mail is old; the alert fired for 10 s",
    ]


def test_it_fires_is_told_and_resolved() -> None:
    """Each once, however often one looks."""
    story = Story()
    for _ in range(5):
        story.look("mail")
    for _ in range(5):
        story.look()
    assert story.told == [(10, FIRING), (60, RESOLVED)]
    assert story.board.alerts == ()


def test_what_is_broken_for_less_than_hold_is_told_to_nobody() -> None:
    story = Story(replace(RULE, hold=30.0))
    story.look("mail")
    story.look("mail")
    assert story.states == [AlertState.PENDING]
    story.look()
    assert (story.told, story.board.alerts) == ([], ())
    for _ in range(4):
        story.look("mail")
    assert story.told == [(70, FIRING)]


def test_what_nobody_has_looked_at_stays() -> None:
    """But not what nobody has a rule for any more, or only one that is switched off."""
    story = Story()
    story.look("mail")
    story.look(looked={Check.WORKER_SILENT})
    assert story.states == [AlertState.FIRING]
    story.look(rules=(), foreign={"old"})
    assert story.states == [AlertState.FIRING]
    story.look(rules=(replace(RULE, enabled=False),), looked={Check.WORKER_SILENT})
    assert (story.told, story.board.alerts) == ([(10, FIRING)], ())


@pytest.mark.parametrize("rules", [(), (replace(RULE, enabled=False),)], ids=["removed", "off"])
def test_of_a_rule_that_counts_no_more_nobody_is_told_that_something_is_resolved(
    rules: tuple[AlertRule, ...],
) -> None:
    """Should it count again: what is broken then is told after the cool-down, and may be resolved."""
    story = Story()
    story.look("mail")
    for _ in range(5):
        story.look(rules=rules)
    assert story.board.alerts == ()
    for _ in range(40):
        story.look("mail")
    story.look()
    assert story.told == [(10, FIRING), (310, FIRING), (470, RESOLVED)]


def test_what_people_switch_off_and_on_again_is_told_at_once() -> None:
    story = Story()
    story.look("mail")
    off = replace(RULE, enabled=False)
    story.board = replace(story.board, overrides={"old": off})
    story.look(rules=(off,))
    story.board = replace(story.board, overrides={})
    story.look("mail")
    assert story.told == [(10, FIRING), (30, FIRING)]


def test_a_rule_that_is_switched_off_is_not_broken() -> None:
    story = Story(replace(RULE, enabled=False))
    story.look("mail")
    assert story.board.alerts == ()


def test_flapping_tells_no_more_than_the_cool_down_allows() -> None:
    """For ten minutes, on and off every ten seconds, with a cool-down of five: two rounds of two."""
    story = Story()
    for _ in range(30):
        story.look("mail")
        story.look()
    assert story.told == [(10, FIRING), (20, RESOLVED), (310, FIRING), (320, RESOLVED)]


def test_what_still_fires_when_the_cool_down_is_over_is_told_then() -> None:
    story = Story()
    story.look("mail")
    story.look()
    for _ in range(40):
        story.look("mail")
    assert story.told == [(10, FIRING), (20, RESOLVED), (310, FIRING)]


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=120),
    st.sampled_from([0.0, 30.0, 300.0]),
    st.sampled_from([0.0, 15.0]),
)
def test_people_are_told_in_turn_and_in_the_end_the_truth(
    looks: list[tuple[bool, bool]], cool_down: float, hold: float
) -> None:
    """Whatever it does, in quiet hours and out of them: firing, resolved …, each at most once per cool-down."""
    story = Story(replace(RULE, cool_down=cool_down, hold=hold))
    broken = [each for each, _ in looks]
    for each, quiet in looks:
        story.look(*(["mail"] if each else []), quiet=quiet)
    told = [kind for _, kind in story.told]
    assert told == [FIRING if place % 2 == 0 else RESOLVED for place in range(len(told))]
    for kind in (FIRING, RESOLVED):
        times = [at for at, each in story.told if each is kind]
        assert all(later - earlier >= cool_down for earlier, later in pairwise(times))
    for _ in range(40):
        story.look(*(["mail"] if broken and broken[-1] else []))
    believed = bool(story.told) and story.told[-1][1] is FIRING
    assert believed == (bool(broken) and broken[-1])


def test_what_was_about_to_fire_again_and_did_not_is_resolved_for_those_who_believe_it_fires() -> None:
    """It ended in quiet hours, was broken once more for less than `hold`, and is over."""
    story = Story(replace(RULE, hold=15.0))
    for _ in range(3):
        story.look("mail")
    story.look(quiet=True)
    story.look("mail", quiet=True)
    assert story.states == [AlertState.PENDING]
    story.look(quiet=True)
    story.look()
    assert story.told == [(30, FIRING), (70, RESOLVED)]
    assert story.board.alerts == ()


def test_a_clock_that_was_ahead_and_is_set_back_lets_nothing_go_untold() -> None:
    """Neither that it fires, nor that it is resolved, nor that it still fires; nor does what is pending hang."""
    ahead = START + timedelta(days=300)
    story = Story(replace(RULE, hold=15.0, repeat=60.0), now=ahead)
    for subject in ("ads", "news", "news"):
        story.look("mail", subject)
    story.look("news", "ads")
    assert {each.kind for each in story.notices} == {FIRING, RESOLVED}
    story.now, story.told = START, []
    for _ in range(3):
        story.look("mail", "news", "ads")
    assert story.told == [(10, REPEATED), (30, FIRING)]
    assert {alert.subject for alert in story.notices[-1].alerts} == {"mail", "ads"}
    story.look()
    assert story.told[-1] == (40, RESOLVED)
    assert story.board.alerts == ()


def test_a_time_at_the_end_of_the_calendar_is_no_obstacle() -> None:
    story = Story()
    end = datetime.max.replace(tzinfo=UTC)
    story.board = Board(said=(Said("old", "mail", fired_at=end), Said("gone", "mail", firing=True, fired_at=end)))
    story.look("mail")
    assert story.told == [(10, FIRING)]


def test_many_subjects_at_once_are_one_notice() -> None:
    """It names five, and says how many more there are."""
    story = Story()
    story.look(*(f"q{number}" for number in range(40)))
    [notice] = story.notices
    assert (len(notice.alerts), notice.more) == (5, 35)
    assert "40 alerts of old" in notice.title
    story.look()
    assert [each.kind for each in story.notices] == [FIRING, RESOLVED]


def test_of_very_many_subjects_some_have_alerts_and_the_rest_is_one() -> None:
    """Also when others come and go: who has an alert keeps it."""
    story = Story()
    names = [f"q{number:04}" for number in range(1000)]
    story.look(*names)
    subjects = {alert.subject for alert in story.board.alerts}
    assert (len(subjects), OTHERS in subjects) == (MOST_SUBJECTS + 1, True)
    story.look(*reversed(names))
    assert {alert.subject for alert in story.board.alerts} == subjects
    [notice] = story.notices
    assert notice.more == MOST_SUBJECTS - 4


def test_a_firing_one_is_told_again_unless_somebody_knows() -> None:
    story = Story(replace(RULE, repeat=60.0))
    for _ in range(14):
        story.look("mail")
    assert story.told == [(10, FIRING), (70, REPEATED), (130, REPEATED)]
    known = tuple(replace(alert, acknowledged_at=story.now) for alert in story.board.alerts)
    story.board = replace(story.board, alerts=known)
    for _ in range(20):
        story.look("mail")
    assert len(story.told) == 3
    story.look()
    assert story.told[-1] == (350, RESOLVED)


@pytest.mark.parametrize(
    ("rule", "subject", "covered"),
    [("old", None, True), (None, "mail", True), ("old", "mail", True), ("old", "x", False), ("x", None, False)],
)
def test_a_silence_covers_until_its_end(rule: str | None, subject: str | None, covered: bool) -> None:
    """What still fires then is told then."""
    story = Story()
    silence = Silence(id="s", until=START + timedelta(seconds=45), rule=rule, subject=subject)
    story.board = Board(silences=(silence,))
    for _ in range(6):
        story.look("mail")
    assert story.told == [(50, FIRING) if covered else (10, FIRING)]
    assert story.board.silences == ()


def test_what_fires_and_ends_in_silence_is_told_to_nobody() -> None:
    story = Story()
    story.board = Board(silences=(Silence(id="s", until=START + timedelta(seconds=45), rule="old"),))
    story.look("mail")
    assert story.board.alerts[0].silenced
    for _ in range(9):
        story.look()
    assert (story.told, story.board.alerts) == ([], ())


def test_in_quiet_hours_only_what_is_critical_is_told() -> None:
    """The rest when they are over, if it is still true."""
    warning, critical = Story(), Story(replace(RULE, severity=Severity.CRITICAL))
    for story in (warning, critical):
        story.look("mail", "news", quiet=True)
        story.look("mail", quiet=True)
        story.look("mail")
    assert critical.told == [(10, FIRING), (20, RESOLVED)]
    assert warning.told == [(30, FIRING)]
    assert [alert.subject for alert in warning.notices[0].alerts] == ["mail"]


def test_what_was_told_before_quiet_hours_and_ends_in_them_is_told_after() -> None:
    story = Story()
    story.look("mail")
    story.look(quiet=True)
    assert story.states == [AlertState.RESOLVED]
    story.look()
    assert story.told == [(10, FIRING), (30, RESOLVED)]


INCIDENT = replace(RULE, check=Check.INCIDENT, over=600.0, repeat=4 * 3600.0)


@dataclass
class Crashes(Story):
    """Incidents of one kind, as a rule about them sees them."""

    rule: AlertRule = INCIDENT
    times: list[datetime] = field(default_factory=list)

    def crash(self, count: int = 1, *, ago: float = 0.0) -> None:
        """Let so many come to light that happened a while ago."""
        self.times += [self.now - timedelta(seconds=ago)] * count

    def go_on(self, seconds: float, **how: Any) -> None:
        """Look every ten seconds for so long."""
        for _ in range(int(seconds / 10)):
            self.now += timedelta(seconds=10)
            lately = sum(at >= self.now - timedelta(seconds=600) for at in self.times)
            says = f"{lately} incidents"
            breach = Breach(self.rule, "crash", says, count=lately, happened_at=tuple(self.times))
            found = [breach] if lately else []
            judged = evaluate(self.board, Round(self.now, (self.rule,), {Check.INCIDENT}, found, **how))
            self.board = judged.board
            self.notices += judged.notices
            self.told += [((self.now - START).total_seconds(), notice.kind) for notice in judged.notices]

    def acknowledge(self) -> None:
        """Let somebody say that they know of it."""
        known = (replace(each, acknowledged_at=self.now, known=each.happened) for each in self.board.alerts)
        self.board = replace(self.board, alerts=tuple(known))


def test_incidents_that_come_while_their_alert_fires_are_told_together_when_the_cool_down_is_over() -> None:
    """Also where as many of those before are over by then; each once; and in the end that nothing new comes."""
    story = Crashes()
    story.crash()
    story.go_on(100)
    story.crash(2)
    story.go_on(100)
    story.crash()
    story.go_on(380)
    assert story.told == [(10, FIRING), (310, REPEATED)]
    assert story.notices[-1].title == "4 incidents; 3 new since this was last told"
    story.go_on(160)
    story.crash(3)
    story.go_on(10)
    assert story.told[2:] == [(750, REPEATED)]
    assert story.notices[-1].title == "4 incidents; 3 new since this was last told"
    story.go_on(700)
    assert story.told[3:] == [(1350, RESOLVED)]


def test_an_incident_that_comes_to_light_late_is_told_as_well() -> None:
    """It happened before one that people know of, and is written down after."""
    story = Crashes()
    story.crash()
    story.go_on(20)
    story.crash(ago=15.0)
    story.go_on(400)
    assert story.told == [(10, FIRING), (310, REPEATED)]


def test_what_becomes_critical_is_told_again_after_the_cool_down() -> None:
    """Also to who has acknowledged it when it was not; and once."""
    story = Story()
    story.look("mail")
    known = tuple(replace(alert, acknowledged_at=story.now) for alert in story.board.alerts)
    story.board = replace(story.board, alerts=known)
    for _ in range(60):
        story.look("mail", worse=True)
    assert story.told == [(10, FIRING), (310, REPEATED)]
    assert story.notices[-1].title == "queue mail is old; critical by now"
    assert story.notices[-1].severity is Severity.CRITICAL


@pytest.mark.parametrize("held", ["quiet", "silenced"])
def test_what_was_acknowledged_before_people_were_told_is_not_told_later(held: str) -> None:
    """Whoever looked while it was quiet knows of it; nor is anybody told that it is over."""
    story = Story()
    if held == "silenced":
        silence = Silence(id="1", rule="old", until=START + timedelta(seconds=15))
        story.board = replace(story.board, silences=(silence,))
    story.look("mail", quiet=held == "quiet")
    known = tuple(replace(alert, acknowledged_at=story.now) for alert in story.board.alerts)
    story.board = replace(story.board, alerts=known)
    story.look("mail")
    story.look("mail")
    assert story.states == [AlertState.FIRING]
    story.look()
    assert (story.told, story.board.alerts) == ([], ())


def test_an_acknowledgement_covers_only_the_incidents_that_were_known() -> None:
    """Those that come after it are told, and may be acknowledged in their turn."""
    story = Crashes()
    story.crash()
    story.go_on(50)
    story.acknowledge()
    story.crash()
    story.go_on(20)
    assert story.board.alerts[0].acknowledged_at is None
    story.go_on(260)
    assert story.told == [(10, FIRING), (310, REPEATED)]
    story.acknowledge()
    story.go_on(300)
    assert story.board.alerts[0].acknowledged_at is not None
    assert len(story.told) == 2


@pytest.mark.parametrize("way", ["quiet", "silenced"])
def test_new_incidents_are_not_told_in_quiet_hours_or_a_silence_but_after(way: str) -> None:
    story = Crashes()
    story.crash()
    story.go_on(10)
    story.crash()
    silence = Silence(id="s", until=START + timedelta(seconds=405), rule="old")
    story.board = replace(story.board, silences=(silence,) * (way == "silenced"))
    story.go_on(390, quiet=way == "quiet")
    story.go_on(100)
    assert story.told == [(10, FIRING), (410, REPEATED)]


def test_incidents_that_are_forgotten_are_no_news() -> None:
    """Nor do they hide the next one."""
    story = Crashes()
    story.crash(3)
    story.go_on(10)
    del story.times[:2]
    story.go_on(300)
    assert story.told == [(10, FIRING)]
    story.crash()
    story.go_on(10)
    assert story.told[1:] == [(320, REPEATED)]
