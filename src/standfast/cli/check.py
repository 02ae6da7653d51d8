"""`standfast check`: a canary through each queue.

Canaries in flight: which queues they are sent through, which are back, and why the others are not.

None is sent through a queue that a window closes: that it does not start anything is how it should be.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import click
from msgspec.structs import replace
from rich.text import Text

from standfast.cli.columns import find_windows
from standfast.cli.connection import (
    AppTarget,
    StoreOptions,
    app_dir_option,
    examples,
    existing_store,
    find_target,
    store_options,
    target_argument,
)
from standfast.cli.exit_codes import ExitCode
from standfast.cli.output import Column, cut, say, say_json, say_table, wait_progress
from standfast.errors import JobNotFoundError, StoreUnavailableError
from standfast.hosts.builtin import new_canary
from standfast.model.clock import SystemClock
from standfast.model.configuration import Settings
from standfast.model.display import counted, span
from standfast.model.policy import Policy
from standfast.model.states import FINAL, State
from standfast.observe.obstacles import START_A_WORKER, queue_closed
from standfast.observe.why import explain
from standfast.stores.backend import Backend
from standfast.stores.contract import cancel_job
from standfast.stores.url import refuse_missing_store
from standfast.stores.values import Queue, Worker

_ORDINARY = "default"


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """Which queues are checked: those `named`, else those `declared` by an app and those that the store knows."""

    named: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()

    def of(self, queues: Iterable[Queue], workers: Iterable[Worker]) -> list[str]:
        """Return the queues, by name.

        A queue without a worker counts while it holds unfinished jobs: what is left of it afterwards is history. If
        workers serve all queues and none is known yet, the ordinary one stands for them.
        """
        if self.named:
            return list(self.named)
        live = [worker for worker in workers if worker.is_live]
        served = {name for worker in live for name in worker.info.queues or ()}
        known = {
            queue.name for queue in queues if _is_in_use(queue) or any(each.serves(queue.name) for each in live)
        }
        chosen = self.declared | served | known
        return sorted(chosen) or ([_ORDINARY] if live else [])


def _is_in_use(queue: Queue) -> bool:
    return queue.paused_at is not None or any(count for state, count in queue.states.items() if state not in FINAL)


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """How a queue fared: how long its canary took, or else why it is not through, or not to be: it is closed."""

    queue: str
    job_id: str | None
    took: timedelta | None
    why: str | None
    closed: bool = False


class Canaries:
    """One canary for each queue. Queues that turn up later get theirs then."""

    def __init__(self, backend: Backend, choice: QueueChoice) -> None:
        self._backend = backend
        self._choice = choice
        self._sent: dict[str, str] = {}
        self._away: set[str] = set()
        self._closed: dict[str, str] = {}

    @property
    def words(self) -> str:
        """What is waited for."""
        if not self._sent:
            return "waiting for a worker"
        return f"{counted(len(self._away), 'queue')} of {len(self._sent)} to go: {', '.join(sorted(self._away))}"

    def look(self, left: float) -> bool:
        """Send what is to be sent, with so many seconds left, and look who is back; return whether all are."""
        if left:
            self._send(timedelta(seconds=left))
        seen = self._backend.run(self._backend.verbs.glance([self._sent[queue] for queue in self._away]))
        self._away -= {queue for queue in self._away if seen[self._sent[queue]].state in FINAL}
        return bool(self._sent or self._closed) and not self._away

    def landed(self) -> list[CanaryResult]:
        """Return how each queue fared, by name."""
        closed = [CanaryResult(queue, None, None, why, closed=True) for queue, why in self._closed.items()]
        sent = [self._flight(queue, job_id) for queue, job_id in self._sent.items()]
        return sorted([*closed, *sent], key=lambda flight: flight.queue)

    def recall(self) -> None:
        """Cancel those that are still away."""
        for queue in self._away:
            self._backend.run(cancel_job(self._backend.verbs, self._sent[queue]))

    def _send(self, within: timedelta) -> None:
        verbs = self._backend.verbs
        queues, workers = self._backend.run(verbs.queues()), self._backend.run(verbs.workers())
        chosen = [queue for queue in self._choice.of(queues, workers) if queue not in self._sent]
        now = SystemClock().now()
        self._closed = {queue: why for queue in chosen if (why := self._why_closed(queue, now)) is not None}
        jobs = [new_canary(queue, within) for queue in chosen if queue not in self._closed]
        if jobs:
            self._backend.run(verbs.enqueue(jobs))
            self._sent |= {job.queue: job.id for job in jobs}
            self._away |= {job.queue for job in jobs}

    def _flight(self, queue: str, job_id: str) -> CanaryResult:
        situation = self._backend.run(self._backend.verbs.situation(job_id))
        if situation is None:
            raise JobNotFoundError(f"the canary {job_id} of queue '{queue}' is gone; someone deleted it")
        job = situation.job
        if job.state is State.COMPLETED and job.finished_at is not None:
            return CanaryResult(queue, job_id, job.finished_at - job.created_at, None)
        closed = self._why_closed(queue, situation.now)
        endless = replace(situation, job=replace(job, start_by=None))  # that it ends with the wait explains nothing
        return CanaryResult(queue, job_id, None, closed or explain(endless).text, closed=closed is not None)

    def _why_closed(self, queue: str, now: datetime) -> str | None:
        closed = queue_closed(find_windows(self._backend), queue, now)
        return None if closed is None else f"It is closed until {closed.until(now)}."


# `standfast check`: is every queue served? Sends a canary through each and waits for it; made for deployments.

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
@store_options
def check(
    wanted: StoreOptions,
    ctx: click.Context,
    *,
    target: str | None,
    app_dir: str,
    wait: float,
    queues: tuple[str, ...],
) -> None:
    """Send a small job through each queue, and wait for all.

    The queues are those that workers serve, that hold jobs, and with MODULE:APP those of its tasks. The exit code
    is 0 if all were through in time, else 1. One that is closed by a window is not waited for.
    """
    meant = find_target(wanted, target, app_dir)
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


def _declared(meant: AppTarget) -> frozenset[str]:
    tasks = () if meant.app is None else meant.app.tasks.values()
    return frozenset(task.policy.queue for task in tasks)


def _fly(settings: Settings, choice: QueueChoice, wait: float, tell: Callable[[str], None]) -> list[CanaryResult]:
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


def _fields(flight: CanaryResult) -> dict[str, Any]:
    milliseconds = None if flight.took is None else round(flight.took / timedelta(milliseconds=1), 1)
    return {
        "queue": flight.queue,
        "through": flight.took is not None,
        "ms": milliseconds,
        "closed": flight.closed,
        "why": flight.why,
        "job": flight.job_id,
    }


def _tell(flights: list[CanaryResult], wait: timedelta) -> None:
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


def _told(flight: CanaryResult, wait: timedelta) -> Text:
    if flight.took is not None:
        return Text(f"through in {span(flight.took)}", style="green")
    if flight.closed:
        return Text(f"not tried. {flight.why}", style="yellow")
    return Text(f"not within {span(wait)}. {flight.why}", style="bold red")
