"""`standfast schedules edit`: change when a schedule fires, or what it enqueues."""

from functools import partial
from typing import Any

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.schedules_job import JobWish, job_options
from standfast.cli.schedules_rule import RuleWish, default_hidden, rule_options
from standfast.cli.scheduleview import say_next, schedule_fields, see
from standfast.cli.target import app_dir_option, find_meant
from standfast.cli.timetable import open_timetable
from standfast.policy.problems import name_problems, refuse_any
from standfast.words import one_line


@click.command(
    epilog=examples(
        "standfast schedules edit nightly --cron '30 3 * * *'",
        "standfast schedules edit nightly --overlap queue_one --misfire all",
        "standfast schedules edit nightly --end none --exclude none",
        "standfast schedules edit nightly --kwarg month=4 --queue reports",
    )
)
@click.argument("name")
@click.option("--task", metavar="NAME", help="Run another task.")
@rule_options(default_hidden)
@job_options(default_hidden)
@app_dir_option
@about_a_store
def edit(wanted: Wanted, /, *, name: str, task: str | None, target: str | None, app_dir: str, **given: Any) -> None:
    """Change a schedule; what is not said stays as it is.

    --cron, --every and --at take the place of the times it has, and --exclude of what it excludes; `none` takes
    --start, --end, --exclude and --catch-up-window back. What it has fired ahead of its time is withdrawn, unless a
    worker has it.
    """
    rule, job = RuleWish.take(given), JobWish.take(given)
    if rule.is_empty and job.is_empty and task is None and target is None:
        raise wrong_usage("nothing is to be changed; say what, as in --cron '30 3 * * *' or --overlap allow")
    if task is not None:
        refuse_any(name_problems("task", task))
    meant = find_meant(wanted, target, app_dir)
    change = partial(job.change, task=task, app=meant.app)
    with open_timetable(meant.loaded.settings) as timetable:
        changing = timetable.schedules.edit(name, rule=None if rule.is_empty else rule.change, job=change)
        seen, idle = see(timetable, timetable.call(changing)), timetable.nobody_fires()
    if wanted.as_json:
        say_json({**schedule_fields(seen), "checked": meant.app is not None})
        return
    say(f"Schedule '{one_line(name)}' is changed: it fires {seen.words}.")
    say_next(seen, idle=idle)
    origin = seen.schedule.plan.origin
    if origin is not None:
        say(f"{origin.app} declares it in code: it stays changed until that declaration is changed.")
