"""What is done about alerts: acknowledged, silenced until an end, rules changed at run time, channels tried."""

from datetime import UTC, datetime, time, timedelta

import msgspec
import pytest

from dashboard_alerts import alert, publish_watching, put
from standfast.admin.operation import NotAllowedError, NotThereError, Role, WrongRequestError
from standfast.admin.registry import BY_NAME
from standfast.errors import AlertNotFoundError
from standfast.model.alerts import Severity
from standfast.observe.alerts.board_changes import read_board
from standfast.observe.alerts.delivery import DELIVER, QUEUE
from standfast.stores.values import JobFilter

HOUR = timedelta(hours=1)


def noted(stage):
    entry = stage.read("audit.list").entries[0]
    return entry.what, entry.who, str(entry.before or ""), str(entry.after or "")


def rules(stage):
    return {each.name: each for each in stage.read("rules.list").rules}


def test_somebody_looks_after_an_alert(stage):
    """Everybody sees who, and the first stays."""
    put(stage, alert(stage))
    assert stage.act("alerts.acknowledge", Role.OPERATOR, id="a1").acknowledged_by == "ada"
    [seen] = stage.read("alerts.list").alerts
    assert (seen.acknowledged_by, seen.acknowledged_at) == ("ada", stage.clock.now())
    assert noted(stage) == ("alerts.acknowledge", "ada", "", "acknowledged by ada")
    with pytest.raises(AlertNotFoundError, match="there is no alert 'nix'"):
        stage.act("alerts.acknowledge", id="nix")


def test_somebody_takes_back_that_they_look_after_an_alert(stage):
    put(stage, alert(stage))
    stage.act("alerts.acknowledge", Role.OPERATOR, id="a1")
    assert stage.act("alerts.unacknowledge", Role.OPERATOR, id="a1").acknowledged_by is None
    [seen] = stage.read("alerts.list").alerts
    assert (seen.acknowledged_by, seen.acknowledged_at) == (None, None)
    assert noted(stage) == ("alerts.unacknowledge", "ada", "", "not acknowledged")
    with pytest.raises(AlertNotFoundError, match="there is no alert 'nix'"):
        stage.act("alerts.unacknowledge", id="nix")


def test_a_rule_is_silenced_for_a_subject_and_the_silence_ended(stage):
    """By whom, why and until when is kept, and it can be ended at once."""
    put(stage, alert(stage))
    done = stage.act("alerts.silence", Role.OPERATOR, rule="dead_letters", subject="mail", until="2h", why="move")
    [seen] = stage.read("alerts.list").silences
    assert (seen.id, seen.until, seen.why, seen.by) == (done.id, stage.clock.now() + 2 * HOUR, "move", "ada")
    assert noted(stage)[3] == f"silent until {done.until.isoformat()}"
    stage.act("alerts.unsilence", Role.OPERATOR, id=done.id)
    assert stage.read("alerts.list").silences == ()
    with pytest.raises(AlertNotFoundError, match="there is no silence"):
        stage.act("alerts.unsilence", id=done.id)


def test_a_silence_until_a_day_ends_as_it_begins_in_utc(stage):
    day = stage.clock.now().date() + timedelta(days=3)
    done = stage.act("alerts.silence", rule="queue_age", until=f" {day.isoformat()} ")
    assert done.until == datetime.combine(day, time(), UTC)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rule": "queue_age", "until": "2"}, "until: 2 of what\\? Write 2h for hours or 2d for days"),
        ({"rule": "queue_age", "until": " 1.5 "}, "until: 1.5 of what"),
        ({"rule": "queue_age", "until": "2020-01-01"}, "until: that is past"),
        ({"rule": "queue_age", "until": "2026-02-31"}, "is no moment"),
        ({"rule": "queue_age", "until": ""}, "say when the silence ends"),
        ({"rule": "queue_age", "until": "now"}, "until: that is past; say a later end"),
        ({"rule": "queue_age", "until": "2020-01-01T00:00Z"}, "until: that is past"),
        ({"rule": "queue_age", "until": "31d"}, "30 days at most"),
        ({"rule": "queue_age", "until": "soon"}, "is no moment"),
        ({"until": "2h"}, "a rule, a subject or both"),
    ],
)
def test_a_silence_has_an_end_and_is_about_something(stage, said, words):
    """Whoever leaves one out is told what to say."""
    with pytest.raises(WrongRequestError, match=words):
        stage.act("alerts.silence", **said)
    assert stage.do(read_board(stage.verbs)).silences == ()


def test_a_rule_that_nobody_knows_is_not_silenced(stage):
    """It may be mistyped, and people would be told all the same."""
    publish_watching(stage)
    with pytest.raises(NotThereError, match="there is no alert rule 'queue_ages'; did you mean queue_age"):
        stage.act("alerts.silence", rule="queue_ages", until="2h")
    assert stage.act("alerts.silence", rule="queue_age", until="2h").until


def test_a_silence_without_an_end_cannot_be_asked_for():
    """The API refuses it before anything is done."""
    asked = BY_NAME["alerts.silence"].asked
    with pytest.raises(msgspec.ValidationError, match="until"):
        msgspec.convert({"rule": "queue_age"}, asked)


