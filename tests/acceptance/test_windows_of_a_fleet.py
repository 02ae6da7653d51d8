"""A queue and a task with a window, in real worker processes on each store.

Inside it nothing starts, what runs is asked to finish before, and what had to wait goes on as soon as it is over.
Short by default: then only that nothing starts inside, and that all goes on. `make prove NAME=windows` also asks
how soon, and needs a machine that is otherwise idle.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fleet import Fleet, now, sizes, wait_until
from fleet_app import NOTICE, SKEW, WINDOW, window_in

from standfast.admin.jobs import WhichJob, show_job
from standfast.cli.connection import StoreOptions
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob
from standfast.model.states import Move, State
from standfast.worker.windows import GUARD

SECOND = timedelta(seconds=1)
STEP = sizes(short=SECOND / 10, full=SECOND / 50)
AROUND = 1.5 * SECOND
"""How long before and after the window jobs are due."""

LATEST = sizes(short=10 * SECOND, full=SECOND)
"""How long after the end of the window all must have started that had to wait for it."""

PREEMPTED = sizes(short=SECOND / 2, full=0 * SECOND)
"""For how long a busy machine may keep a process that is about to start a job."""

CLOSED = {"queue": ("nap", "nightly"), "task": ("nightly_nap", "default")}
"""A task and a queue of which one is closed by the window."""


@dataclass(frozen=True)
class Night:
    """A fleet whose workers have a queue and a task with the same window."""

    fleet: Fleet
    begin: datetime
    end: datetime

    def enqueue(
        self, task: str, queue: str, times: Iterable[datetime | None] = (None,), **arguments: object
    ) -> list[str]:
        """Enqueue jobs that are due at these times."""
        handler = self.fleet.app.tasks[task.removeprefix("nightly_")]
        payload = handler.arguments.encode((), arguments)
        jobs = [NewJob(new_job_id(), task, payload, queue=queue, run_at=run_at) for run_at in times]
        self.fleet.app.call(self.fleet.app.verbs.enqueue(jobs))
        return [job.id for job in jobs]

    def naps(self, closed: str, times: Iterable[datetime | None] = (None,)) -> list[str]:
        return self.enqueue(*CLOSED[closed], times, seconds=0.0)

    def wait_until(self, moment: datetime) -> None:
        wait_until(lambda: now() >= moment, what=str(moment))

    def is_inside(self, moment: datetime) -> bool:
        return self.begin + PREEMPTED <= moment < self.end

    def late(self, due: datetime, started: datetime) -> timedelta:
        """Return how long after its time a job started, or after the end of the window that it had to wait for."""
        had_to_wait = self.begin - 2 * GUARD - PREEMPTED <= due < self.end <= started
        return started - (self.end if had_to_wait else due)

    @property
    def times(self) -> list[datetime]:
        """When jobs are due: from before the window until after it."""
        count = (self.end - self.begin + 2 * AROUND) // STEP
        return [self.begin - AROUND + STEP * number for number in range(count)]


def nightfall(fleet: Fleet, folder: Path, **environment: str) -> Night:
    """Let a fleet work, seconds before its window begins."""
    file = folder / "window"
    fleet.start_workers(1, environment={WINDOW: str(file), **environment}, processes=2)
    return Night(fleet, *window_in(file))


@pytest.mark.timeout(180)
def test_windows(fleet_on_each_store, tmp_path, measured):
    """No start inside; who runs is asked before; all that waited starts right after; nobody is charged."""
    night = nightfall(fleet_on_each_store, tmp_path)
    shifts = [Shift(night, closed) for closed in CLOSED]
    for shift in shifts:
        night.fleet.wait_for_start(shift.long)
    assert now() < night.begin - NOTICE * SECOND, "the machine was too slow for this test"
    night.wait_until(night.begin + SECOND)
    for shift in shifts:
        shift.arrive()
    night.fleet.wait_for_completed(len(shifts) * (len(night.times) + 2))
    for shift in shifts:
        shift.judge(measured)


class Shift:
    """Jobs of what is closed: a long one, those that are due around the window, and one that arrives inside it."""

    def __init__(self, night: Night, closed: str) -> None:
        self.night, self.closed, (self.task, self.queue) = night, closed, CLOSED[closed]
        [self.long] = night.enqueue(self.task.replace("nap", "nap_until_asked"), self.queue)
        self.planned = night.naps(closed, night.times)

    def arrive(self) -> None:
        """Let one more come: it is told until when it has to wait."""
        [self.arrived] = self.night.naps(self.closed)
        settings, end = self.night.fleet.app.settings, self.night.end
        why = StoreOptions(settings.url, settings.namespace).run(show_job, WhichJob(id=self.arrived)).why.text
        assert now() < end, "the machine was too slow for this test"
        name = self.task if self.closed == "task" else self.queue
        assert f"its {self.closed} '{name}' is closed until {end:%H:%M}" in why.lower()
        assert why.endswith(": recycle.")

    def judge(self, measured: Callable[[str], None]) -> None:
        night, fleet, times = self.night, self.night.fleet, self.night.times
        runs = fleet.ledger.runs()
        asked, again = runs[self.long]
        assert asked.end is not None
        assert night.begin - NOTICE * SECOND <= asked.end.at < night.begin + PREEMPTED
        assert fleet.history(self.long)[0].how == Move.SNOOZE
        started = {job: runs[job][-1].start.at for job in (*self.planned, self.arrived)}
        assert [at for at in (*started.values(), again.start.at) if night.is_inside(at)] == []
        waited = [job for job, due in zip(self.planned, times, strict=True) if night.begin <= due < night.end]
        late = [night.late(due, started[job]) for job, due in zip(self.planned, times, strict=True)]
        after = [
            at - night.end for at in (*(started[job] for job in waited), started[self.arrived], again.start.at)
        ]
        measured(f"{len(after)} jobs had to wait and started {min(after)} to {max(after)} after the window's end")
        assert min(*late, *after) >= 0 * SECOND
        assert max(*late, *after) < LATEST
        for job in (*self.planned, self.arrived, self.long):
            seen = fleet.job(job)
            assert (seen.state, seen.attempt, seen.crashes) == (State.COMPLETED, 0, 0)
        put_off = [sum(each.how == Move.SNOOZE for each in fleet.history(job)) for job in waited]
        assert max(put_off) == (1 if self.closed == "task" else 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("skew", sizes(short=[45], full=[-45, 45]))
def test_windows_go_by_the_clock_of_the_server(skew, fleet_on, postgres_url, redis_url, tmp_path):
    """A worker whose own clock is far off keeps the same hours as all others, on either server."""
    nights = []
    for number, url in enumerate((postgres_url, redis_url)):
        folder = tmp_path / str(number)
        folder.mkdir()
        nights.append(nightfall(fleet_on(url), folder, **{SKEW: str(skew)}))
    planned = [[job for closed in CLOSED for job in night.naps(closed, night.times)] for night in nights]
    for night, jobs in zip(nights, planned, strict=True):
        night.fleet.wait_for_completed(len(jobs))
        runs = night.fleet.ledger.runs()
        started = [runs[job][-1].start.at for job in jobs]
        assert [at for at in started if night.is_inside(at)] == []
        late = [night.late(due, at) for due, at in zip(2 * night.times, started, strict=True)]
        assert min(late) >= 0 * SECOND
        assert max(late) < LATEST
