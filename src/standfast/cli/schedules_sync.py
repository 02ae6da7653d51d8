"""`standfast schedules sync`: bring what an app declares into the store now, as its workers do when they start."""

from datetime import timedelta
from typing import Any

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.target import app_dir_option, check_target, find_meant
from standfast.cli.timetable import open_timetable
from standfast.schedule.declaring import Declarer, Synchronised, release_of, synchronise
from standfast.schedule.words import describe
from standfast.words import counted, one_line


@click.command(
    epilog=examples(
        "standfast schedules sync myproject.jobs:app", "standfast schedules sync myproject.jobs:app --json"
    )
)
@click.argument("target", metavar="MODULE:APP", callback=check_target)
@app_dir_option
@about_a_store
def sync(wanted: Wanted, *, target: str, app_dir: str) -> None:
    """Bring the schedules that an app declares into the store now.

    Its workers do so when they start; but while workers of a newer release run, an older one changes nothing. This
    command does: after a rollback it says that the older release counts.
    """
    meant = find_meant(wanted, target, app_dir)
    assert meant.app is not None
    settings, declared, windows = meant.loaded.settings, meant.app.declarations, meant.app.windows
    who = Declarer(
        settings.name or target,
        settings.release or release_of(declared, windows),
        worker="",
        ahead=timedelta(seconds=settings.look_ahead),
        insists=True,
    )
    with open_timetable(settings) as timetable:
        done = timetable.call(synchronise(timetable.backend.verbs, who, declared, windows))
    if wanted.as_json:
        say_json(_fields(who, done))
    else:
        _tell(who, done, len(declared))


def _fields(who: Declarer, done: Synchronised) -> dict[str, Any]:
    changes = {"added": done.added, "changed": done.changed, "retired": done.retired}
    names = {what: [schedule.name for schedule in schedules] for what, schedules in changes.items()}
    windows = [{"about": each.about, "name": each.name, "what": each.what} for each in done.windows]
    return {"app": who.app, "release": who.release, **names, "foreign": done.foreign, "windows": windows}


def _tell(who: Declarer, done: Synchronised, declared: int) -> None:
    for what, schedules in (("added", done.added), ("changed", done.changed), ("retired", done.retired)):
        for schedule in schedules:
            say(f"{what}  {one_line(schedule.name)}: {describe(schedule.plan.rule, schedule.ground)}")
    for name in done.foreign:
        say(f"left     {one_line(name)}: another of that name was made elsewhere; rename one, or delete that one")
    for window in done.windows:
        say(f"{window.what}  windows of {window.about} {one_line(window.name)}: {one_line(window.words)}")
    if not (done.added or done.changed or done.retired or done.foreign or done.windows):
        say(f"Nothing is to be changed: {counted(declared, 'schedule is', 'schedules are')} as {who.app} declares.")
    say(f"Release {who.release} of {who.app} counts now.")
