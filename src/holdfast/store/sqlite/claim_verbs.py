"""How a worker comes by jobs.

A claim is a few set-wise statements under the write lock: due jobs become ready, then one update per queue gives
the best of them away, then one for those due soon. Where jobs of a lower priority have waited for long, all that
might be given is looked at, and chosen among here.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from holdfast.core.job import Claim
from holdfast.store.choosing import Candidate, choose_due
from holdfast.store.protocol import ClaimAnswer, ClaimRequest
from holdfast.store.refusals import buried_worker
from holdfast.store.sql_files import OF_OPEN_TASKS
from holdfast.store.sql_rows import Row
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
            adopted = (now_micros, _adoptable(request), to_json(request.queues), to_json(request.closed))
            yield Command(self._sql["unblock_suspects"], adopted)
        queues = yield from self._open_queues(request)
        due = yield from self._claim_due(request, queues, now_micros)
        ahead = yield from self._claim_ahead(request, now_micros)
        next_due_at = yield from self._next_due_at(request, queues)
        return ClaimAnswer((*due, *ahead), now, None if next_due_at is None else from_micros(next_due_at))

    def _open_queues(self, request: ClaimRequest) -> Steps[list[str]]:
        if request.queues is None:
            rows = yield Query(self._sql["every_queue"], (_adoptable(request),))
            if bytes in {type(queue) for (queue,) in rows}:
                yield from self._unearth()
                rows = yield Query(self._sql["every_queue"], (_adoptable(request),))
        else:
            rows = yield Query(self._sql["asked_queues"], (to_json(dict.fromkeys(request.queues)),))
        return request.in_turn([queue for (queue,) in rows if queue not in request.closed])

    def _claim_due(self, request: ClaimRequest, queues: Sequence[str], now: int) -> Steps[list[Claim]]:
        starving = yield from self._starving(request, queues, now)
        if starving:
            return (yield from self._claim_in_turns(request, queues, starving, now))
        claims: dict[str, list[Claim]] = {queue: [] for queue in queues}
        left = request.limit
        for queue, most in request.portions(queues):
            wanted = min(most, left)
            if wanted > 0:
                place = (queue, request.group, now, wanted, _adoptable(request))
                rows = yield self._of_open_tasks("claim_due", request, (request.worker, request.call, *place))
                claims[queue] += to_claims(sorted(rows))
                left -= len(rows)
        return list(chain.from_iterable(claims.values()))

    def _starving(self, request: ClaimRequest, queues: Sequence[str], now: int) -> Steps[dict[str, set[int]]]:
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
            if depth > 0:
                passed_over.add(queue)
        for queue in queues if request.adopt else ():
            where = (queue, request.group, since, _adoptable(request))
            rows = yield Query(self._sql["adoptable_long_waits"], where)
            waited[queue].update(priority for (priority,) in rows)
            passed_over.add(queue)
        return {queue: waited[queue] for queue in passed_over}

    def _claim_in_turns(
        self, request: ClaimRequest, queues: Sequence[str], starving: Mapping[str, set[int]], now: int
    ) -> Steps[list[Claim]]:
        """Look at all that might be given, choose, and give that."""
        group, limit = request.group, request.limit
        adopted, since = _adoptable(request), _long_ago(request, now)
        due: dict[int, Candidate] = {}
        for queue in queues:
            rows = yield self._of_open_tasks("first_due_jobs", request, (queue, group, now, limit, adopted))
            for priority in starving.get(queue, ()):
                rows += yield self._of_open_tasks(
                    "oldest_due_jobs", request, (queue, group, since, limit, adopted, priority)
                )
            due |= {seq: Candidate(queue, priority, run_at, seq) for seq, priority, run_at in rows}
            if len(due) >= limit and request.shares is None:
                break  # those after it give nothing
        chosen = [job.arrival for job in choose_due(request, queues, due.values(), since)]
        rows = yield Query(self._sql["claim_chosen"], (request.worker, request.call, json.dumps(chosen)))
        by_seq = {row[_SEQ]: row for row in rows}
        return to_claims([by_seq[seq] for seq in chosen])

    def _claim_ahead(self, request: ClaimRequest, now: int) -> Steps[list[Claim]]:
        if request.group or request.ahead_limit <= 0:
            return []
        horizon, queues = now + span_to_micros(request.look_ahead), to_json(request.queues)
        what = (horizon, queues, request.ahead_limit, _adoptable(request), to_json(request.closed))
        rows = yield self._of_open_tasks("claim_ahead", request, (request.worker, request.call, now, *what))
        return to_claims(sorted(rows, key=_by_time))

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


def _adoptable(request: ClaimRequest) -> str:
    """Return what a worker adopts, as the statements take it."""
    return json.dumps([(task.name, task.version) for task in request.adopt]) if request.adopt else "[]"
