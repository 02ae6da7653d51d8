"""How a worker comes by jobs.

A claim is a few set-wise statements under the write lock: due jobs become ready, then one update per queue gives
the best of them away, then one for those due soon. Only a queue where jobs of a lower priority have waited for long
takes more of them (turns.py).
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from holdfast.core.job import Claim
from holdfast.store.protocol import ClaimAnswer, ClaimRequest
from holdfast.store.refusals import buried_worker
from holdfast.store.sql_rows import Row
from holdfast.store.sqlite.choosing import Turns, adoptable, long_ago
from holdfast.store.sqlite.rows import to_claims
from holdfast.store.sqlite.verbs import SqliteVerbs, to_json
from holdfast.store.times import from_micros, span_to_micros, to_micros
from holdfast.store.verb import Access, Command, Query, Steps, verb

PROMOTED_AT_ONCE = 20_000
"""So many due jobs are made ready per claim. A larger flood takes several claims, and until it is through, its
later jobs compete only with each other; no claim keeps the write lock for long."""

_SEQ = 2


class ClaimVerbs(SqliteVerbs):
    """The verb that gives jobs to workers."""

    @verb(Access.WRITE)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        """Give jobs to a registered, living worker: fence + 1, state held."""
        now = self._clock.now()
        now_micros = to_micros(now)
        [(registered,)] = yield Query(self._sql["worker_exists"], (request.worker,))
        if not registered:
            raise buried_worker(request.worker)
        yield Command(self._sql["promote"], (now_micros, PROMOTED_AT_ONCE))
        if request.adopt:
            adopted = (now_micros, adoptable(request), to_json(request.queues), to_json(request.closed))
            yield Command(self._sql["unblock_suspects"], adopted)
        queues = yield from self._open_queues(request)
        due = yield from self._claim_due(request, queues, now_micros)
        ahead = yield from self._claim_ahead(request, now_micros)
        next_due_at = yield from self._next_due_at(request, queues)
        return ClaimAnswer((*due, *ahead), now, None if next_due_at is None else from_micros(next_due_at))

    def _open_queues(self, request: ClaimRequest) -> Steps[list[str]]:
        if request.queues is None:
            rows = yield Query(self._sql["every_queue"], (adoptable(request),))
        else:
            rows = yield Query(self._sql["asked_queues"], (to_json(dict.fromkeys(request.queues)),))
        return request.in_turn([queue for (queue,) in rows if queue not in request.closed])

    def _claim_due(self, request: ClaimRequest, queues: Sequence[str], now: int) -> Steps[list[Claim]]:
        turns = yield from self._turns(request, queues, now)
        claims: dict[str, list[Claim]] = {queue: [] for queue in queues}
        left = request.limit
        for queue, most in _portions(request, queues):
            wanted = min(most, left)
            if wanted <= 0:
                continue
            if queue in turns:
                rows = yield from self._claim_in_turns(request, turns[queue], wanted)
            else:
                rows = yield from self._claim_first(request, queue, wanted, now)
            claims[queue] += to_claims(rows)
            left -= len(rows)
        return list(chain.from_iterable(claims.values()))

    def _claim_first(self, request: ClaimRequest, queue: str, wanted: int, now: int) -> Steps[list[Row]]:
        rows = yield Query(
            self._sql["claim_due"],
            (request.worker, request.call, queue, int(request.alone), now, wanted, adoptable(request)),
        )
        return sorted(rows)

    def _claim_in_turns(self, request: ClaimRequest, turns: Turns, wanted: int) -> Steps[list[Row]]:
        chosen = yield from turns.choose(wanted)
        rows = yield Query(self._sql["claim_chosen"], (request.worker, request.call, json.dumps(chosen)))
        by_seq = {row[_SEQ]: row for row in rows}
        return [by_seq[seq] for seq in chosen]

    def _turns(self, request: ClaimRequest, queues: Sequence[str], now: int) -> Steps[dict[str, Turns]]:
        """Return who takes turns in the queues where priority alone would pass over jobs that have waited long."""
        if request.max_wait is None or request.limit <= 0:
            return {}
        since, alone = long_ago(request, now), int(request.alone)
        waited: defaultdict[str, set[int]] = defaultdict(set)
        passed_over: set[str] = set()
        for queue, priority, depth in (yield Query(self._sql["long_waits"], (to_json(queues), alone, since))):
            waited[queue].add(priority)
            if depth > 0:
                passed_over.add(queue)
        for queue in queues if request.adopt else ():
            where = (queue, alone, since, adoptable(request))
            rows = yield Query(self._sql["adoptable_long_waits"], where)
            waited[queue].update(priority for (priority,) in rows)
            passed_over.add(queue)
        visit = request.visit(queues)
        return {
            queue: Turns(self._sql, request, queue, waited[queue], visit=visit, now=now) for queue in passed_over
        }

    def _claim_ahead(self, request: ClaimRequest, now: int) -> Steps[list[Claim]]:
        if request.alone or request.ahead_limit <= 0:
            return []
        horizon, queues = now + span_to_micros(request.look_ahead), to_json(request.queues)
        what = (horizon, queues, request.ahead_limit, adoptable(request), to_json(request.closed))
        rows = yield Query(self._sql["claim_ahead"], (request.worker, request.call, now, *what))
        return to_claims(sorted(rows, key=_by_time))

    def _next_due_at(self, request: ClaimRequest, queues: Sequence[str]) -> Steps[int | None]:
        alone = int(request.alone)
        [(ready,)] = yield Query(self._sql["next_ready"], (to_json(queues), alone))
        where = (to_json(request.queues), alone, to_json(request.closed))
        scheduled = yield Query(self._sql["next_scheduled"], where)
        times = [time for (time,) in [(ready,), *scheduled] if time is not None]
        return min(times, default=None)


def _portions(request: ClaimRequest, queues: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield which queue gives next, and how many jobs at most: with shares those come first, then what is left."""
    if request.queues is not None and request.shares is not None:
        shares = dict(zip(request.queues, request.shares, strict=True))
        yield from ((queue, shares[queue]) for queue in queues)
    yield from ((queue, request.limit) for queue in queues)


def _by_time(row: Row) -> tuple[int, int, int]:
    rank, run_at, seq, *_ = row
    return (run_at, rank, seq)
