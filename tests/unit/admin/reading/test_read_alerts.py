"""What is read of alerts, rules and objectives: the worst first, as it counts now, and nothing that is secret."""

from datetime import timedelta

import pytest

from alert_notices import notice
from dashboard_alerts import alert, publish_watching, put, put_board, tell
from dashboard_stage import SMTP
from figures_stage import Stage as Figures
from standfast.admin.overview import Level
from standfast.model.alerts import AlertRule, AlertState, Check, Severity
from standfast.model.states import Move, State
from standfast.observe.alerts.alert_rules import DEFAULT_RULES
from standfast.observe.alerts.board import Published
from standfast.observe.alerts.board_changes import add_silence
from standfast.observe.alerts.delivery import order_delivery


def test_what_fires_is_listed_before_what_is_pending_and_the_worst_first(stage):
    """What is resolved is not."""
    old = stage.clock.now() - timedelta(hours=1)
    put(
        stage,
        alert(stage, "pending", state=AlertState.PENDING, severity=Severity.CRITICAL, subject="a"),
        alert(stage, "warning", subject="b"),
        alert(stage, "older", subject="c", since=old),
        alert(stage, "critical", severity=Severity.CRITICAL, subject="d"),
        alert(stage, "resolved", state=AlertState.RESOLVED, subject="e"),
    )
    seen = stage.read("alerts.list")
    assert [each.id for each in seen.alerts] == ["critical", "older", "warning", "pending"]
    assert seen.alerts[0].examples[0].kind == "job"


def test_the_overview_has_what_fires_and_is_not_silenced(stage):
    """It is a finding, too: trouble where it is critical."""
    stage.register()
    put(stage, alert(stage), alert(stage, "quiet", subject="b"))
    stage.do(add_silence(stage.verbs, None, "b", timedelta(hours=1)))
    overview = stage.read("overview.show")
    assert [each.id for each in overview.alerts] == ["a1"]
    [finding] = overview.verdict.findings
    assert (finding.code, finding.severity, finding.params) == ("alerts", Level.ATTENTION, {"count": 1})
    assert str(finding.sentence) == "1 alert is firing"


def test_a_critical_alert_is_trouble(stage):
    """Whatever else is well."""
    stage.register()
    put(stage, alert(stage, severity=Severity.CRITICAL))
    assert stage.read("overview.show").verdict.level is Level.TROUBLE


def test_silences_and_channels_are_listed_those_that_end_first(stage):
    """Of channels their names."""
    publish_watching(stage, channels=("ops", "boss"))
    for rule, hours in (("queue_age", 5), ("incident", 2)):
        stage.do(add_silence(stage.verbs, rule, None, timedelta(hours=hours), why="move", by="ada"))
    seen = stage.read("alerts.list")
    assert [(each.rule, each.why, each.by) for each in seen.silences] == [
        ("incident", "move", "ada"),
        ("queue_age", "move", "ada"),
    ]
    assert seen.channels == ("boss", "ops")


def test_the_history_goes_back_page_by_page(stage):
    """The newest first, none twice and none left out."""
    tell(stage, 7)
    pages, before = [], None
    while not pages or before:
        page = stage.read("alerts.history", limit=3, before=before)
        pages.append([each.id for each in page.rows])
        before = page.next
    assert pages == [["n6", "n5", "n4"], ["n3", "n2", "n1"], ["n0"]]


def test_the_history_says_what_has_not_arrived(stage):
    """For good or not yet, by which channel, and which job is to bring it; what has arrived is not there."""
    tell(stage, 2)
    [failed] = stage.do(order_delivery(stage.verbs, notice(id="n0"), ["ops"]))
    stage.end(failed, Move.DIE, failure=SMTP)
    [made] = stage.do(order_delivery(stage.verbs, notice(id="n0"), ["wall"]))
    stage.end(made, Move.COMPLETE)
    [waits] = stage.do(order_delivery(stage.verbs, notice(id="n0"), ["boss"]))
    newest, oldest = stage.read("alerts.history").rows
    assert newest.undelivered == ()
    assert {(each.channel, each.job, each.state, each.final) for each in oldest.undelivered} == {
        ("ops", failed, State.DEAD, True),
        ("boss", waits, State.READY, False),
    }


def test_it_is_said_whether_anybody_looks(stage):
    """Without a worker that lives, and rules that were told lately, things are as the last look left them."""

    def looks():
        seen = stage.read("alerts.list")
        return seen.living, seen.watched

    put(stage, alert(stage))
    publish_watching(stage)
    assert looks() == (False, False)
    stage.register()
    assert looks() == (True, True)
    put_board(stage, apps={"shop": Published((), (), stage.clock.now() - timedelta(hours=2))})
    assert looks() == (True, False)
    put_board(stage, apps={})
    assert looks() == (True, False)
    publish_watching(stage)
    assert looks() == (True, True)
    stage.clock.advance(60)
    assert looks() == (False, False)


def test_rules_are_listed_as_they_count_now(stage):
    """With what was changed at run time; what nobody declares is not there."""
    publish_watching(stage)
    changed = AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=20.0, enabled=False)
    gone = AlertRule(name="gone", check=Check.QUEUE_AGE, above=1.0)
    put_board(stage, overrides={"queue_age": changed, "gone": gone}, amended={"queue_age": ("above", "enabled")})
    rules = {each.name: each for each in stage.read("rules.list").rules}
    assert set(rules) == {rule.name for rule in DEFAULT_RULES}
    assert (rules["queue_age"].above, rules["queue_age"].enabled, rules["queue_age"].changed) == (20.0, False, True)
    assert (rules["incident"].changed, rules["incident"].looks_back) == (False, True)
    assert (rules["failure_rate"].needs_enough, rules["incident"].needs_enough) == (True, False)


@pytest.mark.parametrize(
    ("rule", "unit"),
    [
        ("queue_age", "seconds"),
        ("failure_rate", "share"),
        ("incident", "number"),
        ("budget_burn_fast", "factor"),
        ("not_durable", "nothing"),
    ],
)
def test_a_rule_says_what_its_limit_is(stage, rule, unit):
    """So that people read 5 min and 50 %, and not 300 and 0.5."""
    publish_watching(stage)
    assert {each.name: each.unit for each in stage.read("rules.list").rules}[rule] == unit


def test_where_nobody_has_told_of_anything_there_is_nothing(stage):
    """And nothing fails."""
    assert stage.read("alerts.list").alerts == stage.read("alerts.list").channels == ()
    assert stage.read("alerts.history").rows == ()
    assert stage.read("rules.list").rules == stage.read("objectives.list").objectives == ()


def test_an_objective_says_what_is_left_of_its_budget(stage):
    """Counted from figures: nine of ten may be good, and one of twenty was not."""
    publish_watching(stage)
    figures = Figures(stage.backend, stage.clock)
    figures.count(*19 * [Move.COMPLETE], Move.DIE, task="send_email")
    stage.wait(figures.publish())
    stage.clock.advance(1)
    [seen] = stage.read("objectives.list").objectives
    assert (seen.name, seen.good, seen.bad, seen.share) == ("mails", 19, 1, 0.95)
    assert seen.budget_left == pytest.approx(0.5)
    assert {each.over: each.rate for each in seen.burns}[300.0] == pytest.approx(0.5)
