"""Events told as records of the standard library's logging: for processes whose log is not ours to set up."""

import logging
from collections.abc import Collection

from msgspec.structs import replace

from standfast import events
from standfast.clock import Clock
from standfast.watch.levels import Level
from standfast.watch.narrator import Narrator
from standfast.watch.summary import FirstCompletion
from standfast.watch.telling import sentence

log = logging.getLogger("standfast.events")


class RecordLines:
    """Writes a record of each event; there is no line to be written besides."""

    def of_event(self, event: events.Event, level: Level) -> str:
        """Write the record."""
        hint = ""
        if isinstance(event, FirstCompletion) and event.hint:  # there is no command line here to say -v on
            event, hint = replace(event, hint=False), " (the next ones are counted; the level DEBUG shows each)"
        log.log(level, "%s%s", sentence(event), hint)
        return ""


def tell_in_records(told: events.Events, clock: Clock, but: Collection[type[events.Event]] = ()) -> Narrator:
    """Tell events from now on, as far as the logger lets them through now, but for some kinds.

    Let it `tick` now and again.
    """
    level = max((each for each in Level if each <= log.getEffectiveLevel()), default=Level.DEBUG)
    narrator = Narrator(level, RecordLines(), lambda _: None, clock)
    told.subscribe(narrator, lambda kind: kind not in but and narrator.wants(kind))
    return narrator
