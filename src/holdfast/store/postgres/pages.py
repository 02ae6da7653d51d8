"""Which page of jobs a filter means: along which walk, and with what parameters."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from uuid import UUID

from holdfast.core.states import State
from holdfast.store.postgres.verbs import is_id
from holdfast.store.protocol import JobFilter

LONGEST_PAGE = 500
"""More jobs than this do not come in one statement (`page` in views.sql)."""

_IDS = 1 << 128
_NEWEST = str(UUID(int=_IDS - 1))

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
    newest = _NEWEST if which.before is None else _last_id_before(which.before)
    if newest is None or not all(map(_can_be_stored, _texts(which))):
        return None
    metadata = json.dumps(dict(which.metadata)) if which.metadata else None
    place = (_states(which), which.queue, which.task, newest, which.limit, which.key)
    return (*place, list(which.tags) or None, metadata, *_part_of_error(which.error))


def _states(which: JobFilter) -> list[str] | None:
    """Return the states to look for. Errors are where states are: who asks for one is given every state."""
    states = which.states or (tuple(State) if which.error else ())
    return [state.value for state in states] or None


def _texts(which: JobFilter) -> Iterator[str]:
    given = (which.queue, which.task, which.key, which.error)
    return chain((text for text in given if text is not None), which.tags, *which.metadata.items())


def _can_be_stored(text: str) -> bool:
    """Tell whether the server can have this text: it has no NUL, and nothing that is not Unicode."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _last_id_before(text: str) -> str | None:
    """Return the greatest id that is less than a text, letter by letter; it need not be that of a job."""
    number = UUID(text).int if is_id(text) else _first_not_less(text)
    return str(UUID(int=number - 1)) if number else None


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
