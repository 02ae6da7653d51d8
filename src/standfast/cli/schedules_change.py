"""`standfast schedules pause`, `resume`, `trigger` and `delete`."""

import shlex

import click

from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples, yes_option
from standfast.cli.output import say, say_json
from standfast.cli.scheduleview import say_next, see
from standfast.cli.timetable import open_timetable
from standfast.words import dated, one_line


@click.command(
    epilog=examples(
        "standfast schedules pause nightly", "standfast schedules pause nightly --why 'the disk is full'"
    )
)
@click.argument("name")
@click.option("--why", metavar="TEXT", help="The reason, for those who look at it later.")
@about_a_store
def pause(wanted: Wanted, name: str, why: str | None) -> None:
    """Let a schedule fire no more until it is resumed.

    Jobs that it has fired ahead of their time are cancelled; those that run go on.
    """
    with open_timetable(wanted.settings) as timetable:
        before = timetable.call(timetable.schedules.get(name)).plan
        plan = timetable.call(timetable.schedules.pause(name, why)).plan
    if wanted.as_json:
        say_json({"schedule": name, "paused_at": plan.paused_at, "why": plan.paused_why})
        return
    if before.paused_at is not None:
        told = f": {one_line(before.paused_why)}" if before.paused_why else ""
        say(f"Schedule '{one_line(name)}' is paused already, since {dated(before.paused_at, timetable.now)}{told}.")
        return
    undo = f"standfast schedules resume {shlex.quote(one_line(name))}"
    say(f"Schedule '{one_line(name)}' is paused; jobs that run go on. `{undo}` undoes it.")


@click.command(epilog=examples("standfast schedules resume nightly"))
@click.argument("name")
@about_a_store
def resume(wanted: Wanted, name: str) -> None:
    """Let a paused schedule fire again, from now on.

    What was planned meanwhile is not made up for; `standfast schedules backfill` does that.
    """
    with open_timetable(wanted.settings) as timetable:
        was_paused = timetable.call(timetable.schedules.get(name)).plan.paused_at is not None
        seen = see(timetable, timetable.call(timetable.schedules.resume(name)))
        idle = timetable.nobody_fires()
    if wanted.as_json:
        say_json(
            {"schedule": name, "state": seen.standing, "next": None if seen.next is None else seen.next.planned}
        )
        return
    say(f"Schedule '{one_line(name)}' {'goes on' if was_paused else 'is not paused'}.")
    say_next(seen, idle=idle)


@click.command(epilog=examples("standfast schedules trigger nightly", "standfast schedules trigger nightly --json"))
@click.argument("name")
@about_a_store
def trigger(wanted: Wanted, name: str) -> None:
    """Fire a schedule once, now, and print the id of the job.

    It does so whatever its rule says, and if it is paused too; its own times stay as they are.
    """
    with open_timetable(wanted.settings) as timetable:
        job_id = timetable.call(timetable.schedules.trigger(name))
    if wanted.as_json:
        say_json({"schedule": name, "job": job_id})
    else:
        say(f"{job_id}  enqueued")


@click.command(epilog=examples("standfast schedules delete nightly", "standfast schedules delete nightly --yes"))
@click.argument("name")
@yes_option
@about_a_store
def delete(wanted: Wanted, name: str, *, yes: bool) -> None:
    """Forget a schedule and what became of its times.

    Jobs that it has fired ahead of their time are cancelled. One that code declares comes back when a worker of its
    app starts: take it out of the code, or pause it.
    """
    with open_timetable(wanted.settings) as timetable:
        plan = timetable.call(timetable.schedules.get(name)).plan
        back = plan.origin is not None and plan.retired_at is None
        if not yes:
            declared = f", which {plan.origin.app} declares" if back and plan.origin else ""
            confirm(f"Delete schedule '{one_line(name)}'{declared}, and its history?")
        timetable.call(timetable.schedules.delete(name))
    if wanted.as_json:
        say_json({"schedule": name, "deleted": True, "comes_back": back})
        return
    say(f"Schedule '{one_line(name)}' is deleted.")
    if back and plan.origin:
        say(f"{plan.origin.app} declares it in code: it comes back when a worker of that app starts.")
