"""What all verbs of this store share: the named statements, and whose time it is."""

import re
from collections.abc import Mapping

from standfast.clock import Clock
from standfast.store.times import to_micros

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class PostgresVerbs:
    """Base of the groups of verbs. Time is the server's own, unless a clock is given, as in tests."""

    def __init__(self, statements: Mapping[str, str], clock: Clock | None) -> None:
        self._sql = statements
        self._clock = clock

    def _given_now(self) -> int | None:
        """Return what statements pass to `standfast.present()`: NULL for the server's time."""
        return None if self._clock is None else to_micros(self._clock.now())


def is_id(text: str) -> bool:
    """Tell whether a text can be the id of a job; the server would refuse any other as a uuid."""
    return _ID.fullmatch(text) is not None
