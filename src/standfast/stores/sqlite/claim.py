"""How a worker comes by jobs.

A claim is a few set-wise statements under the write lock: due jobs become ready, then one update per queue gives
the best of them away, then one for those due soon. Where jobs of a lower priority have waited for long, or blocked
ones are to be adopted, all that might be given is looked at, and chosen among here.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from standfast.model.job import Claim, KnownTask
from standfast.stores.claims import Candidate, choose_due
from standfast.stores.refusals import buried_worker
from standfast.stores.rows import from_micros, span_to_micros, to_micros
from standfast.stores.sqlite.statements import SqliteVerbs, to_claims, to_json
from standfast.stores.statements import OF_OPEN_TASKS, Row
from standfast.stores.values import ClaimAnswer, ClaimRequest
from standfast.stores.verb import Access, Command, Query, Steps, verb

PROMOTED_AT_ONCE = 20_000
"""So many due jobs are made ready per claim. A larger flood takes several claims, and until it is through, its
later jobs compete only with each other; no claim keeps the write lock for long."""

LOOKED_THROUGH = 5_000
"""So many due jobs of a queue are looked through at once for tasks that the worker does not know."""

MOST_PILES = 1_000
"""In so many places (task, version, queue, group and priority) a claim looks for blocked jobs, at most."""

_SEQ = 2
_EVER = -(2**63)
_TYPES = [str, int, int, str, int]


class _Pile(NamedTuple):
    """Where blocked jobs wait that the worker knows."""

    queue: str
    alone: int
    priority: int
    task: str
    version: int


class ClaimVerbs(SqliteVerbs):
    """The verb that gives jobs to workers."""

    @verb(Access.WRITE)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        now = self._clock.now()
        now_micros = to_micros(now)
        [(registered,)] = yield Query(self._sql["worker_exists"], (request.worker,))
        if not registered:
            raise buried_worker(request.worker)
        yield Command(self._sql["promote"], (now_micros, PROMOTED_AT_ONCE))
        queues = yield from self._open_queues(request)
        for queue in queues if request.unknown else ():
            look = (queue, request.group, now_micros, LOOKED_THROUGH, _pairs(request.unknown))
            yield Command(self._sql["block_unknown"], look)
        piles = (yield from self._piles(request, now_micros)) if request.adopt else []
        if piles and request.queues is None:
            queues = sorted({*queues, *(pile.queue for pile in piles)})
        queues = request.in_turn(queues)
        piles = [pile for pile in piles if pile.alone == request.group == 0]
        due = yield from self._claim_due(request, queues, piles, now_micros)
        ahead = yield from self._claim_ahead(request, piles, now_micros)
        next_due_at = yield from self._next_due_at(request, queues)
        return ClaimAnswer((*due, *ahead), now, None if next_due_at is None else from_micros(next_due_at))

    def _piles(self, request: ClaimRequest, now: int) -> Steps[list[_Pile]]:
        """Return where jobs wait that this worker adopts. Suspects among them wait for a child of their own."""
        asked = (_pairs(request.adopt), to_json(request.queues), to_json(request.closed), MOST_PILES)
        rows = yield Query(self._sql["piles"], asked)
        piles = [_Pile(*row) for row in rows if list(map(type, row)) == _TYPES]  # others were damaged by hand
        for queue, alone, _, task, version in piles:
            if alone:
                yield Command(self._sql["unblock_suspects"], (now, queue, alone, task, version))
        return piles

    def _open_queues(self, request: ClaimRequest) -> Steps[list[str]]:
        if request.queues is None:
            rows = yield Query(self._sql["every_queue"])
            if bytes in {type(queue) for (queue,) in rows}:
                yield from self._unearth()
                rows = yield Query(self._sql["every_queue"])
        else:
            rows = yield Query(self._sql["asked_queues"], (to_json(dict.fromkeys(request.queues)),))
        return [queue for (queue,) in rows if queue not in request.closed]

    def _claim_due(
        self, request: ClaimRequest, queues: Sequence[str], piles: Sequence[_Pile], now: int
    ) -> Steps[list[Claim]]:
        starving = yield from self._starving(request, queues, piles, now)
        if starving or (piles and request.limit > 0):
            return (yield from self._claim_in_turns(request, queues, starving, piles, now))
        claims: dict[str, list[Claim]] = {queue: [] for queue in queues}
        left = request.limit
        for queue, most in request.portions(queues):
            wanted = min(most, left)
            if wanted > 0:
                place = (queue, request.group, now, wanted)
                rows = yield self._of_open_tasks("claim_due", request, (request.worker, request.call, *place))
                claims[queue] += to_claims(sorted(rows))
                left -= len(rows)
        return list(chain.from_iterable(claims.values()))

    def _starving(
        self, request: ClaimRequest, queues: Sequence[str], piles: Sequence[_Pile], now: int
    ) -> Steps[dict[str, set[int]]]:
        """Return the priorities that have waited long, of queues where priority alone would pass over some."""
        if request.max_wait is None or request.limit <= 0:
            return {}
        since = _long_ago(request, now)
        waited: defaultdict[str, set[int]] = defaultdict(set)
        passed_over: set[str] = set()
        for queue, priority, depth in (
            yield self._of_open_tasks("long_waits", request, (to_json(queues), request.group, since))
        ):
            waited[queue].add(priority)
            if depth > 0 or piles:
                passed_over.add(queue)
        return {queue: waited[queue] for queue in passed_over}

    def _claim_in_turns(
        self,
        request: ClaimRequest,
        queues: Sequence[str],
        starving: Mapping[str, set[int]],
        piles: Sequence[_Pile],
        now: int,
    ) -> Steps[list[Claim]]:
        """Look at all that might be given, choose, and give that."""
        group, limit = request.group, max(request.limit, 0)
        since = _long_ago(request, now)
        due: dict[int, Candidate] = {}
        for queue in queues:
            rows = yield self._of_open_tasks("first_due_jobs", request, (queue, group, now, limit))
            for priority in starving.get(queue, ()):
                rows += yield self._of_open_tasks(
                    "oldest_due_jobs", request, (queue, group, since, limit, priority)
                )
            for pile in piles:
                if pile.queue == queue:
                    rows += yield Query(self._sql["adoptable_jobs"], (*pile, _EVER, now, limit))
            due |= {seq: Candidate(queue, priority, run_at, seq) for seq, priority, run_at in rows}
            if len(due) >= limit and request.shares is None:
                break  # those after it give nothing
        long_ago = None if request.max_wait is None else since
        chosen = [job.arrival for job in choose_due(request, queues, due.values(), long_ago)]
        return (yield from self._claim_chosen(request, chosen))

    def _claim_chosen(self, request: ClaimRequest, chosen: Sequence[int]) -> Steps[list[Claim]]:
        rows = yield Query(self._sql["claim_chosen"], (request.worker, request.call, json.dumps(chosen)))
        by_seq = {row[_SEQ]: row for row in rows}
        return to_claims([by_seq[seq] for seq in chosen])

    def _claim_ahead(self, request: ClaimRequest, piles: Sequence[_Pile], now: int) -> Steps[list[Claim]]:
        limit = request.ahead_limit
        if request.group or limit <= 0:
            return []
        horizon = now + span_to_micros(request.look_ahead)
        what = (now, horizon, to_json(request.queues), limit, to_json(request.closed))
        if not piles:
            rows = yield self._of_open_tasks("claim_ahead", request, (request.worker, request.call, *what))
            return to_claims(sorted(rows, key=_by_time))
        rows = yield self._of_open_tasks("jobs_ahead", request, what)
        for pile in piles:
            rows += yield Query(self._sql["adoptable_jobs"], (*pile, now, horizon, limit))
        soonest = sorted((run_at, -priority, seq) for seq, priority, run_at in rows)[:limit]
        return (yield from self._claim_chosen(request, [seq for _, _, seq in soonest]))

    def _of_open_tasks(self, name: str, request: ClaimRequest, what: tuple[Any, ...]) -> Query:
        """Return the statement that passes over closed tasks, where there are any."""
        if not request.closed_tasks:
            return Query(self._sql[name], what)
        return Query(self._sql[name + OF_OPEN_TASKS], (*what, to_json(request.closed_tasks)))

    def _next_due_at(self, request: ClaimRequest, queues: Sequence[str]) -> Steps[int | None]:
        group = request.group
        [(ready,)] = yield self._of_open_tasks("next_ready", request, (to_json(queues), group))
        where = (to_json(request.queues), group, to_json(request.closed))
        scheduled = yield self._of_open_tasks("next_scheduled", request, where)
        times = [time for (time,) in [(ready,), *scheduled] if time is not None]
        if str in map(type, times) or bytes in map(type, times):
            yield from self._unearth()
            return self._now()
        return min(times, default=None)

    def _unearth(self) -> Steps[None]:
        """Let jobs be claimed whose place in the line somebody damaged: nobody would ever come by them."""
        queues = yield Query(self._sql["odd_queues"])
        odd = [queue.hex().upper() for (queue,) in queues if queue.decode(errors="ignore").encode() != queue]
        yield Command(self._sql["unearth"], (to_json(odd), self._now()))


def _by_time(row: Row) -> tuple[int, int, int]:
    rank, run_at, seq, *_ = row
    return (run_at, rank, seq)


def _long_ago(request: ClaimRequest, now: int) -> int:
    """Return since when a job must have been due to have waited long."""
    return now if request.max_wait is None else now - span_to_micros(request.max_wait) // 2


def _pairs(tasks: Sequence[KnownTask]) -> str:
    """Return tasks as the statements take them."""
    return json.dumps([(task.name, task.version) for task in tasks])
