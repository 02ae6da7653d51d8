"""How claims leave their workers' hands, whoever ends them: a few statements for all of them, sent together."""

from collections.abc import Iterable, Mapping, Sequence

from standfast.core.job import HISTORY_FIRST, HISTORY_LAST, folds_at
from standfast.core.states import FINAL, State
from standfast.store.claimed import End
from standfast.store.postgres.readable import readable
from standfast.store.verb import Command


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
