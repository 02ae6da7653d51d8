"""`standfast alerts` about a store: what fires, what was told, rules; silences, acknowledgements, changed rules."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cli_world import WORKER, answer, assert_refused
from msgspec.structs import replace

import alert_notices as notices
from alert_rounds import EVERYTHING
from standfast.model.alerts import AlertRule, Check, Notice, Silence
from standfast.model.clock import SystemClock
from standfast.model.crash import Death, DeathKind
from standfast.model.job import Ending
from standfast.model.states import Move
from standfast.observe.alerts.alert_rules import DEFAULT_RULES, AlertSettings
from standfast.observe.alerts.board_changes import change_board
from standfast.observe.alerts.delivery import QUEUE, delivery_jobs
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.schedules.windows import Window
from standfast.stores.values import ClaimRequest
from standfast.stores.verb import Procedure, run_procedure

OLD = AlertRule(name="old mail", check=Check.QUEUE_AGE, above=60)
DESK = AlertRule(name="for the desk", check=Check.QUEUE_AGE, above=3600, channels=("desk", "wall"), repeat=None)


def look(world, **watching):
    """Look for trouble, as a worker does."""
    keeper = Monitor(AlertSettings(rules=(*DEFAULT_RULES, OLD, DESK), **watching))
    run_procedure(world.do, keeper.round(world.verbs, EVERYTHING, LocalView(datetime.now(UTC))))


@pytest.fixture
def told(world):
    """Let a job wait for too long, and somebody look."""
    world.enqueue(run_at=datetime.now(UTC) - timedelta(seconds=200))
    look(world)
    return world


@pytest.mark.usefixtures("told")
def test_what_fires_and_what_was_told_is_listed(standfast):
    [alert] = answer(standfast("alerts", "list", "--json"))["alerts"]
    assert (alert["rule"], alert["state"], alert["subject"]) == ("old mail", "firing", "mail")
    assert "queue mail: its oldest due job waits for" in standfast("alerts", "list").stdout
    [notice] = answer(standfast("alerts", "history", "--json"))
    assert (notice["rule"], notice["kind"]) == ("old mail", "firing")
    assert "firing" in standfast("alerts", "history").stdout


def test_what_did_not_reach_people_is_said(standfast, told):
    """For good, or not yet; what has arrived is not spoken of."""
    [notice] = answer(standfast("alerts", "history", "--json"))
    assert notice["undelivered"] == []
    assert "NOT DELIVERED" not in standfast("alerts", "history").stdout
    made = msgspec.convert({**notice, "undelivered": None}, Notice)
    for channel, move in (("ops", Move.DIE), ("chat", Move.COMPLETE)):
        [job] = delivery_jobs(made, [channel])
        told.do(told.verbs.enqueue([job]))
        told.calls += 1
        [claim] = told.do(told.verbs.claim(ClaimRequest(WORKER, told.calls, 1, queues=(QUEUE,)))).jobs
        told.do(told.verbs.finish(WORKER, [Ending(claim.ref, move, started_at=datetime.now(UTC))]))
    told.do(told.verbs.enqueue(delivery_jobs(made, ["post"])))
    [notice] = answer(standfast("alerts", "history", "--json"))
    assert {(each["channel"], each["state"]) for each in notice["undelivered"]} == {
        ("ops", "dead"),
        ("post", "ready"),
    }
    shown = standfast("alerts", "history").stdout
    assert "ops (dead)" in shown
    assert "post (not yet)" in shown


@pytest.mark.usefixtures("world")
def test_nothing_is_said_in_words(standfast):
    assert "No alert fires." in standfast("alerts", "list").stdout
    assert "No alert." in standfast("alerts", "list", "--all").stdout
    assert "Nobody was told" in standfast("alerts", "history").stdout
    assert "No worker has told" in standfast("alerts", "rules").stdout


def test_it_is_said_whether_anybody_looks(standfast, told):
    words = "No worker lives, so nobody looks for trouble"
    assert words not in standfast("alerts", "list").stdout
    assert answer(standfast("alerts", "list", "--json"))["watched"]
    told.do(told.verbs.bury(WORKER, Death(DeathKind.STOPPED)))
    assert words in standfast("alerts", "list").stdout
    assert not answer(standfast("alerts", "list", "--json"))["watched"]
    assert words in standfast("alerts", "rules").stdout


@pytest.mark.parametrize(("age", "watched"), [(timedelta(), True), (timedelta(hours=2), False)])
def test_workers_that_have_not_told_their_rules_lately_do_not_look(standfast, told, age, watched):
    """They are told again each hour. What was told before alerts were switched off is shown as what it is."""
    words = "Workers live, but none has told its rules lately, so nobody looks for trouble"

    def older(board):
        return replace(board, apps={app: replace(said, at=said.at - age) for app, said in board.apps.items()}), None

    run_procedure(told.do, Procedure(change_board(told.verbs, older)))
    assert answer(standfast("alerts", "list", "--json"))["watched"] is watched
    for command in ("list", "rules"):
        assert (words in " ".join(standfast("alerts", command).stdout.split())) is not watched


@pytest.mark.usefixtures("world")
def test_where_no_app_tells_its_rules_nobody_looks(standfast):
    """As where the only app has alerts switched off, and has withdrawn what it told before."""
    assert not answer(standfast("alerts", "list", "--json"))["watched"]
    assert "Workers live, but none has told its rules" in standfast("alerts", "list").stdout
    assert "unless alerts are switched off" in standfast("alerts", "rules").stdout


def test_what_quiet_hours_hold_back_is_marked(standfast, world):
    world.enqueue(run_at=datetime.now(UTC) - timedelta(seconds=200))
    look(world, quiet_hours=(Window("00:00", "12:00"), Window("12:00", "24:00")))
    assert "firing, not told yet: quiet hours until " in standfast("alerts", "list").stdout
    look(world)
    assert "not told yet" not in standfast("alerts", "list").stdout


def test_an_alert_is_known_and_a_rule_is_silent_for_a_while(standfast, told):
    [alert] = answer(standfast("alerts", "list", "--json"))["alerts"]
    known = answer(standfast("alerts", "ack", alert["id"][-8:], "--json"))
    assert known["acknowledged_by"]
    assert "acknowledged" in standfast("alerts", "list").stdout
    assert answer(standfast("alerts", "unack", alert["id"][-8:], "--json"))["acknowledged_by"] is None
    assert "acknowledged" not in standfast("alerts", "list").stdout
    silence = answer(standfast("alerts", "silence", "old mail", "--for", "2h", "--why", "known", "--json"))
    look(told)
    shown = standfast("alerts", "list").stdout
    assert "firing, silenced" in shown
    assert "known" in shown
    assert "has ended" in standfast("alerts", "unsilence", silence["id"][-6:]).stdout
    assert answer(standfast("alerts", "list", "--json"))["silences"] == []


def test_the_end_of_an_id_that_two_silences_have_ends_neither(standfast, told):
    silences = tuple(Silence(id=f"{name}77", until=datetime.now(UTC) + timedelta(hours=1)) for name in "ab")
    run_procedure(
        told.do, Procedure(change_board(told.verbs, lambda board: (replace(board, silences=silences), None)))
    )
    assert_refused(standfast("alerts", "unsilence", "77"), 1, "'77' is the end of 2 ids")
    assert len(answer(standfast("alerts", "list", "--json"))["silences"]) == 2


class _Ahead(SystemClock):
    """A clock of a store that is ten hours ahead of this machine's."""

    def now(self):
        return super().now() + timedelta(hours=10)


