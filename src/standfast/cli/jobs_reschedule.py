"""`standfast jobs reschedule`: give jobs that wait to be started another time."""

from datetime import datetime, timedelta

import click

from standfast.cli.bulk import act_on_each
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.options import examples, tz_option
from standfast.cli.typed import as_span, read_moment
from standfast.core.job import Job
from standfast.policy.problems import calendar_problems
from standfast.schedule.zones import find_zone
from standfast.store.backend import Backend
from standfast.store.protocol import ask_time


def _not_so(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> None:
    """Tell who writes it as in code, with `delay`, how it is written here."""
    if text is not None:
        raise wrong_usage(f"there is no option --delay: say --in {text}")


@click.command(
    epilog=examples(
        "standfast jobs reschedule 3c2d1e0f --at 2026-03-01T09:00+08:00",
        "standfast jobs reschedule 3c2d1e0f --in 2h",
        "standfast jobs reschedule 3c2d1e0f 9f605a4b --at 2026-03-01T09:00 --tz Asia/Taipei --json",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--at", metavar="TIME", help="Be due at this time: 2026-03-01T09:00+08:00, or now.")
@click.option(
    "--in", "span", metavar="SPAN", callback=as_span, help="Be due after this span from now: 90s, 15m, 2h."
)
@click.option("--delay", hidden=True, expose_value=False, callback=_not_so)
@tz_option
@about_a_store
def reschedule(
    wanted: Wanted, /, *, ids: tuple[str, ...], at: str | None, span: timedelta | None, tz: str | None
) -> None:
    """Let scheduled and ready jobs be due at another time.

    Attempts and error stay. A job that has begun, and waits for a time or a signal of its own, is not moved.

    ID is a job's id, or its last characters as the worker shows them.
    """
    if (at is None) == (span is None):
        raise wrong_usage("say when: --at 2026-03-01T09:00+08:00 or --in 2h, one of both")
    moment = None if at is None else read_moment("--at", at, None if tz is None else find_zone(tz))
    for problem in () if moment is None else calendar_problems("--at", moment):
        raise wrong_usage(problem)
    with wanted.store() as backend:
        run_at = moment or backend.run(ask_time(backend.verbs)).now + (span or timedelta())
        act_on_each(wanted, backend, ids, lambda backend, job: _reschedule(backend, job, run_at))


def _reschedule(backend: Backend, job: Job, run_at: datetime) -> str:
    backend.run(backend.verbs.reschedule(job.id, run_at))
    return "rescheduled"
