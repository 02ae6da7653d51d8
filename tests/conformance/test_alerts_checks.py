"""Alerts on every store: each check sees what it is about."""

from datetime import timedelta

import msgspec
import pytest

from alert_rounds import Stage
from conformance import Harness
from figures_stage import Stage as Counting
from standfast.model.alerts import AlertRule, Check, Objective, Severity
from standfast.model.concurrency import run_without_loop
from standfast.model.crash import Death, DeathKind
from standfast.model.ids import first_id_at
from standfast.model.incidents import Incident, Trouble
from standfast.model.job import JobAction
from standfast.model.records import Decision
from standfast.model.states import Move, State
from standfast.observe.alerts import checks, observations
from standfast.observe.alerts.delivery import DELIVER, QUEUE
from standfast.observe.alerts.monitor import LocalView, Monitor
from standfast.observe.catalogue import Catalogue, publish
from standfast.observe.incidents import write_incident
from standfast.schedules.rules import Every
from standfast.schedules.schedule import Plan, Template, encode_plan
from standfast.stores.contract import cancel_job, change_job
from standfast.stores.doctor import Finding
from standfast.stores.values import Vitals, WorkerBeat
from standfast.stores.verb import run_procedure

MORE = Objective(name="print", target=0.9, task="print")


def test_a_queue_whose_oldest_job_waits_is_old_unless_paused(harness: Harness) -> None:
    stage = Stage(harness)
    harness.enqueue(queue="mail")
    harness.enqueue(queue="news")
    harness.run(harness.verbs.pause("news"))
    harness.clock.advance(301)
    stage.round()
    assert stage.firing() == {
        "queue_age": "queue mail: its oldest due job waits for 5 min 1 s; no living worker serves it"
    }


def test_a_job_whose_task_no_worker_knows_is_told_after_five_minutes(harness: Harness) -> None:
    """A producer's typo: the rule counts from the start, and names the task that may have been meant."""
    stage = Stage(harness, timeouts={"send_email": None})
    placed = harness.place(State.BLOCKED, task="send_emial")
    harness.clock.advance(299)
    stage.round()
    assert "task_unknown" not in stage.firing()
    harness.clock.advance(2)
    stage.round()
    assert stage.firing().get("task_unknown") == (
        "task send_emial (payload version 1): no running worker knows it, and its oldest job waits for 5 min 1 s;"
        " did you mean send_email?"
    )
    [alert] = [each for each in stage.board().firing if each.rule == "task_unknown"]
    assert (alert.subject, [example.id for example in alert.examples]) == ("send_emial", [placed.job_id])
    harness.run(cancel_job(harness.verbs, placed.job_id))
    stage.round()
    assert "task_unknown" not in stage.firing()


def test_a_thousand_failures_are_one_alert_with_counts_and_examples(harness: Harness) -> None:
    """As the figures tell, whoever has counted."""
    stage, counting = Stage(harness), Counting(harness.backend, harness.clock)
    for _ in range(6):
        harness.place(State.DEAD, task="send")
    worker = harness.register()
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=1100))]))
    counting.count(*[Move.DIE] * 1000, *[Move.COMPLETE] * 100)
    run_without_loop(counting.publish())
    stage.round()
    assert stage.firing() == {
        "failure_rate": "task send: 91% of 1,100 attempts failed in the last 5 min",
        "dead_letters": "task send: 1,000 deaths of jobs in the last 5 min",
    }
    for alert in stage.board().firing:
        assert (alert.count, len(alert.examples)) == (1000, 5)
        assert {example.kind for example in alert.examples} == {"job"}
    assert len(stage.history()) == 2
    assert len(stage.deliveries()) == 2
    harness.clock.advance(420)
    harness.beat(worker)
    stage.round()
    assert "failure_rate" not in stage.firing()


