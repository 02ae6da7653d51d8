"""Which page of jobs a filter means: along which walk, and with what parameters."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from uuid import UUID

from standfast.core.states import State
from standfast.store.postgres.verbs import is_id
from standfast.store.protocol import JobFilter

LONGEST_PAGE = 500
"""More jobs than this do not come in one statement (`page` in views.sql)."""

_IDS = 1 << 128
_NEWEST = str(UUID(int=_IDS - 1))
_BEFORE_ALL = str(UUID(int=0))

_PLANES = 0x20000
"""Where letters with upper and lower case end in Unicode: behind it are ideographs and signs."""


def walk_of(which: JobFilter) -> str:
    """Return the statement that has the fewest jobs to pass over: a key's, a tag's, those in a state, or all."""
    if which.key is not None:
        return "keyed_jobs"
    if which.tags:
        return "tagged_jobs"
    return "jobs_in_states" if _states(which) else "jobs"


def parameters_of(which: JobFilter) -> tuple[object, ...] | None:
    """Return the parameters of such a statement after the time; None where no job can be on the page."""
    place = _place(which)
    if place is None or not which.possible_states or not all(map(_can_be_stored, _texts(which))):
        return None
    metadata = json.dumps(dict(which.metadata)) if which.metadata else None
    wanted = (_states(which), which.queue, which.task, *place, which.limit, which.key)
    return (*wanted, list(which.tags) or None, metadata, *_part_of_error(which.error), which.worker)


def end_parameters_of(which: JobFilter, walk: str, span: int) -> tuple[object, ...]:
    """Return the parameters of the statement that finds where a look at some jobs of a walk ends."""
    more: dict[str, tuple[object, ...]] = {
        "keyed_jobs": (which.key,),
        "tagged_jobs": which.tags[:1],
        "jobs_in_states": (_states(which),),
    }
    return (*(_place(which) or (_BEFORE_ALL, _NEWEST)), span, *more.get(walk, ()))


def _states(which: JobFilter) -> list[str] | None:
    """Return the states to look for, None for all."""
    states = which.possible_states
    return None if len(states) == len(State) else [state.value for state in states]


def _place(which: JobFilter) -> tuple[str, str] | None:
    """Return the newest id that may be shown, and the one that all are greater than; None where none can be."""
    newest = _NEWEST if which.before is None else _last_id_before(which.before)
    after = _BEFORE_ALL if which.after is None else _last_id_not_after(which.after)
    return None if newest is None else (newest, after)


def _texts(which: JobFilter) -> Iterator[str]:
    given = (which.queue, which.task, which.key, which.error, which.worker)
    return chain((text for text in given if text is not None), which.tags, *which.metadata.items())


def _can_be_stored(text: str) -> bool:
    """Tell whether the server can have this text: it has no NUL, and nothing that is not Unicode."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _last_id_before(text: str) -> str | None:
    """Return the greatest id that is less than a text, letter by letter; it need not be that of a job."""
    number = UUID(text).int if is_id(text) else _first_not_less(text)
    return str(UUID(int=number - 1)) if number else None


def _last_id_not_after(text: str) -> str:
    """Return the greatest id that is not greater than a text; it need not be that of a job."""
    return str(UUID(text)) if is_id(text) else _last_id_before(text) or _BEFORE_ALL


def _first_not_less(text: str) -> int:
    low, high = 0, _IDS
    while low < high:
        middle = (low + high) // 2
        if str(UUID(int=middle)) < text:
            low = middle + 1
        else:
            high = middle
    return low


def _part_of_error(text: str | None) -> tuple[str | None, str, str]:
    """Return a part of an error in small letters, the letters that become those of it, and what each becomes.

    The server's own idea of upper and lower depends on its locale, and may end with ASCII.
    """
    if not text:
        return None, "", ""
    part = "".join(map(_lower, text))
    pairs = [(other, letter) for letter in sorted(set(part)) for other in _other_cases().get(letter, "")]
    return part, "".join(other for other, _ in pairs), "".join(letter for _, letter in pairs)


@cache
def _other_cases() -> Mapping[str, str]:
    """Return for every letter those that become it."""
    others: defaultdict[str, str] = defaultdict(str)
    for letter in map(chr, range(_PLANES)):
        lower = _lower(letter)
        if lower != letter:
            others[lower] += letter
    return others


def _lower(letter: str) -> str:
    lower = letter.lower()
    return lower if len(lower) == 1 else letter
