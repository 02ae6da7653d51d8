"""`standfast check`: is every queue served? Sends a canary through each and waits for it; made for deployments."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click
from rich.text import Text

from standfast.cli.canaries import Canaries, Flight, QueueChoice
from standfast.cli.connection import Wanted, about_a_store, existing_store
from standfast.cli.failures import ExitCode
from standfast.cli.options import examples
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.cli.progress import wait_progress
from standfast.cli.target import Meant, app_dir_option, find_meant, target_argument
from standfast.clock import SystemClock
from standfast.errors import StoreUnavailableError
from standfast.policy import Policy
from standfast.settings import Settings
from standfast.store.open import refuse_missing_store
from standfast.watch.obstacle import START_A_WORKER
from standfast.words import counted, span

_NOBODY = f"no worker is running, and no queue has anything to do; {START_A_WORKER}"
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
_GROWTH = 1.5


@click.command(
    epilog=examples(
        "standfast check --wait 60",
        "standfast check myproject.jobs:app --wait 120",
        "standfast check --queue mail --queue reports --json",
    )
)
@target_argument
@app_dir_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    default=60.0,
    metavar="SECONDS",
    help="How long to wait at most.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be given several times."
)
@click.pass_context
@about_a_store
def check(
    wanted: Wanted, ctx: click.Context, *, target: str | None, app_dir: str, wait: float, queues: tuple[str, ...]
) -> None:
    """Send a small job through each queue, and wait for all.

    The queues are those that workers serve, that hold jobs, and with MODULE:APP those of its tasks. The exit code
    is 0 if all were through in time, else 1. One that is closed by a window is not waited for.
    """
    meant = find_meant(wanted, target, app_dir)
    choice = QueueChoice(tuple(Policy(queue=name).queue for name in dict.fromkeys(queues)), _declared(meant))
    with wait_progress() as tell:
        flights = _fly(meant.loaded.settings, choice, wait, (lambda _: None) if wanted.as_json else tell)
    passed = bool(flights) and all(flight.took is not None or flight.closed for flight in flights)
    if wanted.as_json:
        why = None if flights else _NOBODY
        say_json({"ok": passed, "wait": wait, "queues": [_fields(flight) for flight in flights], "why": why})
    else:
        _tell(flights, timedelta(seconds=wait))
    ctx.exit(ExitCode.OK if passed else ExitCode.FAILED)


def _declared(meant: Meant) -> frozenset[str]:
    tasks = () if meant.app is None else meant.app.tasks.values()
    return frozenset(task.policy.queue for task in tasks)


def _fly(settings: Settings, choice: QueueChoice, wait: float, tell: Callable[[str], None]) -> list[Flight]:
    """Return how each queue fared, at the latest after so many seconds."""
    pauses = _Pauses(wait)
    tell("waiting for the store")
    _await_store(settings, pauses)
    with existing_store(settings) as backend:
        canaries = Canaries(backend, choice)
        try:
            while not canaries.look(pauses.left) and pauses.left:
                tell(canaries.words)
                pauses.rest()
            return canaries.landed()
        finally:
            canaries.recall()


def _await_store(settings: Settings, pauses: "_Pauses") -> None:
    """Wait for a store that the first worker is about to make."""
    while True:
        try:
            refuse_missing_store(settings)
        except StoreUnavailableError:
            if not pauses.left:
                raise
            pauses.rest()
        else:
            return


class _Pauses:
    """The time that is left, and rests in between that grow longer."""

    def __init__(self, seconds: float) -> None:
        self._clock = SystemClock()
        self._ends_at = self._clock.boot() + seconds
        self._next = _FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds until the end, 0 after it."""
        return max(0.0, self._ends_at - self._clock.boot())

    def rest(self) -> None:
        """Sleep a little."""
        time.sleep(min(self._next, self.left))
        self._next = min(self._next * _GROWTH, _LONGEST_PAUSE)


def _fields(flight: Flight) -> dict[str, Any]:
    milliseconds = None if flight.took is None else round(flight.took / timedelta(milliseconds=1), 1)
    return {
        "queue": flight.queue,
        "through": flight.took is not None,
        "ms": milliseconds,
        "closed": flight.closed,
        "why": flight.why,
        "job": flight.job_id,
    }


def _tell(flights: list[Flight], wait: timedelta) -> None:
    if not flights:
        say(Text(f"Not within {span(wait)}: {_NOBODY}.", style="bold red"))
        return
    say_table(
        flights,
        [Column("QUEUE", lambda flight: cut(flight.queue)), Column("", lambda f: _told(f, wait), shrinks=True)],
    )
    through = sum(flight.took is not None for flight in flights)
    closed = sum(flight.closed for flight in flights)
    say(f"\n{through} of {counted(len(flights), 'queue')} through{f', {closed} closed' if closed else ''}.")


def _told(flight: Flight, wait: timedelta) -> Text:
    if flight.took is not None:
        return Text(f"through in {span(flight.took)}", style="green")
    if flight.closed:
        return Text(f"not tried. {flight.why}", style="yellow")
    return Text(f"not within {span(wait)}. {flight.why}", style="bold red")
