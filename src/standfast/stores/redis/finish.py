"""The fenced writes of a claim: start, progress, save, finish.

Success is the hot path: plain completions travel in columns and are written all at once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from standfast.model.job import ClaimRef, Ending, Progress, Verdict
from standfast.model.memos import Save
from standfast.stores.claims import check, is_plain_success
from standfast.stores.redis.rows import pack, write_completion, write_memo, write_progress
from standfast.stores.rows import span_to_micros, to_micros, to_micros_or_none
from standfast.stores.verb import Access, Finished, Script, Steps, Verb, finishing, verb


class FinishVerbs:
    """What a worker writes about its claims."""

    @verb(Access.WRITE)
    def start(self, worker: str, started: Sequence[tuple[ClaimRef, datetime]]) -> Steps[tuple[Verdict, ...]]:
        rows = [(*ref, to_micros(started_at)) for ref, started_at in started]
        refused = (yield Script("start", (worker, pack(rows)))) if rows else ()
        return _verdicts(len(rows), refused)

    @verb(Access.WRITE, tells=True)
    def progress(self, worker: str, reports: Sequence[tuple[ClaimRef, Progress]]) -> Steps[tuple[Verdict, ...]]:
        texts = [write_progress(report) for _, report in reports]
        rows = [(*ref, len(text)) for (ref, _), text in zip(reports, texts, strict=True)]
        refused = (yield Script("progress", (worker, pack(rows), b"".join(texts)))) if rows else ()
        return _verdicts(len(rows), refused)

    @verb(Access.WRITE)
    def save(self, worker: str, saves: Sequence[Save]) -> Steps[tuple[Verdict, ...]]:
        texts = [[write_memo(memo.body, save.ref.fence, save.number) for memo in save.memos] for save in saves]
        rows = [
            (*save.ref, [memo.name for memo in save.memos], list(map(len, own)))
            for save, own in zip(saves, texts, strict=True)
        ]
        refused = (yield Script("save", (worker, pack(rows), b"".join(chain(*texts))))) if rows else ()
        return _verdicts(len(rows), refused)

    def finish(self, worker: str, endings: Sequence[Ending]) -> Verb[tuple[Verdict, ...]]:
        return finishing(endings, partial(_finish, worker, endings))


def _finish(worker: str, endings: Sequence[Ending]) -> Steps[Finished]:
    check(endings)
    if not endings:
        return (), False
    plain, others = _sorted_out(endings)
    refused, woken = yield Script("finish", (worker, *_columns(plain, others)))
    if not refused:
        return (Verdict.ACCEPTED,) * len(endings), bool(woken)
    sent = [*plain, *others]
    stale = {sent[place - 1].ref for place in refused}
    verdicts = tuple(Verdict.STALE if ending.ref in stale else Verdict.ACCEPTED for ending in endings)
    return verdicts, bool(woken)


def _verdicts(number: int, refused: Iterable[int]) -> tuple[Verdict, ...]:
    verdicts = [Verdict.ACCEPTED] * number
    for place in refused:
        verdicts[place - 1] = Verdict.STALE
    return tuple(verdicts)


def _sorted_out(endings: Sequence[Ending]) -> tuple[Sequence[Ending], Sequence[Ending]]:
    """Return the plain completions and the other endings."""
    if len({ending.ref.job_id for ending in endings}) < len(endings):
        return (), endings  # of several for one job the first one counts: one after the other
    plain = [ending for ending in endings if is_plain_success(ending)]
    if len(plain) == len(endings):
        return plain, ()
    return plain, [ending for ending in endings if not is_plain_success(ending)]


def _columns(plain: Sequence[Ending], others: Sequence[Ending]) -> tuple[bytes, bytes]:
    texts = [write_completion(ending) for ending in plain]
    columns = (
        [ending.ref.job_id for ending in plain],
        [ending.ref.fence for ending in plain],
        [len(text) for text in texts],
        {
            place: span_to_micros(ending.keep_result)
            for place, ending in enumerate(plain, 1)
            if ending.result is not None and ending.keep_result is not None
        },
        [_row(ending) for ending in others],
    )
    return pack(columns), b"".join([*texts, *(ending.result or b"" for ending in others)])


def _row(ending: Ending) -> tuple[Any, ...]:
    failure = ending.failure
    return (
        *ending.ref,
        ending.move.value,
        to_micros_or_none(ending.started_at),
        span_to_micros(ending.delay),
        ending.reason,
        None if failure is None else str(failure),
        None if failure is None else failure.traceback,
        ending.log,
        None if ending.keep_result is None else span_to_micros(ending.keep_result),
        None if ending.result is None else len(ending.result),
    )
