"""The claim in Redis.

From where on the lanes of a claim are to be looked at, where tasks are closed.

One script looks at a thousand jobs of each lane, and nobody else is served meanwhile. Where all of these are of
closed tasks, the claim goes on behind them with another script, and the next claim begins there: what arrives is
behind, too. What comes back to its old place is not: so each claim looks at the front of the lanes first, and from
time to time everything is looked at again, the less often the longer that takes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from standfast.model.job import Claim, KnownTask
from standfast.stores.redis.rows import pack, to_claims, to_claims_apart, to_time
from standfast.stores.refusals import buried_worker
from standfast.stores.rows import DAMAGES, from_micros, span_to_micros, to_micros
from standfast.stores.values import ClaimAnswer, ClaimRequest
from standfast.stores.verb import Access, Script, Steps, verb

Marks = dict[str, tuple[int, int]]
"""By the key of a lane: a time, and how many jobs of that time, before which all were passed over."""

AT_ONCE = 20
"""Scripts of one claim, at most. What is left is for the next one, soon."""

SWEEP_EVERY = 15.0
SHARE = 0.05
"""Seconds after which everything is looked at again, at least; and which part of the time may go into that."""

_MOST = 100
"""So many sets of closed tasks are remembered."""


class ScanMarks:
    """What one process remembers of the jobs that its claims passed over. Any of it may be forgotten."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._marks: dict[tuple[str, ...], Marks] = {}
        self._swept_at = monotonic()
        self._took = 0.0

    def marks(self, request: ClaimRequest) -> Marks:
        """Return the marks for a claim, in which it notes what it learns."""
        now = self._monotonic()
        if now - self._swept_at >= max(SWEEP_EVERY, self._took / SHARE) or len(self._marks) >= _MOST:
            self._marks.clear()
            self._swept_at, self._took = now, 0.0
        return self._marks.setdefault(request.closed_tasks, {})

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Note how long a claim looks behind the front."""
        began = self._monotonic()
        yield
        self._took += self._monotonic() - began


# How a worker comes by jobs: a script that chooses as `ClaimRequest` says; several where many are passed over.


class ClaimVerbs:
    """The verb that gives jobs to workers."""

    def __init__(self) -> None:
        super().__init__()
        self._passing = ScanMarks()

    @verb(Access.WRITE, once=True)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        reply = yield _script(request)
        try:
            answer, more = _read(request, reply)
        except DAMAGES:
            answer, more = yield from _read_apart(request, reply, ())
        if not more:
            return answer
        with self._passing.behind():
            return (yield from self._go_on(request, answer, more))

    def _go_on(self, request: ClaimRequest, answer: ClaimAnswer, more: Marks) -> Steps[ClaimAnswer]:
        """Look behind the jobs of closed tasks that fill the front of some lanes."""
        marks, jobs, times = self._passing.marks(request), list(answer.jobs), [answer.next_due_at]
        places = {lane: max(mark, marks.get(lane, mark)) for lane, mark in more.items()}
        for _ in range(AT_ONCE):
            rest = _rest(request, jobs, answer)
            if rest is None or not more:
                break
            reply = yield _script(rest, places)
            try:
                answer, more = _read(rest, reply)
            except DAMAGES:
                answer, more = yield from _read_apart(rest, reply, jobs)
            jobs += answer.jobs
            times.append(answer.next_due_at)
            places |= more
            # Not those ahead of time: what is enqueued for later may come before them.
            marks.update((lane, mark) for lane, mark in more.items() if mark[0] <= to_micros(answer.now))
        if more:
            times.append(answer.now)
        return ClaimAnswer(tuple(jobs), answer.now, min((time for time in times if time is not None), default=None))


def _script(request: ClaimRequest, places: Marks | None = None) -> Script:
    return Script(
        "claim",
        (
            request.worker,
            request.call,
            request.limit,
            request.group,
            "" if request.max_wait is None else span_to_micros(request.max_wait),
            span_to_micros(request.look_ahead),
            request.ahead_limit,
            pack(
                (
                    request.queues,
                    request.shares,
                    [_known(task) for task in request.adopt],
                    request.closed or None,
                    request.closed_tasks or None,
                    places,
                    [_known(task) for task in request.unknown] or None,
                )
            ),
        ),
    )


def _read(
    request: ClaimRequest, reply: Any, claims: Callable[..., tuple[Claim, ...]] = to_claims
) -> tuple[ClaimAnswer, Marks]:
    """Return what a script gave, and where to go on in lanes of which it saw only jobs of closed tasks."""
    if reply is None:
        raise buried_worker(request.worker)
    now, next_due_at, texts, lives, *rest = reply
    answer = ClaimAnswer(
        claims(texts, lives), from_micros(int(now)), None if next_due_at is None else to_time(next_due_at)
    )
    return answer, _marks(rest[0]) if rest and rest[0] else {}


def _read_apart(request: ClaimRequest, reply: Any, before: Sequence[Claim]) -> Steps[tuple[ClaimAnswer, Marks]]:
    """Return the same where some jobs cannot be read: which they are, the claims of this call tell.

    `before` are those that earlier scripts of the call gave.
    """
    rows = yield Script("claims_of_call", (request.worker, request.call))
    known = {claim.job_id for claim in before}
    held = [(job_id.decode(), fence, queue.decode(errors="replace")) for job_id, fence, queue in rows]
    others = [each for each in held if each[0] not in known]
    return _read(request, reply, lambda texts, lives: to_claims_apart(texts, lives, others))


def _marks(more: Sequence[Any]) -> Marks:
    lanes, times, beyond = more[0::3], more[1::3], more[2::3]
    return {lane.decode(): (int(time), int(size)) for lane, time, size in zip(lanes, times, beyond, strict=True)}


def _rest(request: ClaimRequest, jobs: Sequence[Claim], answer: ClaimAnswer) -> ClaimRequest | None:
    """Return what is still to be asked for; None if enough is due."""
    due = sum(claim.run_at <= answer.now for claim in jobs)
    if 0 < request.limit <= due:
        return None
    ahead = max(0, request.ahead_limit - (len(jobs) - due))
    return replace(request, limit=max(0, request.limit - due), ahead_limit=ahead, adopt=(), unknown=())


def _known(task: KnownTask) -> tuple[str, int]:
    return (task.name, task.version)