def test_many_dead_jobs_are_told_before_they_matter(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """On from the start, whenever they died; it is over when they are fewer."""
    monkeypatch.setattr(observations, "MANY_DEAD", 2)
    stage = Stage(harness)
    dead = [harness.place(State.DEAD, task="send").job_id for _ in range(2)]
    stage.round()
    assert "dead_backlog" not in stage.firing()
    harness.place(State.DEAD, task="send", queue="mail")
    harness.clock.advance(30 * 86_400)
    stage.round()
    assert stage.firing()["dead_backlog"] == (
        "3 dead jobs are kept, and nothing removes them: retry or discard them, or set keep_dead_for or keep_dead"
    )
    [alert] = [each for each in stage.board().firing if each.rule == "dead_backlog"]
    assert (alert.subject, alert.count, alert.value) == ("number", 3, 3.0)
    harness.run(change_job(harness.verbs, JobAction.DISCARD, dead[0]))
    stage.round()
    assert "dead_backlog" not in stage.firing()


def test_dead_jobs_that_will_soon_be_removed_for_their_number_are_told(harness: Harness) -> None:
    """At four fifths of `keep_dead`, unless the rule says at how many."""
    own = AlertRule(name="few", check=Check.DEAD_BACKLOG, above=5)
    stage = Stage(harness, own, keep_dead=5)
    for _ in range(4):
        harness.place(State.DEAD)
    stage.round()
    assert "dead_backlog" not in stage.firing()
    harness.place(State.DEAD)
    stage.round()
    assert stage.firing() == {
        "dead_backlog": "5 dead jobs are kept, and beyond 5 the oldest are removed (keep_dead):"
        " retry, copy or discard them"
    }
    harness.place(State.DEAD)
    stage.round()
    assert stage.firing().keys() == {"dead_backlog", "few"}


def test_dead_jobs_that_will_soon_be_removed_for_their_age_are_told(harness: Harness) -> None:
    """When a tenth of `keep_dead_for` is left, a day at most; with examples, and over when somebody has decided."""
    stage = Stage(harness, keep_dead_for=100 * 86_400.0)
    old = harness.place(State.DEAD, id=first_id_at(harness.clock.now())).job_id
    harness.clock.advance(50 * 86_400)
    harness.place(State.DEAD, id=first_id_at(harness.clock.now()))
    harness.clock.advance(49 * 86_400 - 1)
    stage.round()
    assert "dead_backlog" not in stage.firing()
    harness.clock.advance(3601)
    stage.round()
    assert stage.firing()["dead_backlog"] == (
        "1 dead job will soon be removed, the first in 23 h (keep_dead_for): retry, copy or discard it"
    )
    [alert] = [each for each in stage.board().firing if each.rule == "dead_backlog"]
    assert (alert.subject, alert.count, [each.id for each in alert.examples]) == ("age", 1, [old])
    harness.run(change_job(harness.verbs, JobAction.RETRY, old))
    stage.round()
    assert "dead_backlog" not in stage.firing()


def test_of_many_dead_jobs_that_will_be_removed_the_first_may_go_earlier_than_those_seen(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are looked at, and the oldest go first: here in 3 h, and the older one of those seen in 13 h."""
    for module in (observations, checks):
        monkeypatch.setattr(module, "GOING_SEEN", 2)
    stage = Stage(harness, keep_dead_for=100 * 86_400.0)
    for _ in range(3):
        harness.place(State.DEAD, id=first_id_at(harness.clock.now()))
        harness.clock.advance(36_000)
    harness.clock.advance(99 * 86_400 - 9 * 3600)
    stage.round()
    assert stage.firing()["dead_backlog"].startswith(
        "2 dead jobs or more will soon be removed, the first within 13 h (keep_dead_for)"
    )


def test_attempts_that_fail_are_not_counted_as_jobs(harness: Harness) -> None:
    """Where 300 jobs die at the second attempt, 600 attempts have failed, and 300 jobs are concerned."""
    stage, counting = Stage(harness), Counting(harness.backend, harness.clock)
    worker = harness.register()
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=600))]))
    counting.count(*[Move.RETRY] * 300, *[Move.DIE] * 300)
    run_without_loop(counting.publish())
    stage.round()
    [alert] = [each for each in stage.board().firing if each.rule == "failure_rate"]
    assert alert.says == "task send: 100% of 600 attempts failed in the last 5 min"
    assert alert.count == 300


def test_deliveries_that_fail_or_wait_are_told_to_nobody_unless_a_rule_names_them(harness: Harness) -> None:
    """Else each notice that cannot be delivered would be the reason of the next."""
    rules = [
        AlertRule(name="lag", check=Check.START_LAG, above=1),
        AlertRule(name="long", check=Check.JOB_TOO_LONG, above=60),
        AlertRule(name="their dead", check=Check.DEAD_LETTERS, above=0, task=DELIVER),
        AlertRule(name="their age", check=Check.QUEUE_AGE, above=60, queue=QUEUE),
    ]
    stage, counting = Stage(harness, *rules), Counting(harness.backend, harness.clock)
    harness.enqueue(queue=QUEUE, task=DELIVER)
    worker = harness.register(lease=10_000)
    harness.start(worker, harness.claim_one(worker))
    harness.enqueue(queue=QUEUE, task=DELIVER)
    harness.clock.advance(301)
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=20, running=1))]))
    counting.count(*[Move.DIE] * 20, queue=QUEUE, task=DELIVER, late=100)
    run_without_loop(counting.publish())
    stage.round()
    assert stage.firing().keys() == {"their dead", "their age"}


def test_few_failures_break_no_rate(harness: Harness) -> None:
    stage, counting = Stage(harness), Counting(harness.backend, harness.clock)
    worker = harness.register()
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=9))]))
    counting.count(*[Move.RETRY] * 9)
    run_without_loop(counting.publish())
    stage.round()
    assert stage.firing() == {}


def test_deliveries_that_fail_break_no_rule_that_does_not_name_them(harness: Harness) -> None:
    """Who would be told of it is told by deliveries, which fail as well: there would be no end."""
    named = AlertRule(name="untold", check=Check.DEAD_LETTERS, above=0, queue=QUEUE)
    lag = AlertRule(name="lag", check=Check.START_LAG, above=5)
    stage, counting = Stage(harness, lag, named), Counting(harness.backend, harness.clock)
    worker = harness.register()
    harness.enqueue(queue=QUEUE)
    harness.clock.advance(400)
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=20))]))
    counting.count(*[Move.DIE] * 20, queue=QUEUE, task=DELIVER, late=60.0)
    run_without_loop(counting.publish())
    stage.round()
    assert stage.firing() == {"untold": f"queue {QUEUE}: 20 deaths of jobs in the last 5 min"}


def test_a_budget_that_burns_too_fast(harness: Harness) -> None:
    """Fast, and steadily: that is critical, and a warning."""
    objective = Objective(name="mail arrives", target=0.99, task="send")
    stage, counting = Stage(harness, objectives=(objective,)), Counting(harness.backend, harness.clock)
    counting.count(Move.DIE, *[Move.COMPLETE] * 9)
    run_without_loop(counting.publish())
    stage.round()
    words = "objective mail arrives: its budget is spent 10.0 times too fast, in the last"
    assert stage.firing()["budget_burn_slow"] == f"{words} six hours and half hour"
    assert "budget_burn_fast" not in stage.firing()
    counting.count(Move.DIE)
    run_without_loop(counting.publish())
    stage.round()
    assert stage.firing().keys() >= {"budget_burn_slow", "budget_burn_fast"}


def test_the_budget_of_another_app_burns_on_until_it_is_promised_no_more(harness: Harness) -> None:
    """Also where an app with other objectives, or with none, looks."""
    mail = Objective(name="mail arrives", target=0.9, task="send")
    stage, counting = Stage(harness, objectives=(mail,)), Counting(harness.backend, harness.clock)
    others = [
        Monitor(msgspec.structs.replace(stage.watching, objectives=each), app="other") for each in ((), (MORE,))
    ]
    counting.count(Move.DIE)
    run_without_loop(counting.publish())
    stage.run(publish(harness.verbs, Catalogue("shop", "1", harness.clock.now(), "web", "0", objectives=(mail,))))
    stage.round()
    for other in others:
        stage.round(other)
        assert "budget_burn_slow" in stage.firing()
    harness.clock.advance(1)
    stage.run(publish(harness.verbs, Catalogue("shop", "2", harness.clock.now(), "web", "0")))
    stage.round(others[0])
    assert "budget_burn_slow" not in stage.firing()


def test_jobs_that_start_late_break_a_rule_about_that(harness: Harness) -> None:
    lag = AlertRule(name="lag", check=Check.START_LAG, above=5, queue="mail", at_least=3)
    stage, counting = Stage(harness, lag), Counting(harness.backend, harness.clock)
    worker = harness.register()
    harness.run(harness.verbs.beat([WorkerBeat(worker, vitals=Vitals(done=4))]))
    counting.count(*[Move.COMPLETE] * 4, late=8.0)
    run_without_loop(counting.publish())
    stage.round()
    assert "queue mail: 5 % of the jobs of the last 5 min started 8 s late or more" in stage.firing()["lag"]


def test_a_schedule_that_was_missed_lately_is_told_though_long_planned(harness: Harness) -> None:
    """It is told when the fleet is back, and resolved a while later."""
    stage = Stage(harness)
    planned = harness.clock.now() - timedelta(days=2)
    missed = harness.new_fire("nightly", planned=planned, decision=Decision.MISSED, count=3, until=planned)
    fired = harness.new_fire("hourly")
    harness.change("nightly", fires=(missed,))
    harness.change("hourly", fires=(fired,))
    stage.round()
    assert stage.firing().keys() == {"schedule_missed"}
    assert "schedule nightly: nobody was there 3 times" in stage.firing()["schedule_missed"]
    harness.clock.advance(901)
    stage.round()
    assert "schedule_missed" not in stage.firing()


def test_a_time_that_was_fired_ahead_counts_as_missed_if_its_job_started_when_somebody_was_back(
    harness: Harness,
) -> None:
    """Its fire says that all is well. Whoever looks next sees the same, and tells nothing."""
    stage = Stage(harness)
    made_at, planned = harness.clock.now(), harness.clock.now() + timedelta(seconds=5)
    job = harness.enqueue(queue="night", run_at=planned)
    fire = harness.new_fire("nightly", planned=planned, job_id=job)
    plan = Plan(Every(86_400), Template("send", b"{}"), created_at=made_at, cursor=planned)
    harness.change("nightly", body=encode_plan(plan), fires=(fire,))
    harness.clock.advance(4 * 3600)
    stage.began_at = harness.clock.now()
    worker = harness.register(lease=10_000)
    stage.round()
    assert stage.firing().keys() == {"queue_age"}
    harness.start(worker, harness.claim_one(worker, queues=("night",)))
    for keeper in (stage.keeper, stage.another()):
        stage.round(keeper)
        assert "nobody was there 1 time" in stage.firing()["schedule_missed"]
    assert [notice.rule for notice in stage.history()].count("schedule_missed") == 1
    harness.clock.advance(901)
    stage.round()
    assert "schedule_missed" not in stage.firing()


def test_a_schedule_that_is_due_and_that_nobody_fires_is_late(harness: Harness) -> None:
    stage = Stage(harness)
    harness.change("nightly", due_at=harness.clock.now())
    stage.round()
    assert stage.firing() == {}
    harness.clock.advance(61)
    stage.round()
    assert stage.firing() == {"schedule_late": "schedule nightly was due 1 min 1 s ago, and nobody has fired it"}


def test_a_schedule_is_late_by_the_time_that_is_planned(harness: Harness) -> None:
    """Not by when it was to be looked at, which is some seconds before."""
    stage = Stage(harness)
    made_at = harness.clock.now()
    plan = Plan(Every(3600), Template("send", b"{}"), created_at=made_at, cursor=made_at)
    harness.change("hourly", body=encode_plan(plan), due_at=made_at + timedelta(seconds=3590))
    harness.clock.advance(3659)
    stage.round()
    assert stage.firing() == {}
    harness.clock.advance(3)
    stage.round()
    assert stage.firing() == {"schedule_late": "schedule hourly was due 1 min 2 s ago, and nobody has fired it"}


@pytest.mark.parametrize("body", [b"?", b"naive"])
def test_a_schedule_that_nobody_can_read_or_reckon_with_is_late_as_well(harness: Harness, body: bytes) -> None:
    """By when it was to be looked at; whoever wrote it."""
    stage = Stage(harness)
    now = harness.clock.now()
    if body == b"naive":
        body = encode_plan(Plan(Every(3600), Template("send", b"{}"), now, cursor=now.replace(tzinfo=None)))
    harness.change("hourly", body=body, due_at=now)
    harness.clock.advance(61)
    stage.round()
    assert stage.firing().keys() == {"schedule_late"}


def test_a_job_that_runs_for_longer_than_its_timeout_or_the_rule_says(harness: Harness) -> None:
    """Counted from when it began, not from when it was due."""
    rule = AlertRule(name="long", check=Check.JOB_TOO_LONG, above=600, task="slow")
    stage = Stage(harness, rule, timeouts={"quick": 30.0})
    harness.clock.advance(1000)
    for task in ("quick", "slow", "free"):
        worker = harness.register(lease=10_000)
        harness.enqueue(task=task, run_at=harness.clock.now() - timedelta(seconds=900))
        harness.start(worker, harness.claim_one(worker))
    harness.clock.advance(39)
    stage.round()
    assert stage.firing() == {}
    harness.clock.advance(2)
    stage.round()
    assert stage.firing().keys() == {"job_too_long"}
    harness.clock.advance(600)
    stage.round()
    assert stage.firing().keys() >= {"job_too_long", "long"}
    assert "task slow: job" in stage.firing()["long"]
    assert "runs for 10 min" in stage.firing()["long"]


def test_a_job_without_a_timeout_is_told_when_it_has_run_for_an_hour(harness: Harness) -> None:
    """On from the start: a handler that hangs. Not a task that has a longer timeout, nor that of another app."""
    stage = Stage(harness, timeouts={"endless": None, "import": 7200.0})
    harness.clock.advance(1000)
    for task in ("endless", "import", "foreign"):
        worker = harness.register(lease=20_000)
        harness.enqueue(task=task)
        harness.start(worker, harness.claim_one(worker))
    harness.clock.advance(3599)
    stage.round()
    assert "job_too_long" not in stage.firing()
    harness.clock.advance(2)
    stage.round()
    [alert] = [each for each in stage.board().firing if each.rule == "job_too_long"]
    assert (alert.subject, alert.count) == ("endless", 1)
    assert alert.says.endswith("runs for 1 h, and its task has no timeout")


def test_of_many_jobs_that_run_the_oldest_is_not_overlooked(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "RUNNING", 2)
    stage = Stage(harness, AlertRule(name="long", check=Check.JOB_TOO_LONG, above=600))
    worker = harness.register(lease=10_000)
    for age in (601, 0, 0, 0, 0):
        harness.enqueue()
        harness.start(worker, harness.claim_one(worker))
        harness.clock.advance(age)
    stage.round()
    assert stage.firing().keys() == {"long"}


def test_incidents_and_hosts_that_do_not_answer_are_told_apart(harness: Harness) -> None:
    """A picture that somebody asked for is nothing; what is old is nothing."""
    stage = Stage(harness)
    now = harness.clock.now()
    for number, (trouble, age) in enumerate(
        [
            (Trouble.CRASH, 10),
            (Trouble.CRASH, 20),
            (Trouble.SNAPSHOT, 5),
            (Trouble.LOST, 700),
            (Trouble.UNREACHABLE, 9),
        ]
    ):
        at = now - timedelta(seconds=age)
        incident = Incident(
            id=f"i{number}", trouble=trouble, summary=f"no. {number}", at=at, last_at=at, fingerprint="f"
        )
        run_procedure(harness.backend.run, write_incident(harness.verbs, incident))
    stage.round()
    assert stage.firing() == {"incident": "2 incidents (crash), the last: no. 0", "keep_alive": "no. 4"}


def test_what_the_process_measures_itself(harness: Harness) -> None:
    """A store that is slow for long enough, and a disk that is full; a burn rate, where somebody looks."""
    stage = Stage(harness)
    stage.here = {"store_seconds": 2.5, "disks": {"web:/data": 0.95, "web:/tmp": 0.1}}
    stage.round()
    assert stage.firing() == {"disk_full": "the disk of web:/data is 95% full: make room"}
    harness.clock.advance(31)
    stage.round()
    assert stage.firing().keys() == {"disk_full", "store_slow"}


def test_who_looks_at_something_else_says_nothing_of_what_it_measures(harness: Harness) -> None:
    """For whom the store is fast is no reason to say that it is fast for who has the turn."""
    stage = Stage(harness)
    stage.here = {"store_seconds": 2.5}
    stage.round()
    harness.clock.advance(31)
    stage.round()
    here = LocalView(stage.began_at, store_seconds=0.01, disks={})
    stage.run(stage.another().round(harness.verbs, {Check.INCIDENT}, here))
    assert stage.firing().keys() == {"store_slow"}


def test_a_full_disk_is_over_when_its_machine_says_so_or_is_gone(harness: Harness) -> None:
    """Another machine, whose turn it is as well, knows nothing of it."""
    stage = Stage(harness)
    worker = harness.register()
    host = harness.run(harness.verbs.workers())[0].info.host
    full, elsewhere = {f"{host}:/data": 0.95}, {"other:/data": 0.1}
    for disks, fires in ((full, True), (elsewhere, True), ({f"{host}:/data": 0.5}, False), (full, True)):
        stage.here = {"disks": disks}
        stage.round()
        assert ("disk_full" in stage.firing()) is fires
    harness.run(harness.verbs.bury(worker, Death(DeathKind.STOPPED)))
    stage.here = {"disks": elsewhere}
    stage.round()
    assert "disk_full" not in stage.firing()


def test_a_store_that_may_lose_jobs(harness: Harness) -> None:
    """Whatever else is found, and what only may do harm, is another matter."""
    stage = Stage(harness)
    stage.here = {
        "findings": (
            Finding.problem("durability", "appendonly is no", "set it to yes"),
            Finding.warning("eviction", "it may evict jobs", "forbid that"),
            Finding.problem("version", "it is old", "upgrade it"),
        )
    }
    stage.round()
    [alert] = stage.board().firing
    assert (alert.rule, alert.severity) == ("not_durable", Severity.CRITICAL)
    assert alert.says == "the store may lose jobs: appendonly is no; set it to yes"