@pytest.mark.usefixtures("told")
def test_times_are_told_by_the_clock_of_the_store(standfast, monkeypatch):
    """It is the one that alerts, silences and notices go by."""
    monkeypatch.setattr("standfast.stores.url.SystemClock", _Ahead)
    monkeypatch.setenv("COLUMNS", "200")
    assert "(in 2 h)" in standfast("alerts", "silence", "old mail", "--for", "2h").stdout
    listed = standfast("alerts", "list").stdout
    assert "(10 h ago)" in listed
    assert "(in 2 h)" in listed
    assert "(10 h ago)" in standfast("alerts", "history").stdout


def test_a_rule_is_changed_for_the_whole_fleet_and_reset(standfast, told):
    assert "above 10 min" in standfast("alerts", "set", "old mail", "--above", "10m").stdout
    rules = {rule["name"]: rule for rule in answer(standfast("alerts", "rules", "--json"))}
    assert (rules["old mail"]["above"], rules["old mail"]["changed"]) == (600.0, True)
    look(told)
    assert answer(standfast("alerts", "list", "--json"))["alerts"] == []
    assert "does not count" in standfast("alerts", "set", "failure_rate", "--above", "80%", "--off").stdout
    assert "no, changed" in standfast("alerts", "rules").stdout
    assert "as its app declares" in standfast("alerts", "set", "old mail", "--reset").stdout
    look(told)
    assert len(answer(standfast("alerts", "list", "--json"))["alerts"]) == 1


