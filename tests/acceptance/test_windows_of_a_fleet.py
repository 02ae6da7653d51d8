"""A queue and a task with a window, in real worker processes on each store.

Inside it nothing starts, what runs is asked to finish before, and what had to wait goes on as soon as it is over.
Short by default: then only that nothing starts inside, and that all goes on. `make prove NAME=windows` also asks
how soon, and needs a machine that is otherwise idle.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fleet import Fleet, now, sizes, wait_until
from fleet_app import NOTICE, SKEW, WINDOW, window_in

from holdfast.cli.connection import Wanted
from holdfast.cli.story import read_story
from holdfast.core.job import NewJob
from holdfast.core.states import Move, State
from holdfast.ids import new_job_id
from holdfast.worker.closures import GUARD

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
@pytest.mark.parametrize("closed", ["queue", "task"])
def test_windows(fleet_on_each_store, tmp_path, closed, measured):
    """No start inside; who runs is asked before; all that waited starts right after; nobody is charged."""
    night = nightfall(fleet_on_each_store, tmp_path)
    fleet, times, (task, queue) = night.fleet, night.times, CLOSED[closed]
    [long] = night.enqueue(task.replace("nap", "nap_until_asked"), queue)
    planned = night.naps(closed, times)
    fleet.wait_for_start(long)
    assert now() < night.begin - NOTICE * SECOND, "the machine was too slow for this test"

    night.wait_until(night.begin + SECOND)
    [arrived] = night.naps(closed)
    settings = fleet.app.settings
    why = read_story(Wanted(settings.url, settings.namespace), arrived).why.text
    assert now() < night.end, "the machine was too slow for this test"
    assert f"its {closed} '{task if closed == 'task' else queue}' is closed until {night.end:%H:%M}" in why.lower()
    assert why.endswith(": recycle.")

    fleet.wait_for_completed(len(planned) + 2)
    runs = fleet.ledger.runs()
    asked, again = runs[long]
    assert asked.end is not None
    assert night.begin - NOTICE * SECOND <= asked.end.at < night.begin + PREEMPTED
    assert fleet.history(long)[0].how == Move.SNOOZE
    started = {job: runs[job][-1].start.at for job in (*planned, arrived)}
    assert [at for at in (*started.values(), again.start.at) if night.is_inside(at)] == []
    waited = [job for job, due in zip(planned, times, strict=True) if night.begin <= due < night.end]
    late = [night.late(due, started[job]) for job, due in zip(planned, times, strict=True)]
    after = [at - night.end for at in (*(started[job] for job in waited), started[arrived], again.start.at)]
    measured(f"{len(after)} jobs had to wait and started {min(after)} to {max(after)} after the window's end")
    assert min(*late, *after) >= 0 * SECOND
    assert max(*late, *after) < LATEST
    for job in (*planned, arrived, long):
        seen = fleet.job(job)
        assert (seen.state, seen.attempt, seen.crashes) == (State.COMPLETED, 0, 0)
    put_off = [sum(each.how == Move.SNOOZE for each in fleet.history(job)) for job in waited]
    assert max(put_off) == (1 if closed == "task" else 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("store", ["postgres", "redis"])
@pytest.mark.parametrize("skew", [-45, 45])
def test_windows_go_by_the_clock_of_the_server(store, skew, request, fleet_on, tmp_path):
    """A worker whose own clock is far off keeps the same hours as all others."""
    night = nightfall(fleet_on(request.getfixturevalue(f"{store}_url")), tmp_path, **{SKEW: str(skew)})
    times = night.times
    planned = [job for closed in CLOSED for job in night.naps(closed, times)]
    night.fleet.wait_for_completed(len(planned))
    started = [night.fleet.ledger.runs_of(job)[-1].start.at for job in planned]
    assert [at for at in started if night.is_inside(at)] == []
    late = [night.late(due, at) for due, at in zip(2 * times, started, strict=True)]
    assert min(late) >= 0 * SECOND
    assert max(late) < LATEST
