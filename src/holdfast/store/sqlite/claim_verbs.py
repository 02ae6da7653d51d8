"""How a worker comes by jobs.

A claim is a few set-wise statements under the write lock: due jobs become ready, then one update per queue gives
the best of them away, then one for those due soon.
"""

import json
from collections.abc import Sequence

from holdfast.core.job import Claim
from holdfast.errors import WorkerBuriedError
from holdfast.store.protocol import ClaimAnswer, ClaimRequest
from holdfast.store.sqlite.rows import Row, to_claims
from holdfast.store.sqlite.times import from_micros, span_to_micros, to_micros
from holdfast.store.sqlite.verbs import SqliteVerbs, to_json
from holdfast.store.verb import Access, Command, Query, Steps, verb

PROMOTED_AT_ONCE = 20_000
"""So many due jobs are made ready per claim. A larger flood takes several claims, and until it is through, its
later jobs compete only with each other; no claim keeps the write lock for long."""

_SEQ, _PRIORITY, _RUN_AT = 0, 7, 8


class ClaimVerbs(SqliteVerbs):
    """The verb that gives jobs to workers."""

    @verb(Access.WRITE)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        """Give jobs to a registered, living worker: fence + 1, state held."""
        now = self._clock.now()
        now_micros = to_micros(now)
        [(registered,)] = yield Query(self._sql["worker_exists"], (request.worker,))
        if not registered:
            raise WorkerBuriedError(f"worker {request.worker} is not registered, or was buried: register a new one")
        yield Command(self._sql["promote"], (now_micros, PROMOTED_AT_ONCE))
        if request.adopt:
            adopted = (now_micros, _adoptable(request), to_json(request.queues))
            yield Command(self._sql["unblock_suspects"], adopted)
        queues = yield from self._open_queues(request)
        due = yield from self._claim_due(request, queues, now_micros)
        ahead = yield from self._claim_ahead(request, now_micros)
        next_due_at = yield from self._next_due_at(request, queues)
        return ClaimAnswer((*due, *ahead), now, None if next_due_at is None else from_micros(next_due_at))

    def _open_queues(self, request: ClaimRequest) -> Steps[list[str]]:
        if request.queues is None:
            rows = yield Query(self._sql["every_queue"], (_adoptable(request),))
        else:
            rows = yield Query(self._sql["asked_queues"], (to_json(dict.fromkeys(request.queues)),))
        return request.in_turn([queue for (queue,) in rows])

    def _claim_due(self, request: ClaimRequest, queues: Sequence[str], now: int) -> Steps[list[Claim]]:
        claims: list[Claim] = []
        for queue in queues:
            wanted = request.limit - len(claims)
            if wanted <= 0:
                break
            rows = yield Query(
                self._sql["claim_due"],
                (request.worker, request.call, queue, int(request.alone), now, wanted, _adoptable(request)),
            )
            claims += to_claims(sorted(rows, key=_by_rank))
        return claims

    def _claim_ahead(self, request: ClaimRequest, now: int) -> Steps[list[Claim]]:
        if request.alone or request.ahead_limit <= 0:
            return []
        horizon, queues = now + span_to_micros(request.look_ahead), to_json(request.queues)
        rows = yield Query(
            self._sql["claim_ahead"],
            (request.worker, request.call, now, horizon, queues, request.ahead_limit, _adoptable(request)),
        )
        return to_claims(sorted(rows, key=_by_time))

    def _next_due_at(self, request: ClaimRequest, queues: Sequence[str]) -> Steps[int | None]:
        alone = int(request.alone)
        [(ready,)] = yield Query(self._sql["next_ready"], (to_json(queues), alone))
        scheduled = yield Query(self._sql["next_scheduled"], (to_json(request.queues), alone))
        times = [time for (time,) in [(ready,), *scheduled] if time is not None]
        return min(times, default=None)


def _adoptable(request: ClaimRequest) -> str:
    return json.dumps([(task.name, task.version) for task in request.adopt])


# RETURNING gives rows in no particular order.
def _by_rank(row: Row) -> tuple[int, int, int]:
    return (-row[_PRIORITY], row[_RUN_AT], row[_SEQ])


def _by_time(row: Row) -> tuple[int, int, int]:
    return (row[_RUN_AT], -row[_PRIORITY], row[_SEQ])
