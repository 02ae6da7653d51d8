"""Queues, workers, schedules, incidents, figures, tasks, audit and settings, as they are told."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard_stage import SECRET, SMTP, WORKER
from standfast.admin.operation import NotThereError
from standfast.errors import IncidentNotFoundError, ScheduleNotFoundError
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.records import Change, Kind, writing
from standfast.model.states import Move
from standfast.observe.catalogue import Bound, Catalogue, Parameter, QueueEntry, TaskEntry, publish
from standfast.observe.figures.counts import COMPLETED, DEAD, FAILED, RUN, new_count, to_rows
from standfast.observe.figures.rollup import MINUTE, Gauges, QueueGauge, Rollup
from standfast.observe.incidents import write_incident
from standfast.schedules.fires import create
from standfast.schedules.rules import Cron
from standfast.schedules.schedule import Template


def catalogue(stage):
    task = TaskEntry("send_email", queue="mail", doc="Send it.", parameters=(Parameter("to", "str"),))
    queues = (QueueEntry("mail", Bound(3)), QueueEntry("empty"))
    stage.do(publish(stage.verbs, Catalogue("shop", "1", stage.clock.now(), "web-01", "0", (task,), queues)))


def test_queues_tell_counts_age_and_who_serves_them(stage):
    """Also those that are empty, and that an app or a worker names."""
    catalogue(stage)
    stage.register(queues=("mail", "web"))
    stage.enqueue(queue="mail")
    stage.clock.advance(5)
    queues = {row.name: row for row in stage.read("queues.list").queues}
    assert list(queues) == ["empty", "mail", "web"]
    mail = queues["mail"]
    assert (mail.states["ready"], mail.oldest_age, mail.workers, mail.places) == (1, 5.0, 1, 20)
    assert tuple(map(str, mail.limits)) == ("3 at a time in each process",)
    assert (queues["empty"].workers, queues["web"].workers) == (0, 1)
    assert stage.read("queues.show", name="mail").served_by == (WORKER,)
    with pytest.raises(NotThereError):
        stage.read("queues.show", name="nix")


def test_workers_tell_what_they_have_in_hand(stage):
    """A worker, its pulse, and its jobs."""
    job = stage.running()
    [row] = stage.read("workers.list").workers
    assert (row.id, row.live, row.running, row.host) == (WORKER, True, 1, "web-01")
    assert [each.id for each in stage.read("workers.show", id=WORKER).jobs] == [job]
    stage.clock.advance(60)
    assert stage.read("workers.show", id=WORKER).live is False
    with pytest.raises(NotThereError):
        stage.read("workers.show", id="nix")


def test_schedules_tell_when_and_what_became_of_it(stage):
    """In plain words, with times to come, secrets masked; one that cannot be read is told as such."""
    template = Template("send_email", SECRET, queue="mail")
    stage.do(create(stage.verbs, "nightly", Cron("0 2 * * *", tz="Asia/Taipei"), template, timedelta()))
    stage.do(stage.verbs.change_records([Change(Kind.SCHEDULE, "broken", 0, "t", b"{}")]))
    broken, nightly = stage.read("schedules.list").schedules
    assert (broken.state, broken.problem is None) == ("unreadable", False)
    assert (nightly.state, str(nightly.words)) == ("active", "at 02:00 every day, Asia/Taipei time")
    seen = stage.read("schedules.show", name="nightly")
    assert len(seen.next) == 10
    assert (seen.args["token"].secret, seen.rule["rule"]) == (True, "cron")
    triggered = stage.act("schedules.trigger", name="nightly").job
    assert [(fire.job, fire.cause) for fire in stage.read("schedules.show", name="nightly").fires] == [
        (triggered, "trigger")
    ]
    with pytest.raises(ScheduleNotFoundError):
        stage.read("schedules.show", name="nix")


def test_a_schedule_whose_last_job_is_dead_is_failing(stage):
    """And is told so in the list."""
    stage.do(create(stage.verbs, "nightly", Cron("0 2 1 1 *"), Template("x", b"{}"), timedelta()))
    job = stage.act("schedules.trigger", name="nightly").job
    assert stage.read("schedules.list").schedules[0].failing is False
    stage.end(job, Move.DIE, failure=SMTP)
    assert stage.read("schedules.list").schedules[0].failing is True


def test_incidents_with_their_evidence(stage):
    """Found by id or its end, with what has become of their jobs; long evidence is cut."""
    job = stage.dead()
    now = stage.clock.now()
    incident = Incident(
        id="0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f",
        trouble=Trouble.OUT_OF_MEMORY,
        summary="took 9 GB",
        at=now,
        last_at=now,
        jobs=(InvolvedJob(job, 1),),
    )
    stage.do(write_incident(stage.verbs, incident, Evidence({"stacks": "x" * 60_000})))
    [row] = stage.read("incidents.list", trouble=Trouble.OUT_OF_MEMORY, job=job).rows
    assert (row.words, row.jobs[0].task, row.jobs[0].state) == ("out of memory", "send_email", "dead")
    assert stage.read("incidents.list", trouble=Trouble.CRASH).rows == ()
    assert stage.read("incidents.list", before=incident.id).rows == ()
    seen = stage.read("incidents.show", id="3c2d1e0f")
    assert (seen.id, seen.evidence["stacks"].cut, seen.evidence["stacks"].size) == (incident.id, True, 60_000)
    shown = stage.read("jobs.show", id=job)
    assert (shown.incidents, shown.incident_rows[0].id) == ((incident.id,), incident.id)
    stage.act("incidents.forget", id=incident.id)
    with pytest.raises(IncidentNotFoundError):
        stage.read("incidents.show", id=incident.id)


def test_figures_have_a_point_for_each_step(stage):
    """Also where nothing happened."""
    for span, points in [("1h", 61), ("6h", 181), ("24h", 145), ("7d", 169), ("30d", 241)]:
        seen = stage.read("figures.show", span=span)
        assert points - 1 <= len(seen.points) <= points, span
    assert stage.read("figures.show", queue="mail", task="x").completed == 0


def test_figures_tell_what_workers_counted(stage):
    """Of all, of a queue and of a task; the list of queues has the same in short."""
    minute = int(stage.clock.now().timestamp()) // 60 * 60 - 120
    counts = {("mail", "send"): new_count(), ("web", "crawl"): new_count()}
    counts["mail", "send"][COMPLETED], counts["mail", "send"][DEAD], counts["web", "crawl"][FAILED] = 7, 2, 3
    counts["mail", "send"][RUN + 10] = 7
    gauges = Gauges(1, 0, (QueueGauge("mail", 4, 1.5),))
    page = Rollup(to_rows(counts), gauges)
    stage.do(stage.verbs.change_records([writing(Kind.FIGURES, MINUTE.name(minute), page, stage.clock.now())]))
    seen = stage.read("figures.show")
    assert (seen.completed, seen.failed, seen.dead) == (7, 3, 2)
    assert [(each.task, each.completed) for each in seen.tasks] == [("send", 7), ("crawl", 0)]
    [point] = [each for each in seen.points if each.completed]
    assert (point.depth, point.age, point.run_p50 > 0) == (4, 1.5, True)
    assert (stage.read("figures.show", queue="web").completed, stage.read("figures.show", task="send").failed) == (
        0,
        0,
    )
    stage.enqueue(queue="mail")
    [row] = stage.read("queues.list").queues
    assert [(each.completed, each.dead, each.depth) for each in row.points if each.completed] == [(7, 2, 4)]


def test_tasks_are_those_that_workers_told_of(stage):
    """With their parameters."""
    catalogue(stage)
    [task] = stage.read("tasks.list").tasks
    assert (task.name, task.app, task.about, task.parameters[0].name) == ("send_email", "shop", "Send it.", "to")
    assert "send_email" in stage.read("jobs.list").tasks


def test_settings_tell_where_they_come_from(stage):
    """And no password."""
    seen = stage.read("settings.show")
    by_name = {each.name: each for each in seen.settings}
    assert (by_name["url"].value, by_name["url"].where) == ("memory", "the code")
    assert by_name["lease"].where == "default"


def test_what_was_done_is_told_newest_first(stage):
    """Who, what, before and after, and what was refused."""
    stage.act("queues.pause", name="mail")
    stage.act("queues.resume", name="mail")
    newest, first = stage.read("audit.list").entries
    assert (newest.what, str(newest.after), first.what, str(first.before)) == (
        "queues.resume",
        "open",
        "queues.pause",
        "open",
    )
    assert (first.who, first.by, first.asked) == ("ada", "api", {"name": "mail"})
    assert first.at <= datetime.now(UTC) + timedelta(days=1)
    assert len(stage.read("audit.list", limit=1).entries) == 1
    assert stage.read("audit.list", what="queues.pause").entries == (first,)
