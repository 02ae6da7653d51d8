"""The numbers of the game."""

from collections.abc import Mapping
from types import MappingProxyType

from game.counted.kinds import KINDS, Kind

REAL_DURATION = 600.0
"""Seconds over which jobs are due in the game as it was published; scores of shorter ones do not compare."""

PREPARE = 10.0
"""Seconds before its time that a job is there, at least."""

MAX_DELAY = 30.0
"""Seconds after its time by which a job must have run."""

WORK = 0.083
"""Seconds that the work of a job takes."""

BEST_EFFICIENT = 83.0
"""Milliseconds: the work itself, with nothing lost. No strategy can be better."""

BEST_PERIOD = 10.1
"""Seconds between two lists of the whole fleet, if none is to be late: so far ahead are live jobs created."""

LIST_PRICE = 100
LOST_PRICE = 10
READ_PRICE = 1
MEMBERSHIP_PRICE = 1

VERBS: Mapping[str, Kind] = MappingProxyType(
    {
        **KINDS,
        "list": Kind.LIST,
        "look": Kind.READ,
        "lock": Kind.WRITE,
        "complete": Kind.WRITE,
        "create": Kind.CREATE,
    }
)
"""What each call is: the verbs of a passive store, and those of the table of the reference strategies."""