@pytest.mark.usefixtures("told")
def test_all_of_a_rule_that_the_dashboard_changes_is_changed_here(standfast, monkeypatch):
    """What is not said stays as it is."""
    words = ("--over", "15m", "--hold", "0", "--cool-down", "1h", "--severity", "critical")
    said = standfast("alerts", "set", "failure_rate", *words).stdout
    assert said == "Rule failure_rate counts, above 50%, over 15 min, hold none, cool-down 1 h, as critical.\n"
    rules = {rule["name"]: rule for rule in answer(standfast("alerts", "rules", "--json"))}
    changed = rules["failure_rate"]
    assert [changed[name] for name in ("over", "hold", "cool_down", "severity")] == [900, 0, 3600, "critical"]
    assert (changed["enabled"], changed["above"], changed["changed"]) == (True, 0.5, True)
    monkeypatch.setenv("COLUMNS", "200")
    lines = {line.split("  ")[0]: line.split() for line in standfast("alerts", "rules").stdout.splitlines()}
    assert lines["RULE"][-3:] == ["HOLD", "COOL-DOWN", "REPEAT"]
    assert lines["failure_rate"][-5:] == ["none", "1", "h", "4", "h"]
    assert lines["disk_full"][-2:] == ["1", "d"]
    assert lines["for the desk"][-1] == "never"


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("ack", "zzz"), 1, "there is no alert 'zzz'"),
        (("unack", "zzz"), 1, "there is no alert 'zzz'"),
        (("unsilence", "zzz"), 1, "there is no silence 'zzz'"),
        (("silence", "old mai", "--for", "2h"), 1, "did you mean old mail?"),
        (("silence", "old mail", "--for", "60d"), 2, "30 days at most"),
        (("silence", "old mail", "--for", "soon"), 2, "'soon' is no span"),
        (("silence", "old mail", "--for", "2"), 2, "'2' has no unit; write 2h, 2m or 2s"),
        (("silence", "old mail", "--for", "1.5"), 2, "write 1.5h, 1.5m or 1.5s"),
        (("unsilence", ""), 1, "there is no silence ''"),
        (("set", "old mai", "--off"), 1, "did you mean old mail?"),
        (("set", "old mail"), 2, "say what to change"),
        (("set", "old mail", "--off", "--reset"), 2, "say what to change"),
        (("set", "old mail", "--hold", "1m", "--reset"), 2, "say what to change"),
        (("set", "old mail", "--on", "--off"), 2, "say what to change"),
        (("set", "old mail", "--hold", "soon"), 2, "'soon' is no span"),
        (("set", "old mail", "--over", "5m"), 2, "queue_age does not use over: leave it out"),
        (("set", "dead_letters", "--over", "7h"), 2, "at most 6 h, not '7h'"),
        (("set", "old mail", "--above", "400d"), 2, "at most a year, as in above=60, not '400d'"),
        (("set", "old mail", "--severity", "bad"), 2, "'bad' is not one of 'warning', 'critical'"),
        (("silence", "--for", "1h"), 2, "a rule, a subject or both: name one"),
        (("set", "old mail", "--above", "x"), 2, "--above: 'x' is no span"),
        (("set", "failure_rate", "--above", "5m"), 2, "must be a share from 0 to below 1, as in"),
        (("set", "dead_letters", "--above", "5%"), 2, "must be a number, 0 or more"),
        (("set", "disk_full", "--above", "3"), 2, "a share from 0 to below 1"),
        (("silence", "old mail", "--for", "2h", "--reason", "x"), 2, "No such option '--reason'. (see"),
        (("set", "old mail", "--channels", "desk"), 2, "Did you mean '--channel'? (see"),
        (("set", "old mail", "--abov", "1m"), 2, "Did you mean '--above'? (see"),
        (("set", "old mail", "--cooldown", "1m"), 2, "Did you mean '--cool-down'? (see"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(standfast, command, code, words):
    assert_refused(standfast("alerts", *command), code, words)


def test_what_is_on_the_board_cannot_drive_the_terminal(standfast, world):
    """Whoever writes to the store may have written anything, also as an id or a name."""
    evil = "\x1b[2J\x1b]0;owned\x07"
    alert = notices.alert(id=f"a{evil}9", rule=evil, says=evil, subject=evil, acknowledged_by=evil)
    silence = Silence(id=f"s{evil}9", until=datetime.now(UTC) + timedelta(hours=1), rule=evil, why=evil, by=evil)

    def write(board):
        known = replace(alert, acknowledged_at=datetime.now(UTC))
        return replace(board, alerts=(known,), silences=(silence,), outbox=(told,)), None

    told = notices.notice(rule=evil, title=evil, alerts=(alert,))
    run_procedure(world.do, Procedure(change_board(world.verbs, write)))
    for *command, words in (
        *(("list", "--all", "firing"), ("history", "firing"), ("ack", "9", "is known to")),
        ("unack", "9", "is known to nobody"),
        ("unsilence", silence.id, "has ended"),
    ):
        printed = standfast("alerts", *command).output
        assert words in printed
        assert printed.replace("\n", "").isprintable(), command


@pytest.mark.usefixtures("told")
def test_a_silence_about_one_subject_says_so(standfast):
    said = standfast("alerts", "silence", "old mail", "--for", "1h", "--subject", "mail").stdout
    assert said.startswith("Nobody is told of old mail about mail until ")
    assert standfast("alerts", "silence", "old mail", "--for", "1h").stdout.startswith(
        "Nobody is told of old mail until "
    )


@pytest.mark.usefixtures("told")
def test_a_silence_about_a_subject_needs_no_rule(standfast):
    """Nobody is told of anything about it."""
    silence = answer(standfast("alerts", "silence", "--for", "1h", "--subject", "mail", "--json"))
    assert (silence["subject"], silence.get("rule")) == ("mail", None)
    said = standfast("alerts", "silence", "--for", "1h", "--subject", "mail")
    assert said.stdout.startswith("Nobody is told of anything about mail until ")
    assert said.stderr == ""


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (("old mail", "--subject", "maill"), "is named 'maill' yet; did you mean mail?"),
        (("--subject", "zzzzzz"), "is named 'zzzzzz' yet\n"),
        (("old mail", "--subject", WORKER), ""),
        (("incident", "--subject", "crash"), ""),
        (("disk_full", "--subject", "/srv/disk"), ""),
    ],
)
def test_a_subject_that_nothing_has_is_warned_of(standfast, words, warned):
    """It may come yet, so the silence is made; hosts and places are in no store."""
    said = standfast("alerts", "silence", *words, "--for", "1h")
    assert said.exit_code == 0
    assert said.stderr.startswith("standfast: warning: no queue, task, ") if warned else said.stderr == ""
    assert warned in said.stderr
    assert said.stdout.startswith("Nobody is told of ")


@pytest.mark.usefixtures("world")
def test_before_workers_told_their_rules_a_slip_is_a_slip_all_the_same(standfast):
    """Those that count from the start are known; how an app may have changed them is not."""
    assert "Nobody is told" in standfast("alerts", "silence", "queue_age", "--for", "2h").stdout
    slip = standfast("alerts", "silence", "quue_agee", "--for", "2h")
    assert_refused(slip, 1, "did you mean queue_age?")
    assert_refused(standfast("alerts", "set", "queue_age", "--off"), 1, "no worker has told of it")


@pytest.mark.usefixtures("told")
def test_rules_are_listed_with_whom_they_tell(standfast, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    lines = {line.split("  ")[0]: line for line in standfast("alerts", "rules").stdout.splitlines()}
    assert "TELLS" in lines["RULE"]
    assert " desk, wall " in lines["for the desk"]
    assert " all " in lines["old mail"]
