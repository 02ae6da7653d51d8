"""Which page of jobs a filter means: along which walk, with what parameters, and where a look at some jobs ends."""

import json

from standfast.core.states import WAITING, State
from standfast.store.protocol import JobFilter
from standfast.store.sqlite.verbs import to_json

MOST_SORTED = 2000
"""If no more jobs wait, they are sorted by id; else every job is walked, and some of those soon met wait."""

_COMPLETED = frozenset({State.COMPLETED})


def walk_of(which: JobFilter, *, many_wait: bool) -> str:
    """Return the statement that has the fewest jobs to pass over: a key's, a tag's, those in states, or all."""
    if which.key is not None:
        return "keyed_jobs"
    if which.tags:
        return "tagged_jobs"
    states = set(which.possible_states)
    return "jobs" if states & _COMPLETED or (many_wait and states & WAITING) else "jobs_in_states"


def parameters_of(which: JobFilter, now: int) -> tuple[object, ...]:
    """Return the parameters of such a statement."""
    metadata = json.dumps(dict(which.metadata)) if which.metadata else None
    place = (_states(which), which.queue, which.task, which.before, which.after, now, which.limit)
    return (*place, which.key, to_json(which.tags or None), metadata, which.error or None, which.worker)


def end_parameters_of(which: JobFilter, walk: str, span: int) -> tuple[object, ...]:
    """Return the parameters of the statement that finds where a look at some jobs of a walk ends."""
    more: dict[str, tuple[object, ...]] = {
        "keyed_jobs": (which.key,),
        "tagged_jobs": which.tags[:1],
        "jobs_in_states": (_states(which),),
    }
    return (which.before, which.after, span, *more.get(walk, ()))


def _states(which: JobFilter) -> str | None:
    states = which.possible_states
    return None if len(states) == len(State) else to_json(states)
