"""Something of each kind to which an operation of the dashboard can be done, and what to ask for."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard_alerts import alert, publish_watching, put
from dashboard_stage import Stage
from standfast.admin.registry import OPERATIONS, AnyOperation
from standfast.durable.lockstate import LockRequest, take
from standfast.model.alerts import AlertRule, Check
from standfast.model.ids import new_job_id
from standfast.model.incidents import Incident, Trouble
from standfast.model.records import Kind
from standfast.observe.alerts.board_changes import add_rule, add_silence
from standfast.observe.incidents import write_incident
from standfast.schedules.fires import create
from standfast.schedules.rules import Cron
from standfast.schedules.schedule import Template
from standfast.stores.sqlite.store import SqliteBackend
from standfast.stores.values import WorkerInfo

ACTS = tuple(operation for operation in OPERATIONS if operation.changes)


def targets(folder: Path) -> dict[str, dict[str, Any]]:
    """Put them into the store in a folder; return what to ask of each operation so that it does something."""
    with closing(SqliteBackend(folder / "jobs.db")) as backend:
        stage = Stage(lambda _clock: backend)
        try:
            made = _made(stage)
        finally:
            stage._runner.close()
    assert made.keys() == {operation.name for operation in ACTS}
    return made


def _made(stage: Stage) -> dict[str, dict[str, Any]]:
    do, verbs = stage.do, stage.verbs
    dead = [stage.dead(task="plain") for _ in range(4)]
    many = stage.dead(task="many")
    counted = stage.read("jobs.count", task="many", action="retry")
    waiting = [stage.enqueue("plain", "later", delay=timedelta(hours=1)) for _ in range(4)]
    now = datetime.now(UTC)
    for name in ("trigger", "pause", "edit", "backfill", "delete"):
        do(create(verbs, name, Cron("0 2 * * *"), Template("plain", b'{"v":1,"args":{}}'), timedelta()))
    do(verbs.register(WorkerInfo("plain-worker", "s9", "web-09", 1, timedelta(hours=1), None, 2)))
    do(take(verbs, Kind.LOCK, "plain-lock", LockRequest("b", timedelta(hours=1), owner="somebody")))
    incident = Incident(id=new_job_id(), trouble=next(iter(Trouble)), summary="plain", at=now, last_at=now)
    do(write_incident(verbs, incident))
    publish_watching(stage)
    put(stage, alert(stage))
    do(add_rule(verbs, AlertRule(name="added", check=Check.QUEUE_AGE, above=60)))
    silence = do(add_silence(verbs, "incident", None, timedelta(hours=1)))
    bulk = {"task": "many", "action": "retry", "expected": counted.count, "confirm": counted.confirm}
    assert (counted.count, stage.job(many).state) == (1, "dead")
    return {
        "jobs.bulk": bulk,
        "jobs.retry": {"id": dead[0]},
        "jobs.discard": {"id": dead[1]},
        "jobs.edit_and_retry": {"id": dead[2], "args": {"to": "x"}},
        "jobs.clone": {"id": dead[3]},
        "jobs.cancel": {"id": waiting[0]},
        "jobs.reschedule": {"id": waiting[1], "at": "2h"},
        "jobs.signal": {"id": waiting[2], "name": "go"},
        "queues.pause": {"name": "mail"},
        "queues.resume": {"name": "mail"},
        "schedules.trigger": {"name": "trigger"},
        "schedules.pause": {"name": "pause"},
        "schedules.resume": {"name": "pause"},
        "schedules.edit": {"name": "edit", "cron": "0 3 * * *"},
        "schedules.backfill": {"name": "backfill", "since": "2d"},
        "schedules.delete": {"name": "delete"},
        "workers.recycle": {"id": "plain-worker"},
        "workers.dump": {"id": "plain-worker"},
        "workers.drain": {"id": "plain-worker"},
        "locks.release": {"name": "plain-lock"},
        "incidents.forget": {"id": incident.id},
        "alerts.acknowledge": {"id": "a1"},
        "alerts.unacknowledge": {"id": "a1"},
        "alerts.silence": {"rule": "queue_age", "until": "2h"},
        "alerts.unsilence": {"id": silence.id},
        "channels.test": {"name": "ops"},
        "rules.change": {"name": "queue_age", "above": 20},
        "rules.off": {"name": "queue_age"},
        "rules.on": {"name": "queue_age"},
        "rules.reset": {"name": "queue_age"},
        "rules.add": {"name": "mail waits", "check": "queue_age", "queue": "mail", "above": 60},
        "rules.remove": {"name": "added"},
    }


def api_path(operation: AnyOperation, asked: dict[str, Any]) -> str:
    """Return where the API does it."""
    return f"/api/v1{operation.path.format(**asked)}"


def api_body(operation: AnyOperation, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked besides what the path names."""
    return {name: value for name, value in asked.items() if f"{{{name}}}" not in operation.path}
