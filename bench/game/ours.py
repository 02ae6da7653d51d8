"""Our own way to play: real `standfast worker` processes on a passive store that counts what they ask."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from game.contender import Due, Launch
from game.counted.address import CountedUrl
from game.evidence import Held, Played
from game.handler import TASK, run_job
from game.place import Place
from standfast.model.arguments import Arguments
from standfast.model.ids import new_job_id
from standfast.model.job import Attempt, Job, NewJob
from standfast.model.states import State
from standfast.settings import read_settings
from standfast.stores.url import absolute_url, check_url, open_backend
from standfast.stores.values import JobFilter

JOBS_PER_CALL = 500

_RUN = "from standfast.cli.main import main; main()"


class Rules(msgspec.Struct, frozen=True):
    """How our instances are set. Spans are seconds.

    One look at the store in ten seconds is enough for the whole fleet: nobody creates a job less than 10.1 s ahead.
    The look-ahead is a little longer, so that whoever has the next turn may be a little late. A single instance
    holds all jobs of the fleet from one look to the next, and has places for all of them.
    """

    safety_poll: float = 10.0
    look_ahead: float = 10.3
    concurrency: int = 100
    lease: float = 15.0


class Ours:
    """Jobs in a store of ours."""

    name = "ours"

    def __init__(self, place: Place, rules: Rules, url: str, namespace: str | None) -> None:
        self._place = place
        self._rules = rules
        options = {"url": url, "namespace": namespace}
        self._settings = read_settings(options=options, url_check=check_url).settings
        self._shared_url = absolute_url(self._settings.url)
        self._backend = open_backend(self._settings)
        self._arguments = Arguments(run_job, task=TASK)
        self._numbers: dict[str, int] = {}

    async def create(self, jobs: Sequence[Due]) -> None:
        """Enqueue jobs."""
        new = [self._new(job) for job in jobs]
        for first in range(0, len(new), JOBS_PER_CALL):
            await self._backend.arun(self._backend.verbs.enqueue(new[first : first + JOBS_PER_CALL]))

    def launch(self, instance: str) -> Launch:
        """Return `standfast worker`, on the counting store. The URL may hold a password: it is no argument."""
        url = CountedUrl(self._shared_url, self._place.calls(instance), passive=True)
        given = {**msgspec.structs.asdict(self._rules), "url": url, "namespace": self._settings.namespace}
        settings = {f"STANDFAST_{name.upper()}": str(value) for name, value in given.items() if value is not None}
        return Launch(
            (sys.executable, "-c", _RUN, "worker", "game.app:app", "--log-level", "warning"),
            {**self._place.environment(instance), **settings},
        )

    async def played(self) -> list[Played]:
        """Return all jobs with their histories."""
        run, verbs = self._backend.arun, self._backend.verbs
        jobs = (await run(verbs.list_jobs(JobFilter(limit=len(self._numbers) + 1)))).jobs
        histories = [await run(verbs.history(job.id)) for job in jobs]
        played = [self._played(job, history) for job, history in zip(jobs, histories, strict=True)]
        return sorted(played, key=lambda job: job.number)

    def close(self) -> None:
        """Let go of the store."""
        self._backend.close()

    def _new(self, job: Due) -> NewJob:
        made = NewJob(
            id=new_job_id(),
            task=TASK,
            payload=self._arguments.encode((), {"number": job.number}),
            run_at=datetime.fromtimestamp(job.run_at, UTC),
        )
        self._numbers[made.id] = job.number
        return made

    def _played(self, job: Job, history: Sequence[Attempt]) -> Played:
        return Played(
            number=self._numbers[job.id],
            run_at=job.run_at.timestamp(),
            completed=job.state is State.COMPLETED,
            stored_at=_seconds(job.finished_at),
            claims=tuple(
                Held(claim.fence, _seconds(claim.started_at), _seconds(claim.ended_at), claim.how)
                for claim in history
            ),
        )


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
