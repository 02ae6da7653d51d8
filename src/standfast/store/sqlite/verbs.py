"""What all verbs of this store share: the named statements, the clock, and the JSON form of lists."""

import json
from collections.abc import Iterable, Mapping

from standfast.clock import Clock
from standfast.store.sqlite.lease import this_boot
from standfast.store.times import seconds_to_micros, to_micros


class SqliteVerbs:
    """Base of the groups of verbs. A verb reads the clock when it runs, that is, under its transaction's lock."""

    def __init__(self, statements: Mapping[str, str], clock: Clock) -> None:
        self._sql = statements
        self._clock = clock
        self._boot_id = this_boot()

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _boot(self) -> int:
        return seconds_to_micros(self._clock.boot())


def to_json(values: Iterable[str] | None) -> str | None:
    """Return strings as the JSON array that a statement unfolds with json_each; None means all."""
    return None if values is None else json.dumps(list(values))
