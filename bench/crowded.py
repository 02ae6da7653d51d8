"""A store in which much has happened: finished jobs of many kinds, and all that people look at besides.

Jobs go the way of all jobs, through the verbs of the store, a thousand at a time; their ids say that they were made
over the last thirty days.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

import msgspec

from furnished import furnish
from standfast import Standfast
from standfast.model.ids import first_id_at
from standfast.model.job import Claim, Ending, Failure, NewJob, Progress
from standfast.model.states import Move
from standfast.stores.values import ClaimRequest, Vitals, WorkerBeat, WorkerInfo

TASKS = {
    "send_email": ("mail", 40),
    "charge_card": ("payments", 15),
    "resize_picture": ("media", 15),
    "import_rows": ("imports", 10),
    "notify_shop": ("default", 10),
    "rebuild_index": ("default", 5),
    "make_report": ("reports", 5),
}
"""The queue of each, and how many in a hundred jobs are of it."""

COMMON = "send_email"
RARE = "close_the_books"
RARE_QUEUE = "books"
ONE_IN_RARE = 50_000
"""One in so many jobs is of the rare task."""

ERRORS = (
    ("SMTPError", "451 mailbox {} is busy, try again later"),
    ("TimeoutError", "no answer from payments.example.com after {} s"),
    ("KeyError", "'order_{}'"),
    ("ValueError", "invalid literal for int() with base 10: 'x{}'"),
    ("ConnectionRefusedError", "[Errno 111] Connection refused: 10.0.0.{}"),
    ("OSError", "[Errno 28] No space left on device: '/data/{}.csv'"),
)

WORKERS = 10
SPAN = timedelta(days=30)
AT_ONCE = 1_000
_TRACEBACK = "Traceback (most recent call last):\n" + '  File "/app/shop.py", line 42, in handler\n' * 20
_NAMES = [name for name, (_, share) in TASKS.items() for _ in range(share)]
_LEASE = timedelta(hours=12)

Told = Callable[[int], None]
"""Hears how many jobs more are there."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many jobs there are: of the `finished` so many are dead; `left` are ready, scheduled and running each."""

    finished: int
    dead: int = 5_000
    left: int = 200


@dataclass(frozen=True, slots=True)
class Known:
    """Some of what there is, to ask for. Below the id `deep` is the older half of all jobs."""

    dead: str
    running: str
    deep: str
    key: str
    worker: str
    incident: str
    schedule: str


