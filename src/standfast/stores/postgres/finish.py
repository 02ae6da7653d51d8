"""What a claim writes in PostgreSQL: starts, progress, endings.

How claims leave their workers' hands, whoever ends them: a few statements for all of them, sent together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from standfast.model.job import HISTORY_FIRST, HISTORY_LAST, ClaimRef, Ending, Progress, Verdict, folds_at
from standfast.model.memos import signal_name, signal_prefix
from standfast.model.states import FINAL, State
from standfast.stores.claims import ClaimedRow, End, check, finished, is_plain_success
from standfast.stores.postgres.rows import PostgresVerbs, is_id, readable
from standfast.stores.rows import span_to_micros, to_micros
from standfast.stores.verb import (
    Access,
    Command,
    Finished,
    Last,
    Query,
    Steps,
    Together,
    Verb,
    finishing,
    in_bites,
    verb,
)


def ends(sql: Mapping[str, str], ended: Sequence[End], now: int) -> list[Command]:
    """Return what writes the ends of claims that were locked before in this same transaction."""
    ended = sorted(ended, key=lambda end: end.row.id)
    final = [end for end in ended if end.state in FINAL]
    back = [end for end in ended if end.state not in FINAL]
    awaited = [end.row.id for end in ended if end.row.replaced]
    commands = []
    if ended:
        commands.append(Command(sql["record_attempts"], (now, *columns(map(_story, ended)))))
    if long := [end.row for end in ended if folds_at(end.row.fence)]:
        between = [(row.id, HISTORY_FIRST, row.fence - HISTORY_LAST) for row in long]
        commands.append(Command(sql["fold_attempts"], columns(between)))
    if final:
        commands.append(Command(sql["end_for_good"], (now, *columns(map(_outcome, final)))))
    if back:
        commands.append(Command(sql["give_back"], columns(map(_return, back))))
    if awaited:
        commands.append(Command(sql["free_replacements"], (awaited,)))
    return commands


def columns(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Return rows, of which there is one at least, as the columns that a statement unfolds with unnest."""
    return list(zip(*rows, strict=True))


def _story(end: End) -> tuple[object, ...]:
    row = end.row
    words = map(readable, (end.attempt_error, end.traceback, end.log))
    return (row.id, row.fence, row.worker, row.started_at, end.how, *words, end.by.value)


def _outcome(end: End) -> tuple[object, ...]:
    row = end.row
    return (
        row.id,
        end.state.value,
        readable(end.reason),
        row.started_at,
        *_numbers(end),
        end.result,
        end.result_until,
    )


def _return(end: End) -> tuple[object, ...]:
    return (end.row.id, end.state is State.BLOCKED, readable(end.reason), end.row.run_at, *_numbers(end))


def _numbers(end: End) -> tuple[object, ...]:
    row = end.row
    return (row.attempt, row.crashes, row.group > 0, readable(row.error))


# The fenced writes of a claim: start, progress, finish.
#
# Success is the hot path: one message with two statements, of which the second mostly finds nothing left to do. Only
# where a batch has other endings too are its claims first locked and read.
#
# Whoever else may change a claim's row meanwhile:
#     cancel, a replacing enqueue   They lock the row. Before us, we wait and then see what they wrote, as the server
#                                   looks again at a row that it had to wait for; after us, they find it gone.
#     finish, sent a second time    It waits for the first, finds no claim, and then, in a statement that sees what
#                                   the first committed, that it is recorded.
#     signal                        It keeps the row as it is, and writes a memo. Before us, we wait; and the
#                                   statement that looks for signals sees the memo, as it comes after the one that
#                                   waited. After us, it finds the claim gone, and looks again.
#     bury, reconcile               They lock the row. One of us ends the claim, the other finds it gone.
# Claims are locked in the order of their ids, here and by all those: so none of us waits for another in a circle.

BITE = 16 * 1024 * 1024
"""Bytes of results that one statement takes."""

_REF = attrgetter("ref")


class _Aftermath(NamedTuple):
    """What a finish leaves: the claims that were refused, and whether jobs that waited for the others are free."""

    refused: set[ClaimRef]
    frees: bool


