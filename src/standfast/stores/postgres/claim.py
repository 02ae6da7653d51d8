"""How a worker comes by jobs.

Most claims are one short statement, for the fresh jobs of levels that this process knows (expected.py). Where there
is more, a long one and a look at what is left follow, sent together. Queues with shares, jobs to be adopted, tasks
that are closed, and jobs of a lower priority that have waited long take two round trips: a look at what is due,
among which one chooses here, and a statement that takes so many of each level.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from standfast.stores.claims import Candidate, choose_due
from standfast.stores.postgres.rows import (
    Expected,
    Noted,
    RememberingVerbs,
    as_chosen,
    as_json,
    fresh_in_order,
    fresh_marks,
    horizon,
    in_order,
    marks_of,
    note,
    to_claims,
    to_found,
    to_fresh_claims,
    to_walked,
)
from standfast.stores.refusals import buried_worker
from standfast.stores.rows import from_micros, from_micros_or_none, span_to_micros
from standfast.stores.statements import OF_OPEN_TASKS, Row
from standfast.stores.values import ClaimAnswer, ClaimRequest
from standfast.stores.verb import Access, Command, Last, Query, Steps, Together, Try, verb

LOOKED_THROUGH = 5_000
"""So many due jobs of a level are looked through at once for tasks that the worker does not know."""

_KINDS = (_FRESH, _WAITING, _ADOPTABLE) = range(3)


class ClaimVerbs(RememberingVerbs):
    """The verb that gives jobs to workers."""

    @verb(Access.WRITE, once=True)
    def claim(self, request: ClaimRequest) -> Steps[ClaimAnswer]:
        noted = self._marks_for(request).begin()
        if request.unknown:
            unknown = [task.name for task in request.unknown], [task.version for task in request.unknown]
            asked = self._asked(request, noted, self._given_now())
            yield Command(self._sql["block_unknown"], (*asked, LOOKED_THROUGH, *unknown))
        if request.adopt or request.closed_tasks or (request.shares is not None and request.queues is not None):
            return (yield from self._choose(request, noted))
        expected = None if request.group else self._expectations.of(request, noted)
        if expected is not None:
            answer = yield from self._claim_fresh(request, noted, expected)
            if answer is not None:
                return answer
        return (yield from self._claim_any(request, noted))

    def _claim_fresh(self, request: ClaimRequest, noted: Noted, expected: Expected) -> Steps[ClaimAnswer | None]:
        """Take fresh jobs; None, and nothing is taken, where there is something else to heed."""
        levels = expected.levels
        rows = yield Try(
            Query(
                self._sql["claim_fresh"],
                (
                    self._given_now(),
                    request.worker,
                    request.call,
                    [queue for queue, _ in levels],
                    [priority for _, priority in levels],
                    [str(noted.get(level, 0)) for level in levels],
                    max(request.limit, 0),
                    expected.signature,
                    horizon(request),
                    _long_wait(request),
                ),
            )
        )
        head, *rows = _refuse_buried(request, rows)
        found = to_found(head[0])
        if not found.as_expected:
            self._expectations.forget(request)
            return None
        xmin = int(found.xmin)
        note(noted, xmin, fresh_marks(rows, xmin), [levels[place - 1] for place in found.empty])
        return ClaimAnswer(
            to_fresh_claims(fresh_in_order(rows, levels)),
            from_micros(found.now),
            from_micros_or_none(found.next_due_at),
        )

    def _claim_any(self, request: ClaimRequest, noted: Noted) -> Steps[ClaimAnswer]:
        """Take whatever is due or soon will be."""
        asked = self._asked(request, noted, self._given_now())
        claim = Query(self._sql["claim"], (*asked, *_limits(request), _long_wait(request)))
        next_due = Query(self._sql["next_due"], asked)
        together = Together([*self._mend(noted), claim, next_due])
        left = None
        # Only where priorities meet can one of them starve: there, another statement may have to follow.
        if request.max_wait is None:
            *_, found, left = yield Last(together)
        elif noted and self._levels.are_apart(request.queues):
            found = yield Try(claim)  # they may meet all the same: another process has just brought one of them
        else:
            *_, found, left = yield together
        head, *rows = _refuse_buried(request, found)
        now, xmin, starving, levels, *_ = head
        walked = to_walked(levels)
        self._levels.meet(request.queues, walked.levels)
        if starving:
            return (yield from self._choose(request, noted))
        if left is None:
            left = yield Last(next_due)
        if not request.group:
            self._expectations.learn(request, noted, walked, now)
        note(noted, int(xmin), marks_of(rows), walked.empty)
        self._marks.walked(noted)
        return _answer(in_order(rows, walked.queues, now), now, left)

    def _choose(self, request: ClaimRequest, noted: Noted) -> Steps[ClaimAnswer]:
        """Look at what is due and choose, then take so many of each level: the very ones may be gone by then."""
        adopted = [task.name for task in request.adopt], [task.version for task in request.adopt]
        asked = self._asked(request, noted, self._given_now())
        if request.adopt:
            yield Command(self._sql["unblock_suspects"], (_queues(request), *adopted, list(request.closed)))
        look = self._of_open_tasks("due_jobs", request, (*asked, max(request.limit, 0), *adopted))
        *_, rows = yield Together([*self._mend(noted), look])
        (now, xmin, levels, *_), *due = _refuse_buried(request, rows)
        walked = to_walked(levels)
        long_wait = _long_wait(request)
        chosen = choose_due(
            request,
            walked.queues,
            [Candidate(*candidate) for _, _, _, *candidate in due],
            None if long_wait is None else now - long_wait,
        )
        asked = self._asked(request, noted, now)
        what = (*asked, *_limits(request), *_quotas(chosen), *adopted)
        take = self._of_open_tasks("claim_chosen", request, what)
        rows, left = yield Last(Together([take, self._of_open_tasks("next_due", request, asked)]))
        note(noted, int(xmin), marks_of(rows), walked.empty)
        self._marks_for(request).walked(noted)
        return _answer(as_chosen(in_order(rows, walked.queues, now), chosen), now, left)

    def _of_open_tasks(self, name: str, request: ClaimRequest, what: tuple[Any, ...]) -> Query:
        """Return the statement that passes over closed tasks, where there are any."""
        if not request.closed_tasks:
            return Query(self._sql[name], what)
        return Query(self._sql[name + OF_OPEN_TASKS], (*what, list(request.closed_tasks)))

    def _mend(self, noted: Noted) -> list[Command]:
        """Return what a claim that walks everything does before: it looks for jobs whose level is gone."""
        return [] if noted else [Command(self._sql["mend_levels"])]

    def _asked(self, request: ClaimRequest, noted: Noted, now: int | None) -> tuple[Any, ...]:
        """Return what all statements of a claim are told, `asked` in claims.sql."""
        queues = _queues(request)
        return (
            now,
            request.worker,
            request.call,
            queues,
            as_json(noted, queues),
            request.group,
            list(request.closed),
        )


def _queues(request: ClaimRequest) -> list[str] | None:
    return None if request.queues is None else list(dict.fromkeys(request.queues))


def _limits(request: ClaimRequest) -> tuple[int, int, int]:
    return (max(request.limit, 0), span_to_micros(request.look_ahead), max(request.ahead_limit, 0))


def _long_wait(request: ClaimRequest) -> int | None:
    return None if request.max_wait is None else span_to_micros(request.max_wait) // 2


def _quotas(chosen: Sequence[Candidate]) -> list[list[Any]]:
    """Return of which levels, one column for each value, how many jobs of each kind were chosen."""
    counts = Counter((job.queue, job.priority, job.own) for job in chosen)
    levels = dict.fromkeys((queue, priority) for queue, priority, _ in counts)
    rows = [(*level, *(counts[*level, kind] for kind in _KINDS)) for level in levels]
    return [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]


def _refuse_buried(request: ClaimRequest, rows: list[Row]) -> list[Row]:
    if not rows:
        raise buried_worker(request.worker)
    return rows


def _answer(rows: Sequence[Row], now: int, left: list[tuple[int | None]]) -> ClaimAnswer:
    [(next_due_at,)] = left
    return ClaimAnswer(to_claims(rows), from_micros(now), from_micros_or_none(next_due_at))