def fill(app: Standfast, sizes: Sizes, told: Told) -> Known:
    """Let much happen in an empty store."""
    app.prepare()
    filling = _Filling(app, sizes, told)
    filling.register()
    dead, deep = filling.finish()
    running = filling.leave()
    incident, schedule = furnish(app, {name: queue for name, (queue, _) in TASKS.items()}, dead, running)
    key = f"order:{sizes.finished // 2 // 100 * 100}"
    return Known(dead[len(dead) // 2], running[0], deep, key, filling.workers[0], incident, schedule)


class _Filling:
    def __init__(self, app: Standfast, sizes: Sizes, told: Told) -> None:
        self.workers = [f"{number:016x}" for number in range(1, WORKERS + 1)]
        self._call = app.call
        self._verbs = app.verbs
        self._sizes = sizes
        self._told = told
        self._random = Random(7)
        self._now = datetime.now(UTC)
        self._calls = count(1)
        self._one_in_dead = max(1, sizes.finished // max(1, sizes.dead))

    def register(self) -> None:
        """Let workers be there."""
        for number, worker in enumerate(self.workers):
            info = WorkerInfo(worker, f"s{number % 3}", f"web-{number % 3:02}", 4000 + number, _LEASE, None, 20)
            self._call(self._verbs.register(info))
        vitals = Vitals(memory=80_000_000, running=20, slots=20, lag=0.01, done=1_000)
        self._call(self._verbs.beat([WorkerBeat(worker, vitals=vitals) for worker in self.workers]))

    def finish(self) -> tuple[list[str], str]:
        """Let jobs come and end; return the ids of some dead ones, and that of the job in the middle."""
        dead, middle = [], ""
        for number, some in enumerate(self._batches()):
            jobs = [self._job(each) for each in some]
            self._call(self._verbs.enqueue(jobs))
            numbers = {job.id: each for job, each in zip(jobs, some, strict=True)}
            worker = self.workers[number % WORKERS]
            endings = [self._ending(claim, numbers[claim.ref.job_id]) for claim in self._claim(worker, len(jobs))]
            self._call(self._verbs.finish(worker, endings))
            dead += [ending.ref.job_id for ending in endings if ending.move is Move.DIE][:1]
            if some.start <= self._sizes.finished // 2 < some.stop:
                middle = jobs[0].id
            self._told(len(jobs))
        return dead, middle

    def leave(self) -> list[str]:
        """Let jobs be running, ready and scheduled; return the ids of those that run."""
        left, first = self._sizes.left, self._sizes.finished
        self._call(self._verbs.enqueue([self._job(first + each) for each in range(left)]))
        running = []
        for place, worker in enumerate(self.workers):
            refs = [
                claim.ref for claim in self._claim(worker, left * (place + 1) // WORKERS - left * place // WORKERS)
            ]
            self._call(self._verbs.start(worker, [(ref, self._now) for ref in refs]))
            self._call(self._verbs.progress(worker, [(ref, Progress(42, 100, "the shoes")) for ref in refs]))
            running += [ref.job_id for ref in refs]
        self._call(self._verbs.enqueue([self._job(first + left + each) for each in range(left)]))
        later = timedelta(hours=6)
        self._call(self._verbs.enqueue([self._job(first + 2 * left + each, later) for each in range(left)]))
        return running

    def _batches(self) -> Iterator[range]:
        for first in range(0, self._sizes.finished, AT_ONCE):
            yield range(first, min(first + AT_ONCE, self._sizes.finished))

    def _claim(self, worker: str, jobs: int) -> tuple[Claim, ...]:
        claims: tuple[Claim, ...] = self._call(
            self._verbs.claim(ClaimRequest(worker, next(self._calls), jobs))
        ).jobs
        if len(claims) != jobs:
            raise AssertionError(f"{len(claims)} jobs were claimed of {jobs}")
        return claims

    def _job(self, number: int, delay: timedelta = timedelta()) -> NewJob:
        random = self._random
        task = RARE if number % ONE_IN_RARE == 0 else random.choice(_NAMES)
        customer = random.randrange(1_000)
        tags = (f"customer:{customer}", *(("vip",) if customer % 10 == 0 else ())) if number % 10 == 0 else ()
        made_at = self._now - SPAN * (1 - min(number / (self._sizes.finished or 1), 1))
        return NewJob(
            f"{first_id_at(made_at)[:18]}-{0x8000 | number % 0x4000:04x}-{number:012x}",
            task,
            msgspec.json.encode({"v": 1, "args": {"to": f"ada{customer}@example.com", "order": number}}),
            queue=TASKS[task][0] if task in TASKS else RARE_QUEUE,
            delay=delay,
            key=f"order:{number}" if number % 100 == 0 else None,
            tags=tags,
        )

    def _ending(self, claim: Claim, number: int) -> Ending:
        if number % self._one_in_dead == self._one_in_dead // 2:
            kind, message = ERRORS[number // self._one_in_dead % len(ERRORS)]
            failure = Failure(kind, message.format(number % 997), f"{_TRACEBACK}{kind}: {message}\n")
            return Ending(claim.ref, Move.DIE, started_at=self._now, failure=failure)
        if number % 200 == 1:
            return Ending(claim.ref, Move.CANCEL, started_at=self._now, reason="user")
        return Ending(claim.ref, Move.COMPLETE, started_at=self._now, result=b'{"sent":true}')
