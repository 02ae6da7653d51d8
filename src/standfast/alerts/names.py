"""Names in rules and objectives that nobody has: slips, as a rule, by which nobody is ever told. Pure."""

from collections.abc import Collection, Iterator, Mapping

from standfast.alerts.watching import Watching
from standfast.spelling import nearest

_NOT_THERE: Mapping[str, str] = {
    "task": "which the app does not have",
    "queue": "which no task of the app uses",
    "schedule": "which the app does not declare",
}


def strange_names(watching: Watching, known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a line for each task, queue or schedule, by kind, that is not known and that something counts on.

    What is switched off counts on nothing. It may be right all the same: other apps may have what this one has not.
    """
    rules = [(f"rule {rule.name!r}", rule) for rule in watching.rules if watching.enabled and rule.enabled]
    promised = [(f"objective {each.name!r}", each) for each in watching.objectives]
    for what, declared in (*rules, *promised):
        for kind, names in known.items():
            name = getattr(declared, kind, None)
            if name is not None and name not in names:
                meant = nearest(name, names)
                slip = "" if meant is None else f"; did you mean {meant}?"
                yield f"{what} is about {kind} {name!r}, {_NOT_THERE[kind]}{slip}"