def test_a_rule_is_changed_switched_off_and_reset(stage):
    """For the whole fleet; how it was is written down."""
    publish_watching(stage)
    done = stage.act("rules.change", name="queue_age", above=20.0, severity=Severity.CRITICAL)
    assert (done.above, done.severity, done.changed) == (20.0, Severity.CRITICAL, True)
    told = "at least 1, repeat after 14400 s, to all channels"
    assert noted(stage)[2:] == (
        f"on: above 300, over 300 s, hold 0 s, pause 300 s, warning, {told}",
        f"on: above 20, over 300 s, hold 0 s, pause 300 s, critical, {told}",
    )
    stage.act("rules.off", name="queue_age")
    assert (rules(stage)["queue_age"].enabled, rules(stage)["queue_age"].above) == (False, 20.0)
    stage.act("rules.on", name="queue_age")
    assert rules(stage)["queue_age"].enabled
    stage.act("rules.reset", name="queue_age")
    assert (rules(stage)["queue_age"].above, rules(stage)["queue_age"].changed) == (300.0, False)
    assert stage.do(read_board(stage.verbs)).overrides == {}


def test_a_rule_is_changed_in_the_words_of_commands(stage):
    """Spans and shares mean what they do there."""
    publish_watching(stage)
    done = stage.act("rules.change", name="queue_age", above="10m", hold=" 1m30s ", cool_down="2h")
    assert (done.above, done.hold, done.cool_down) == (600.0, 90.0, 7200.0)
    assert stage.act("rules.change", name="failure_rate", above="80%", over="600").above == 0.8
    assert rules(stage)["failure_rate"].over == 600.0
    assert stage.act("rules.change", name="dead_letters", above="3").above == 3.0


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"name": "nix", "above": 1.0}, NotThereError, "there is no alert rule 'nix': no worker has told of it"),
        ({"name": "queue_ag", "above": 1.0}, NotThereError, "'queue_ag'; did you mean queue_age"),
        ({"name": "queue_age"}, WrongRequestError, "say what is to be different"),
        ({"name": "queue_age", "above": 300.0}, WrongRequestError, "is like that already"),
        ({"name": "failure_rate", "above": 50.0}, WrongRequestError, "a share from 0 to below 1"),
        ({"name": "not_durable", "above": 1.0}, WrongRequestError, "has no `above`"),
        ({"name": "not_durable", "above": "1"}, WrongRequestError, "has no `above`"),
        ({"name": "not_durable", "above": "all"}, WrongRequestError, "has no `above`"),
        ({"name": "queue_age", "above": "80%"}, WrongRequestError, "above: '80%' is no span; write e.g. 30s"),
        ({"name": "queue_age", "above": "5m"}, WrongRequestError, "is like that already"),
        ({"name": "queue_age", "hold": "soon"}, WrongRequestError, "hold: 'soon' is no span"),
        ({"name": "queue_age", "hold": "-1"}, WrongRequestError, "hold: '-1' is no span"),
        ({"name": "dead_letters", "above": "10m"}, WrongRequestError, "must be a number, 0 or more.*, not '10m'"),
        ({"name": "failure_rate", "above": "150%"}, WrongRequestError, "a share from 0 to below 1"),
        ({"name": "failure_rate", "above": "nan"}, WrongRequestError, "a share from 0 to below 1"),
    ],
)
def test_a_rule_is_not_changed_to_what_means_nothing(stage, said, error, words):
    """And stays as it is."""
    publish_watching(stage)
    with pytest.raises(error, match=words):
        stage.act("rules.change", **said)
    assert stage.do(read_board(stage.verbs)).overrides == {}


def test_a_channel_is_tried_by_a_job(stage):
    """Whichever worker has the channel sends it; no secret is here."""
    publish_watching(stage)
    done = stage.act("channels.test", Role.OPERATOR, name="ops")
    [job] = stage.do(stage.verbs.list_jobs(JobFilter(queue=QUEUE), 10)).jobs
    assert (job.id, job.task, job.metadata["channel"], job.metadata["notice"]) == (
        done.job,
        DELIVER,
        "ops",
        done.notice,
    )
    with pytest.raises(NotThereError, match="there is no channel 'nix'; workers have told of ops"):
        stage.act("channels.test", name="nix")


def test_without_any_channel_there_is_none_to_try(stage):
    """It is not found, as another name is not, and the answer says what to do."""
    with pytest.raises(NotThereError, match=r"there is no channel 'ops', nor any other .* declare one"):
        stage.act("channels.test", name="ops")


def test_rules_are_changed_by_admins_and_alerts_looked_after_by_operators(stage):
    """Viewers do neither."""
    publish_watching(stage)
    put(stage, alert(stage))
    for name, said in (("rules.off", {"name": "queue_age"}), ("rules.reset", {"name": "queue_age"})):
        with pytest.raises(NotAllowedError):
            stage.act(name, Role.OPERATOR, **said)
    acknowledged = ((f"alerts.{name}", {"id": "a1"}) for name in ("acknowledge", "unacknowledge"))
    for name, said in (*acknowledged, ("channels.test", {"name": "ops"})):
        with pytest.raises(NotAllowedError):
            stage.act(name, Role.VIEWER, **said)
    assert stage.read("alerts.list").alerts[0].acknowledged_by is None
