"""Verbs that wake workers, or tell of jobs, or not: it depends on what is asked, and on what came of it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from standfast.core.job import Ending, NewJob, OnConflict, Verdict
from standfast.core.record import Change
from standfast.core.states import RETURNS
from standfast.store.verb import Access, Steps, Verb

Finished = tuple[tuple[Verdict, ...], bool]
"""The verdicts on endings, and whether a job is free now that waited for one of these ends."""

_ON_CONFLICT = attrgetter("on_conflict")
_MOVE = attrgetter("move")


def enqueuing(jobs: Sequence[NewJob], steps: Callable[[], Steps[Mapping[str, str]]]) -> Verb[Mapping[str, str]]:
    """Return the verb `enqueue`: jobs that it may end, as others take their place, are told of."""
    tells = OnConflict.REPLACE in map(_ON_CONFLICT, jobs)
    return Verb("enqueue", Access.WRITE, steps(), wakes=True, tells=tells, brings=jobs, again=steps)


def known_before(jobs: Sequence[NewJob]) -> dict[str, str]:
    """Return what an enqueue that accepted nothing answers: of a single job that its id was known already."""
    return {jobs[0].id: jobs[0].id} if len(jobs) == 1 else {}


def finishing(endings: Sequence[Ending], steps: Callable[[], Steps[Finished]]) -> Verb[tuple[Verdict, ...]]:
    """Return the verb `finish`: jobs that come back, or were waiting for the end of another, wake workers."""

    def finish() -> "Steps[tuple[Verdict, ...]]":  # as text: to make the type would take longer, each time
        verdicts, frees = yield from steps()
        verb.wakes |= frees
        return verdicts

    wakes = not RETURNS.isdisjoint(map(_MOVE, endings))
    verb = Verb("finish", Access.WRITE, finish(), wakes, tells=True, again=finish)
    return verb


def changing(changes: Sequence[Change], steps: Callable[[], Steps[tuple[bool, ...]]]) -> Verb[tuple[bool, ...]]:
    """Return the verb `change_records`: jobs that come of it wake workers, jobs that it may end are told of.

    Of many who come to fire a schedule one does. The others, whose changes are refused, disturb nobody.
    """

    def change_all() -> Steps[tuple[bool, ...]]:
        made = yield from steps()
        if not any(made):
            verb.wakes = verb.tells = False
        return made

    replaces = any(OnConflict.REPLACE in map(_ON_CONFLICT, change.jobs) for change in changes)
    wakes = any(change.jobs for change in changes)
    tells = replaces or any(change.cancels or change.withdraws for change in changes)
    brings = changes if wakes else ()
    verb = Verb("change_records", Access.WRITE, change_all(), wakes, tells, brings, again=change_all)
    return verb


def check_changes(changes: Sequence[Change]) -> None:
    """Refuse what no caller may ask for. Raises ValueError."""
    if len({(change.kind, change.name) for change in changes}) < len(changes):
        raise ValueError("two changes of one call are of the same record: make them one after the other")
    for change in changes:
        if any(job.on_conflict is OnConflict.RAISE for job in change.jobs):
            raise ValueError(
                f"a job of the change of {change.kind} {change.name!r} says on_conflict=raise, but no key can undo"
                " a change: say return or replace"
            )
