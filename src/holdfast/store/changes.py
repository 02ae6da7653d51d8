"""Changes of records as a store is asked for them: what is refused, and who has to hear of them. Pure."""

from collections.abc import Sequence

from holdfast.core.job import OnConflict
from holdfast.core.record import Change
from holdfast.store.verb import Access, Steps, Verb


def changing(changes: Sequence[Change], steps: Steps[tuple[bool, ...]]) -> Verb[tuple[bool, ...]]:
    """Return the verb `change_records`: jobs that come of it wake workers, jobs that it may end are told of.

    Of many who come to fire a schedule one does. The others, whose changes are refused, disturb nobody.
    """

    def change_all() -> Steps[tuple[bool, ...]]:
        made = yield from steps
        if not any(made):
            verb.wakes = verb.tells = False
        return made

    replaces = any(job.on_conflict is OnConflict.REPLACE for change in changes for job in change.jobs)
    wakes = any(change.jobs for change in changes)
    tells = replaces or any(change.cancels or change.withdraws for change in changes)
    verb = Verb("change_records", Access.WRITE, change_all(), wakes=wakes, tells=tells)
    return verb


def check(changes: Sequence[Change]) -> None:
    """Refuse what no caller may ask for. Raises ValueError."""
    if len({(change.kind, change.name) for change in changes}) < len(changes):
        raise ValueError("two changes of one call are of the same record: make them one after the other")
    for change in changes:
        if any(job.on_conflict is OnConflict.RAISE for job in change.jobs):
            raise ValueError(
                f"a job of the change of {change.kind} {change.name!r} says on_conflict=raise, but no key can undo"
                " a change: say return or replace"
            )
