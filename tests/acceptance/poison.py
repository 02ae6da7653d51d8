"""A store full of texts that somebody would have run elsewhere: in a browser, a spreadsheet, a template."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard_alerts import alert, put_board
from dashboard_stage import WORKER, Stage
from standfast.durable.lockstate import LockRequest, take
from standfast.model.alerts import AlertRule, Check, Example, Notice, NoticeKind, Objective, Severity
from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.job import Failure, Progress
from standfast.model.records import Kind
from standfast.model.states import Move
from standfast.observe.alerts.board import Published
from standfast.observe.alerts.board_changes import add_silence
from standfast.observe.catalogue import Catalogue, Parameter, QueueEntry, TaskEntry, publish
from standfast.observe.incidents import write_incident
from standfast.schedules.fires import create
from standfast.schedules.rules import Cron
from standfast.schedules.schedule import Template
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import WorkerInfo

SECRET = "hunter2-hunter2-hunter2"
FIELDS = """
    task queue key tag argument metadata error traceback log note schedule why worker host lock owner incident
    evidence parameter doc app result rule subject alert example notice silence channel objective
""".split()  # noqa: SIM905 - as a list it would be a page long
POISON = {
    name: f"{name}'\"><x-{name} onerror=alert(1)></x-{name}><script>{name}()</script>{{{{7*7}}}}" for name in FIELDS
}
"""For each kind of text that people or programs give, one that would be an element if it were not escaped."""


def poison(folder: Path) -> dict[str, str]:
    """Fill the store in a folder with them; return the ids of what bears them."""
    with closing(SqliteBackend(folder / "jobs.db")) as backend:
        stage = Stage(lambda _clock: backend)
        try:
            return _filled(stage)
        finally:
            stage._runner.close()


def _filled(stage: Stage) -> dict[str, str]:
    do, verbs, bad = stage.do, stage.verbs, POISON
    args = json.dumps({"v": 1, "args": {"argument": bad["argument"]}, "secret": {"token": SECRET}}).encode()
    how = {
        "task": bad["task"],
        "queue": bad["queue"],
        "payload": args,
        "tags": (bad["tag"],),
        "metadata": {"m": bad["metadata"]},
    }
    failure = Failure(bad["error"], bad["error"], bad["traceback"])
    dead = stage.enqueue(key=bad["key"], max_attempts=1, **how)
    stage.end(dead, Move.DIE, failure=failure, log=bad["log"])
    done = stage.end(stage.enqueue(**how), Move.COMPLETE, result=json.dumps(bad["result"]).encode())
    running = stage.enqueue(**how)
    ref = stage._claim(running)
    do(verbs.start(WORKER, [(ref, stage.clock.now())]))
    do(verbs.progress(WORKER, [(ref, Progress(1, 2, bad["note"]))]))
    do(verbs.register(WorkerInfo(bad["worker"], "s2", bad["host"], 1, timedelta(hours=1), (bad["queue"],), 2)))
    template = Template(bad["task"], args, queue=bad["queue"])
    do(create(verbs, bad["schedule"], Cron("0 2 * * *"), template, timedelta()))
    stage.act("schedules.pause", name=bad["schedule"], why=bad["why"])
    do(take(verbs, Kind.LOCK, bad["lock"], LockRequest("b", timedelta(hours=1), owner=f"{bad['owner']} {running}")))
    now = datetime.now(UTC)
    incident = Incident(
        id=new_job_id(),
        trouble=next(iter(Trouble)),
        summary=bad["incident"],
        at=now,
        last_at=now,
        host=bad["host"],
        worker=bad["worker"],
        jobs=(InvolvedJob(dead, 1, bad["task"]),),
    )
    do(write_incident(verbs, incident, Evidence({bad["evidence"]: bad["evidence"]})))
    parameter = Parameter(bad["parameter"], bad["parameter"])
    task = TaskEntry(bad["task"], queue=bad["queue"], doc=bad["doc"], parameters=(parameter,))
    queues = (QueueEntry(bad["queue"]),)
    promised = (Objective(name=bad["objective"], task=bad["task"], target=0.9),)
    told = Catalogue(bad["app"], bad["app"], now, bad["host"], "0", (task,), queues, objectives=promised)
    do(publish(verbs, told))
    _alerted(stage)
    return {"dead": dead, "done": done, "running": running, "incident": incident.id}


def _alerted(stage: Stage) -> None:
    bad = POISON
    rule = AlertRule(
        name=bad["rule"], check=Check.QUEUE_AGE, above=1.0, queue=bad["queue"], channels=(bad["channel"],)
    )
    examples = tuple(Example(kind, bad["example"], bad["example"]) for kind in ("job", "worker", "disk"))
    fires = alert(
        stage, bad["rule"], rule=bad["rule"], subject=bad["subject"], says=bad["alert"], examples=examples
    )
    told = Notice(
        id=bad["notice"],
        kind=NoticeKind.FIRING,
        at=stage.clock.now(),
        rule=bad["rule"],
        severity=Severity.WARNING,
        title=bad["notice"],
        alerts=(fires,),
    )
    published = Published((rule,), (bad["channel"],), stage.clock.now())
    put_board(stage, alerts=(fires,), outbox=(told,), apps={bad["app"]: published})
    stage.do(add_silence(stage.verbs, bad["rule"], "x", timedelta(hours=1), why=bad["silence"], by=bad["silence"]))
