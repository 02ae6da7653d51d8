"""What is on the board: how the alerts of a fleet stand, and what people have said about them. Pure.

Of a board that is damaged, of a later release, or written by somebody who means harm, the rest counts. Nothing on it
stops a round or keeps one busy for long: rules are such as can be declared, times such as can be reckoned with, and
there is only so much of everything. What was left out is gone when the board is next written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from standfast.errors import ConfigurationError
from standfast.model.alerts import Alert, AlertRule, AlertState, Aware, Notice, Silence
from standfast.model.configuration import LONGEST_SPAN
from standfast.model.records import Kind, Record, read_body
from standfast.observe.alerts.alert_rules import MOST_RULES, check_rule
from standfast.stores.contract import Store
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Verbs

SAID_AGAIN = timedelta(hours=1)  # after which time it is said again what an app declares
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
    """What an app declares, and when it last said so; what is not said again for long is forgotten."""

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


NAME = "board"  # the name of the one record

LARGEST = 16_000_000
"""Bytes of a board that are read at all: some ten times what all rules of several apps can come to."""

_MOST_STRANGE = 1_000  # so much of another release may stay; more costs every reader too much
_LONGEST_TEXT = 10_000
_LONGEST_ID = 100
_MOST_EXAMPLES = 100
_MOST_QUEUES = 10_000
_YEARS = range(1970, 9000)  # to times of these, spans of rules can be added

T = TypeVar("T")


class LoadedBoard(msgspec.Struct, frozen=True):
    """A board, its version and token. `strange`: how much could not be read; `unfit`: how much must not stay."""

    board: Board = EMPTY
    version: int = 0
    token: str | None = None
    strange: int = 0
    unfit: int = 0


def load_board(verbs: Store) -> Verbs[LoadedBoard]:
    """Return the board as it is."""
    records: Sequence[Record] = yield verbs.records(Kind.BOARD, (NAME,))
    return board_in(records)


def board_in(records: Iterable[Record]) -> LoadedBoard:
    """Return the board that is among records."""
    record = next((each for each in records if each.name == NAME), None)
    if record is None:
        return LoadedBoard()
    if len(record.body) > LARGEST:
        return LoadedBoard(EMPTY, record.version, record.token, unfit=1)
    whole, strange = read_body(record, Board), 0
    if whole is None:
        whole, strange = _readable_part(record)
    parts = {name: _fit_part(name, getattr(whole, name)) for name in _PARTS}
    unfit = sum(left_out for _, left_out in parts.values())
    board = replace(whole, **{name: part for name, (part, _) in parts.items()}) if unfit else whole
    return LoadedBoard(board, record.version, record.token, strange, unfit + (strange > _MOST_STRANGE))


def _readable_part(record: Record) -> tuple[Board, int]:
    """Return what can be read of a board that cannot be read as a whole, and how much cannot."""
    parts: Mapping[str, msgspec.Raw] | None = read_body(record, dict[str, msgspec.Raw])
    if parts is None:
        return EMPTY, 1
    kept: dict[str, Any] = {}
    strange = 0
    for name, (most, kind, _) in _PARTS.items():
        is_named = name in _NAMED
        raw = parts.get(name, msgspec.Raw(b"{}" if is_named else b"[]"))
        some: Any = _decoded(raw, dict[str, msgspec.Raw] if is_named else list[msgspec.Raw])
        pairs = list(some.items() if is_named else enumerate(some))[:most] if some is not None else []
        found = {key: each for key, raw in pairs if (each := _decoded(raw, kind)) is not None}
        kept[name] = found if is_named else tuple(found.values())
        strange += 1 if some is None else len(some) - len(found)
    return Board(**kept), strange


def _decoded(raw: msgspec.Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _fit_part(name: str, part: Any) -> tuple[Any, int]:
    """Return what of a part of the board one can go by, and how much one cannot."""
    most, _, fits = _PARTS[name]
    if name not in _NAMED:
        kept: Any = tuple(each for each in part[:most] if fits("", each))
        if name == "outbox":  # two of one name cannot be filed at once
            kept = tuple({notice.id: notice for notice in kept}.values())
        return kept, len(part) - len(kept)
    kept = {key: each for key, each in list(part.items())[:most] if fits(key, each)}
    if name == "apps":
        kept = {key: _fit_app(said) for key, said in kept.items()}
    return kept, len(part) - sum(part[key] == each for key, each in kept.items())


def _is_rule(rule: AlertRule) -> bool:
    try:
        check_rule(rule)
    except ConfigurationError:
        return False
    return True


def _fit_app(said: Published) -> Published:
    rules = tuple(rule for rule in said.rules[:MOST_RULES] if _is_rule(rule))
    return replace(said, rules=rules, channels=said.channels[:MOST_RULES])


def _is_time(*times: datetime | None) -> bool:
    return all(at is None or at.year in _YEARS for at in times)


def _is_alert(alert: Alert) -> bool:
    texts = (alert.id, alert.rule, alert.subject, alert.says, alert.acknowledged_by or "")
    times = (alert.since, alert.fired_at, alert.told_at, alert.resolved_at, alert.acknowledged_at, alert.held_until)
    return _is_short(*texts) and _is_time(*times) and len(alert.examples) <= _MOST_EXAMPLES


def _is_said(said: Said) -> bool:
    return _is_time(said.fired_at, said.resolved_at) and _is_short(said.rule, said.subject)


def _is_notice(notice: Notice) -> bool:
    """Tell whether a notice can be filed: its id is the name of a record."""
    named = 0 < len(notice.id) <= _LONGEST_ID and notice.id.isprintable()
    few = len(notice.alerts) <= _MOST_EXAMPLES
    return named and few and _is_time(notice.at) and all(map(_is_alert, notice.alerts))


def _is_missed(missed: Missed) -> bool:
    info = missed.info
    spans = 0 < info.lease.total_seconds() <= LONGEST_SPAN
    return spans and _is_time(missed.beat_at) and len(info.queues or ()) <= _MOST_QUEUES and _is_short(info.id)


def _is_short(*texts: str) -> bool:
    return all(len(text) <= _LONGEST_TEXT for text in texts)


_NAMED = frozenset({"overrides", "amended", "added", "apps"})  # the parts that are mappings

_PARTS: Mapping[str, tuple[int, Any, Callable[[str, Any], bool]]] = {
    "alerts": (10_000, Alert, lambda _, alert: _is_alert(alert)),
    "said": (20_000, Said, lambda _, said: _is_said(said)),
    "silences": (1_000, Silence, lambda _, silence: _is_time(silence.until)),
    "overrides": (1_000, AlertRule, lambda name, rule: name == rule.name and _is_rule(rule)),
    "amended": (1_000, tuple[str, ...], lambda _, fields: len(fields) <= len(AMENDED) and {*fields} <= {*AMENDED}),
    "added": (MOST_RULES, AlertRule, lambda name, rule: name == rule.name and _is_rule(rule)),
    "outbox": (1_000, Notice, lambda _, notice: _is_notice(notice)),
    "apps": (200, Published, lambda _, said: _is_time(said.at)),
    "missed": (500, Missed, lambda _, missed: _is_missed(missed)),
}
"""Of each part of a board: how many there may be, the first ones; what each is, and whether one can go by it."""

MOST = {name: most for name, (most, *_) in _PARTS.items()}
