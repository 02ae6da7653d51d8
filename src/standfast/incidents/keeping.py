"""How many incidents are kept, for how long, and how much room their folders may take. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from standfast.settings import Settings

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept, and where the folders are; None means for ever, and the usual place."""

    most: int
    age: timedelta | None
    size: int
    folder: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return what the settings say."""
        age = settings.keep_incidents_for
        return cls(
            settings.keep_incidents,
            None if age is None else timedelta(seconds=age),
            settings.keep_incidents_mb * _MEGABYTE,
            settings.incidents_dir,
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """An incident that is kept: when it last happened, and how many bytes it takes where that matters."""

    id: str
    last_at: datetime
    size: int = 0


def outdated(kept: Iterable[Kept], keeping: Keeping, now: datetime) -> list[str]:
    """Return which are to be forgotten: those too many, too old, and, but for the newest, beyond the room."""
    newest_first = sorted(kept, key=lambda each: (each.last_at, each.id), reverse=True)
    found, room = [], keeping.size
    for rank, each in enumerate(newest_first):
        room -= each.size
        too_old = keeping.age is not None and now - each.last_at > keeping.age
        if rank >= keeping.most or too_old or (room < 0 and rank > 0):
            found.append(each.id)
    return found
