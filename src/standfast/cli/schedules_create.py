"""`standfast schedules create`: a schedule that no code declares."""

from typing import Any

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.schedules_job import JobWish, job_options, positional_option
from standfast.cli.schedules_rule import RuleWish, default_shown, rule_options
from standfast.cli.scheduleview import say_next, schedule_fields, see
from standfast.cli.target import app_dir_option, find_meant
from standfast.cli.timetable import open_timetable
from standfast.schedule import errands
from standfast.schedule.plan import Schedule
from standfast.words import counted, one_line


@click.command(
    epilog=examples(
        "standfast schedules create nightly report --cron '0 2 * * *' --tz Asia/Taipei",
        "standfast schedules create poll poll_orders --every 15m --overlap allow",
        "standfast schedules create launch announce --at 2026-03-01T09:00+08:00",
        "standfast schedules create digest send_digest --cron '0 8 * * mon-fri' \\",
        "      --kwarg to='\"team@example.com\"' --exclude 12-25 --app shop.jobs:app",
        "standfast schedules create tidy tidy_up --every 1h --exclude '03:00-03:15 recycle'",
    )
)
@click.argument("name")
@click.argument("task")
@rule_options(default_shown)
@positional_option
@job_options(default_shown)
@app_dir_option
@about_a_store
def create(wanted: Wanted, /, *, name: str, task: str, target: str | None, app_dir: str, **given: Any) -> None:
    """Make a schedule that runs TASK.

    Several of --cron, --every and --at mean all of their times. A TIME without a zone is read by the clock of --tz.
    Arguments are JSON; with --app they are checked against the task, and what is not said comes from its policy.
    """
    args = given.pop("args")
    rule, job = RuleWish.take(given).make(), JobWish.take(given)
    meant = find_meant(wanted, target, app_dir)
    made = job.make(name, task, rule, args, meant.app)
    with open_timetable(meant.loaded.settings) as timetable:
        creating = errands.create(timetable.backend.verbs, made.name, made.rule, made.job, timetable.ahead)
        schedule = timetable.call(creating)
        seen, idle = see(timetable, schedule), timetable.nobody_fires()
    if wanted.as_json:
        say_json({**schedule_fields(seen), "checked": meant.app is not None})
        return
    say(f"Schedule '{one_line(name)}' is made: it fires {seen.words}.")
    say_next(seen, idle=idle)
    if meant.app is None:
        _say_unchecked(schedule)


def _say_unchecked(schedule: Schedule) -> None:
    """Say that nobody has looked whether there is such a task, and whether the arguments fit it."""
    job = schedule.plan.job
    say(
        f"Stored as given: it was not checked that there is a task '{one_line(job.task)}' and that its arguments"
        f" fit. Its jobs go to queue '{job.queue}' and have {counted(job.max_attempts, 'attempt')}."
        " --app MODULE:APP checks it, and takes from the task what is not said."
    )