class FinishVerbs(PostgresVerbs):
    """What a worker writes about its claims."""

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Steps[tuple[Verdict, ...]]:
        first = {ref: (*ref, to_micros(started_at)) for ref, started_at in reversed(started)}
        valid = yield from self._fenced("start", worker, first)
        return tuple(_verdict(ref in valid) for ref, _ in started)

    @verb(Access.WRITE, tells=True)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Steps[tuple[Verdict, ...]]:
        last = {ref: (*ref, report.done, report.total, readable(report.note)) for ref, report in reports}
        valid = yield from self._fenced("progress", worker, last)
        return tuple(_verdict(ref in valid) for ref, _ in reports)

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        return finishing(endings, partial(self._finish, worker, endings))

    def _finish(self, worker: str, endings: Sequence[Ending]) -> Steps[Finished]:
        check(endings)
        known = sorted([ending for ending in endings if is_id(ending.ref.job_id)], key=_REF)
        if not known:
            return (Verdict.STALE,) * len(endings), False
        way = self._complete if all(map(is_plain_success, known)) else self._end
        refused, frees = yield from way(worker, known)
        if not refused and len(known) == len(endings):
            return (Verdict.ACCEPTED,) * len(endings), frees
        return tuple(_verdict(is_id(ref.job_id) and ref not in refused) for ref in map(_REF, endings)), frees

    def _complete(self, worker: str, endings: list[Ending]) -> Steps[_Aftermath]:
        """Complete claims, whatever they are."""
        bites = list(_in_bites(endings))
        answers = yield Last(Together([query for bite in bites for query in self._completion(worker, bite)]))
        refused: set[ClaimRef] = set()
        frees = False
        for bite, [(freed, places)] in zip(bites, answers[1::2], strict=True):
            frees |= freed > 0
            refused.update(bite[place - 1].ref for place in places)
        return _Aftermath(refused, frees)

    def _end(self, worker: str, endings: list[Ending]) -> Steps[_Aftermath]:
        """End claims, in whatever way."""
        first: dict[ClaimRef, Ending] = {}
        for ending in endings:
            first.setdefault(ending.ref, ending)
        rows = yield Query(self._sql["claimed_jobs"], (self._given_now(), worker, *columns(first)))
        claims = {row.ref: row for row in (ClaimedRow(*row) for _, *row in rows)}
        others = [ref for ref in first if ref not in claims]
        statements: list[Query | Command] = []
        if others:
            statements.append(Query(self._sql["recorded"], (worker, [ref.job_id for ref in others])))
        if claims:
            [(now, *_), *_] = rows
            plain = [first[ref] for ref in claims if is_plain_success(first[ref])]
            for bite in _in_bites(plain):
                statements += self._completion(worker, bite)
            ended = [
                finished(row, first[ref], now) for ref, row in claims.items() if not is_plain_success(first[ref])
            ]
            statements += ends(self._sql, ended, now)
            statements += self._signals_heard(ended, now)
        answers = yield Last(Together(statements))
        recorded = {ClaimRef(*row) for row in answers[0]} if others else set()
        frees = any(row.replaced for row in claims.values())
        return _Aftermath({ref for ref in others if ref not in recorded}, frees)

    def _signals_heard(self, ended: Sequence[End], now: int) -> list[Command]:
        """Return what wakes those that would wait for a signal which has come already."""
        wanted = [(end.row.id, signal_name(end.reason)) for end in ended if end.state is State.SCHEDULED]
        prefixes = {job_id: signal_prefix(name) for job_id, name in wanted if name is not None}
        if not prefixes:
            return []
        return [Command(self._sql["wake_signalled"], (now, list(prefixes), list(prefixes.values())))]

    def _completion(self, worker: str, endings: list[Ending]) -> tuple[Query, Query]:
        ids, fences, started, results, kept = columns(map(_completed, endings))
        keep = None if kept.count(None) == len(kept) else kept
        return (
            Query(self._sql["complete"], (self._given_now(), worker, ids, fences, started, results, keep)),
            Query(self._sql["settle_completed"], (worker, _as_text(ids), _as_text(fences))),
        )

    def _fenced(self, update: str, worker: str, rows: Mapping[ClaimRef, Sequence[object]]) -> Steps[set[ClaimRef]]:
        """Write about claims; return those that are valid."""
        known = [row for ref, row in sorted(rows.items()) if is_id(ref.job_id)]
        if not known:
            return set()
        valid = yield Last(Query(self._sql[update], (worker, *columns(known))))
        return {ClaimRef(*row) for row in valid}


def _verdict(accepted: bool) -> Verdict:
    return Verdict.ACCEPTED if accepted else Verdict.STALE


def _completed(ending: Ending) -> tuple[object, ...]:
    # One of many in the hot path: what is None mostly is not asked further.
    (job_id, fence), started_at, kept = ending.ref, ending.started_at, ending.keep_result
    return (
        job_id,
        fence,
        None if started_at is None else to_micros(started_at),
        ending.result,
        None if kept is None else span_to_micros(kept),
    )


def _as_text(words: Iterable[object]) -> str:
    """Return ids or numbers as the server writes an array of them."""
    return f"{{{','.join(map(str, words))}}}"


def _in_bites(endings: Sequence[Ending]) -> Iterator[list[Ending]]:
    return in_bites(endings, [len(ending.result or b"") for ending in endings], BITE)
