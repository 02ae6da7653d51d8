"""Schedules in the world of the command line, and an app that knows their tasks."""

import importlib
from datetime import UTC, datetime, timedelta
from itertools import count
from textwrap import dedent
from uuid import uuid4

from standfast.model.records import Change, Kind
from standfast.schedules.schedule import Plan, Template, encode_plan, read_schedule

_NUMBERS = count()

APP = """
    from datetime import date
    from typing import Annotated

    from standfast import Context, Cron, Standfast, Secret

    app = Standfast("{url}")

    @app.task(queue="reports", max_attempts=2, schedule=Cron("0 2 * * *"){more})
    def report(ctx: Context, day: date = date(2026, 1, 1), token: Annotated[str, Secret] = "") -> None: ...

    @app.task(schedule=Cron("0 3 * * *"))
    def tidy() -> None: ...
"""


def now():
    return datetime.now(UTC)


def ago(**span):
    return now() - timedelta(**span)


def keep(
    world, name, rule, *, fires=(), due_at=None, payload=b'{"v":1,"args":{}}', task="report", over=False, **plan
):
    """Put a schedule into the store as it would be after some time, or when all its times are over."""
    made = plan.setdefault("created_at", ago(days=1))
    plan.setdefault("cursor", made)
    body = encode_plan(Plan(rule, Template(task, payload), **plan))
    change = Change(Kind.SCHEDULE, name, 0, str(uuid4()), body, None if over else due_at or now(), tuple(fires))
    assert world.do(world.verbs.change_records([change])) == (True,)


def plan_of(world, name):
    (record,) = world.do(world.verbs.records(Kind.SCHEDULE, (name,)))
    return read_schedule(record).plan


def fires_of(world, name):
    return world.do(world.verbs.fires(name, 1000))


def write_app(folder, url, text=APP, more=""):
    """Write an app into a folder; return its MODULE:APP, whose module nobody has imported yet."""
    module = f"cli_app_{next(_NUMBERS)}"
    (folder / f"{module}.py").write_text(dedent(text).format(url=url, more=more))
    importlib.invalidate_caches()
    return f"{module}:app"
