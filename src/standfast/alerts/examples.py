"""Some of the jobs that a breach is about, for those who are told of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from standfast.alerts.breach import EXAMPLES, Breach, Key
from standfast.core.alert import Alert, AlertState, Check, Example
from standfast.core.states import Reason, State
from standfast.store.errand import Verbs
from standfast.store.protocol import JobFilter, JobPage, Store
from standfast.words import one_line

SPAN = 2000
"""How many jobs a search for examples looks at."""

MOST_SEARCHES = 10
"""For how many breaches one round searches."""

SHORT = 200

_STATES: Mapping[Check, tuple[State, ...]] = {
    Check.DEAD_LETTERS: (State.DEAD,),
    Check.FAILURE_RATE: (State.DEAD, State.SCHEDULED),
    Check.TASK_UNKNOWN: (State.BLOCKED,),
}


def with_examples(
    verbs: Store, breaches: Iterable[Breach], alerts: Mapping[Key, Alert]
) -> Verbs[tuple[Breach, ...]]:
    """Return breaches with examples: for those that begin, and are about jobs by their state, some are searched."""
    found, searches = [], 0
    for breach in breaches:
        alert = alerts.get(breach.key)
        fresh = alert is None or alert.state is AlertState.RESOLVED or not alert.examples
        if breach.rule.check in _STATES and fresh and searches < MOST_SEARCHES:
            searches += 1
            breach = replace(breach, examples=(yield from _search(verbs, breach)))  # noqa: PLW2901 - the same, and more
        found.append(breach)
    return tuple(found)


def _search(verbs: Store, breach: Breach) -> Verbs[tuple[Example, ...]]:
    rule = breach.rule
    by_queue = rule.task is None and rule.queue is not None and rule.check is not Check.TASK_UNKNOWN
    which = JobFilter(
        states=_STATES[rule.check],
        queue=rule.queue,
        task=None if by_queue else breach.subject,
        limit=4 * EXAMPLES,
    )
    page: JobPage = yield verbs.search_jobs(which, SPAN)
    found = [job for job in page.jobs if job.error or job.reason == Reason.NO_WORKER]
    return tuple(Example("job", job.id, one_line(job.error or "", SHORT)) for job in found[:EXAMPLES])
