"""What is on the board: how the alerts of a fleet stand, and what people have said about them. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

import msgspec

from standfast.core.alert import Alert, AlertRule, AlertState, Aware, Notice, Silence
from standfast.store.protocol import WorkerInfo

SAID_AGAIN = timedelta(hours=1)
"""After which time it is said again what an app declares."""

LATELY = SAID_AGAIN + timedelta(minutes=10)
"""What was not said for so long nobody goes by: rounds come within a minute of each other where all is well."""


AMENDED = ("above", "over", "at_least", "hold", "severity", "channels", "cool_down", "repeat", "enabled")
"""What people may change of a rule while the fleet runs."""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What people were last told of a subject of a rule: whether it is firing, and when they were told what."""

    rule: str
    subject: str
    firing: bool = False
    fired_at: Aware | None = None
    resolved_at: Aware | None = None


class Missed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker that was given up because it beat no more: its row is gone, and maybe nobody does its work.

    `beat_at` is when it was last heard of; `watched`: whether who noted it was there then, so that who comes later
    may tell of it, too; `told` are the rules that have fired because of it.
    """

    info: WorkerInfo
    beat_at: Aware
    watched: bool = False
    told: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an app declares, for those who have the store alone: its rules, and the names of its channels.

    `at` is when that was last said; what is not said again for long is forgotten.
    """

    rules: tuple[AlertRule, ...]
    channels: tuple[str, ...]
    at: Aware


class Board(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How things stand.

    alerts: pending and firing ones, and resolved ones of which people have yet to hear; said: what they were told;
    silences, also those that are over since the last round; overrides: rules that were changed at run time, by
    name; amended: what of them people have changed; added: rules that were added at run time, by name; outbox: what
    was told and is not filed yet; apps: what apps declare, by their names; missed: workers that were given up.
    """

    alerts: tuple[Alert, ...] = ()
    said: tuple[Said, ...] = ()
    silences: tuple[Silence, ...] = ()
    overrides: Mapping[str, AlertRule] = {}
    amended: Mapping[str, tuple[str, ...]] = {}
    added: Mapping[str, AlertRule] = {}
    outbox: tuple[Notice, ...] = ()
    apps: Mapping[str, Published] = {}
    missed: tuple[Missed, ...] = ()

    def in_state(self, *states: AlertState) -> tuple[Alert, ...]:
        """Return the alerts in these states, those that are broken for longest first."""
        return tuple(sorted((each for each in self.alerts if each.state in states), key=lambda each: each.since))

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The alerts that fire, the oldest first."""
        return self.in_state(AlertState.FIRING)

    @property
    def pending(self) -> tuple[Alert, ...]:
        """The alerts that are about to fire, the oldest first."""
        return self.in_state(AlertState.PENDING)

    @property
    def declared(self) -> tuple[AlertRule, ...]:
        """The rules that apps have declared, by name; of several with one name that of the last who said so."""
        latest = sorted(self.apps.values(), key=lambda each: each.at)
        named = {rule.name: rule for each in latest for rule in each.rules}
        return tuple(named[name] for name in sorted(named))

    @property
    def additions(self) -> Mapping[str, AlertRule]:
        """The rules that were added at run time and count, by name: those that no app declares."""
        declared = {rule.name for each in self.apps.values() for rule in each.rules}
        return {name: rule for name, rule in self.added.items() if name not in declared}

    @property
    def changed(self) -> AbstractSet[str]:
        """The names of declared rules of which people have changed something."""
        return self.overrides.keys() - self.additions.keys()

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels that apps have declared."""
        return tuple(sorted({name for each in self.apps.values() for name in each.channels}))

    def is_said(self, now: datetime) -> bool:
        """Tell whether some app has said lately what it declares: else nobody goes by any rule."""
        return any(abs(now - each.at) < LATELY for each in self.apps.values())


EMPTY = Board()
