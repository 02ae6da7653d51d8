"""Scheduled jobs start on time, at a cost that one worker polling each second would exceed.

A thousand jobs, due at random instants over twenty seconds, are enqueued together; five workers share them. Their
handlers tell by themselves when they started, by the clock of this machine, which the servers go by as well. Every
call of the store is written down where it is made.

Short by default: then only that no job is early, none is lost, and that claims are few. `make prove NAME=on_time`
runs it at full size and asks for its times too. These need a machine that is otherwise idle.
"""

import random
import time
from datetime import UTC, datetime, timedelta
from statistics import mean, quantiles, stdev

import pytest
from fleet import PROVE, Fleet, now, sizes

from game.counted import environment
from game.counted.address import CountedUrl
from game.counted.journal import read_calls
from standfast.model.ids import new_job_id
from standfast.model.job import NewJob

JOBS = sizes(short=150, full=1000)
SPAN = sizes(short=5.0, full=20.0)
WORKERS = sizes(short=2, full=5)
SOON = 2.0
"""Seconds from the enqueue to the first job."""

FIRST = sizes(short=5, full=0)
"""Claims more than seconds that are allowed in so short a time: at first the bell calls everybody."""

WARM_UP = 20 * WORKERS
LATEST = 10.0
"""Seconds after its time by which a job must have started, on however busy a machine."""

MEAN_AND_DEVIATION = 0.003
P99 = 0.010


def enqueue(fleet: Fleet, run_at: list[datetime]) -> dict[str, datetime]:
    """Enqueue jobs that do nothing, all at once; return when each is due."""
    payload = fleet.app.tasks["nap"].arguments.encode((), {"seconds": 0})
    jobs = [NewJob(new_job_id(), "nap", payload, run_at=at) for at in run_at]
    fleet.app.call(fleet.app.verbs.enqueue(jobs))
    return {job.id: job.run_at for job in jobs if job.run_at is not None}


def in_seconds(*seconds: float) -> list[datetime]:
    began_at = now()
    return [began_at + timedelta(seconds=each) for each in seconds]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", sizes(short=["sqlite", "redis"], full=["sqlite", "postgres", "redis"]))
def test_on_time(store, request, tmp_path, fleet_on, measured):
    """None early, none late, and claims are fewer than the seconds over which the jobs are due."""
    url = f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    calls = tmp_path / "calls"
    fleet = fleet_on(str(CountedUrl(url, calls)))
    fleet.start_workers(WORKERS, environment=environment())
    enqueue(fleet, in_seconds(*(SOON * place / WARM_UP for place in range(WARM_UP))))
    fleet.wait_for_completed(WARM_UP)
    fleet.wait_until_acquainted()

    began_at = now()
    due_at = enqueue(fleet, in_seconds(*(SOON + random.uniform(0, SPAN) for _ in range(JOBS))))
    ended_at = max(due_at.values())
    time.sleep((ended_at - now()).total_seconds())  # without a look at the store, which would disturb the workers
    fleet.wait_for_completed(WARM_UP + JOBS)
    started_at = {job: runs[0].start.at for job, runs in fleet.ledger.runs().items()}
    delays = sorted((started_at[job] - at).total_seconds() for job, at in due_at.items())
    claims = [
        call
        for call in read_calls(calls)
        if call.verb == "claim" and began_at <= datetime.fromtimestamp(call.at, UTC) <= ended_at
    ]

    p99 = quantiles(delays, n=100)[98]
    measured(
        f"{len(delays)} jobs, start delay mean {mean(delays) * 1000:.2f} ms + stdev {stdev(delays) * 1000:.2f} ms,"
        f" p99 {p99 * 1000:.2f} ms, longest {delays[-1] * 1000:.1f} ms, {len(claims)} claims"
    )
    assert delays[0] >= 0
    assert delays[-1] < LATEST
    assert len(claims) < SPAN + FIRST
    if PROVE:
        assert mean(delays) + stdev(delays) <= MEAN_AND_DEVIATION
        assert p99 <= P99
