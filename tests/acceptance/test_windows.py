"""A queue and a task with a window, in real worker processes on each store.

Inside it nothing starts, what runs is asked to finish before, and what had to wait goes on as soon as it is over.
Short by default: then only that nothing starts inside, and that all goes on. `make prove NAME=windows` also asks
how soon, and needs a machine that is otherwise idle.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from fleet import PROVE, Fleet, now, sizes, wait_until
from fleet_app import NOTICE, WINDOW, window_in

from holdfast.cli.jobs_show import read_story
from holdfast.core.job import NewJob
from holdfast.core.states import Move, State
from holdfast.ids import new_job_id

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


@pytest.fixture
def night(fleet_on_each_store, tmp_path):
    """Give a fleet at work, seconds before its window begins."""
    file, fleet = tmp_path / "window", fleet_on_each_store
    fleet.start_workers(1, environment={WINDOW: str(file)}, processes=2)
    return Night(fleet, *window_in(file))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("closed", ["queue", "task"])
def test_windows(night, closed, measured):
    """No start inside; who runs is asked before; all that waited starts right after; nobody is charged."""
    fleet, (task, queue) = night.fleet, CLOSED[closed]
    [long] = night.enqueue(task.replace("nap", "nap_until_asked"), queue)
    first = night.begin - AROUND
    times = [first + STEP * number for number in range((night.end - night.begin + 2 * AROUND) // STEP)]
    planned = night.naps(closed, times)
    fleet.wait_for_start(long)
    assert now() < night.begin - NOTICE * SECOND, "the machine was too slow for this test"

    night.wait_until(night.begin + SECOND)
    [arrived] = night.naps(closed)
    why = read_story(fleet.app.backend, arrived).why
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
    waited = [job for job, at in zip(planned, times, strict=True) if night.begin <= at < night.end]
    late = [at - night.end for at in (*(started[job] for job in (*waited, arrived)), again.start.at)]
    measured(f"{len(late)} jobs had to wait and started {min(late)} to {max(late)} after the window's end")
    assert min(late) >= 0 * SECOND
    assert max(late) < LATEST
    for job in (*planned, arrived, long):
        seen = fleet.job(job)
        assert (seen.state, seen.attempt, seen.crashes) == (State.COMPLETED, 0, 0)
    put_off = [sum(each.how == Move.SNOOZE for each in fleet.history(job)) for job in waited]
    assert max(put_off) == (1 if closed == "task" else 0)
    if PROVE:
        early = [
            started[job] - at for job, at in zip(planned, times, strict=True) if not night.begin <= at < night.end
        ]
        assert max(early) < SECOND
