"""The board as it is read: what nobody could go by is left out, whoever wrote it.

Of a board that is damaged, of a later release, or written by somebody who means harm, the rest counts. Nothing on
it stops a round or keeps one busy for long: rules are such as can be declared, times such as can be reckoned with,
and there is only so much of everything. What was left out is gone when the board is next written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from standfast.alerts.checking import MOST_RULES, check_rule
from standfast.alerts.standing import AMENDED, EMPTY, Board, Missed, Published, Said
from standfast.core.alert import Alert, AlertRule, Notice, Silence
from standfast.core.record import Kind, Record, read_body
from standfast.errors import ConfigurationError
from standfast.settings.model import LONGEST_SPAN
from standfast.store.errand import Verbs
from standfast.store.protocol import Store

NAME = "board"
"""The name of the one record."""

LARGEST = 16_000_000
"""Bytes of a board that are read at all: some ten times what all rules of several apps can come to."""

MOST: Mapping[str, int] = {
    "alerts": 10_000,
    "said": 20_000,
    "silences": 1_000,
    "overrides": 1_000,
    "amended": 1_000,
    "added": MOST_RULES,
    "outbox": 1_000,
    "apps": 200,
    "missed": 500,
}
"""How many there may be of each, the first ones."""

_MOST_STRANGE = 1_000
"""So much of another release may stay; more costs every reader too much."""

_LONGEST_TEXT = 10_000
_LONGEST_ID = 100
_MOST_EXAMPLES = 100
_MOST_QUEUES = 10_000
_YEARS = range(1970, 9000)
"""To times of these, spans of rules can be added."""

T = TypeVar("T")


class Seen(msgspec.Struct, frozen=True):
    """A board as it was read: with the version and token of its record, 0 and None where there is none yet.

    `strange`: how much could not be read; `unfit`: how much could, and is nothing to go by, and must not stay.
    """

    board: Board = EMPTY
    version: int = 0
    token: str | None = None
    strange: int = 0
    unfit: int = 0


def see(verbs: Store) -> Verbs[Seen]:
    """Return the board as it is."""
    records: Sequence[Record] = yield verbs.records(Kind.BOARD, (NAME,))
    return seen_in(records)


def seen_in(records: Iterable[Record]) -> Seen:
    """Return the board that is among records."""
    record = next((each for each in records if each.name == NAME), None)
    if record is None:
        return Seen()
    if len(record.body) > LARGEST:
        return Seen(EMPTY, record.version, record.token, unfit=1)
    whole, strange = read_body(record, Board), 0
    if whole is None:
        whole, strange = _readable_part(record)
    parts = {name: _fit_part(name, getattr(whole, name)) for name in MOST}
    unfit = sum(left_out for _, left_out in parts.values())
    board = replace(whole, **{name: part for name, (part, _) in parts.items()}) if unfit else whole
    return Seen(board, record.version, record.token, strange, unfit + (strange > _MOST_STRANGE))


# -- what can be read ------------------------------------------------------------------------------------------

_LISTED: Mapping[str, type] = {
    "alerts": Alert,
    "said": Said,
    "silences": Silence,
    "outbox": Notice,
    "missed": Missed,
}
_NAMED: Mapping[str, Any] = {
    "overrides": AlertRule,
    "amended": tuple[str, ...],
    "added": AlertRule,
    "apps": Published,
}


def _readable_part(record: Record) -> tuple[Board, int]:
    """Return what can be read of a board that cannot be read as a whole, and how much cannot."""
    parts: Mapping[str, msgspec.Raw] | None = read_body(record, dict[str, msgspec.Raw])
    if parts is None:
        return EMPTY, 1
    kept: dict[str, Any] = {}
    strange = 0
    for name, kind in _LISTED.items():
        listed = _decoded(parts.get(name, _NO_LIST), list[msgspec.Raw])
        some = [_decoded(raw, kind) for raw in (listed or ())[: MOST[name]]]
        kept[name] = tuple(each for each in some if each is not None)
        strange += 1 if listed is None else len(listed) - len(kept[name])
    for name, kind in _NAMED.items():
        named = _decoded(parts.get(name, _NOTHING), dict[str, msgspec.Raw])
        pairs = _first(named or {}, MOST[name])
        kept[name] = {key: each for key, raw in pairs if (each := _decoded(raw, kind)) is not None}
        strange += 1 if named is None else len(named) - len(kept[name])
    return Board(**kept), strange


_NO_LIST, _NOTHING = msgspec.Raw(b"[]"), msgspec.Raw(b"{}")


def _decoded(raw: msgspec.Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


# -- what one can go by ----------------------------------------------------------------------------------------


def _fit_part(name: str, part: Any) -> tuple[Any, int]:
    """Return what of a part of the board one can go by, and how much one cannot."""
    most = MOST[name]
    if name in {"overrides", "added"}:
        kept: Any = {key: rule for key, rule in _first(part, most) if key == rule.name and _is_rule(rule)}
    elif name == "amended":
        kept = {key: fields for key, fields in _first(part, most) if _is_some(fields, AMENDED)}
    elif name == "apps":
        whole = {key: _fit_app(said) for key, said in _first(part, most) if _is_time(said.at)}
        return whole, len(part) - len(whole) + sum(part[key] != said for key, said in whole.items())
    else:
        kept = tuple(each for each in part[:most] if _FITS[name](each))
    if name == "outbox":  # two of one name cannot be filed at once
        kept = tuple({notice.id: notice for notice in kept}.values())
    return kept, len(part) - len(kept)


def _first(part: Mapping[str, T], most: int) -> list[tuple[str, T]]:
    return list(part.items())[:most]


def _is_rule(rule: AlertRule) -> bool:
    try:
        check_rule(rule)
    except ConfigurationError:
        return False
    return True


def _is_some(names: Sequence[str], known: Sequence[str]) -> bool:
    return len(names) <= len(known) and set(names).issubset(known)


def _fit_app(said: Published) -> Published:
    rules = tuple(rule for rule in said.rules[:MOST_RULES] if _is_rule(rule))
    return replace(said, rules=rules, channels=said.channels[:MOST_RULES])


def _is_time(*times: datetime | None) -> bool:
    return all(at is None or at.year in _YEARS for at in times)


def _is_alert(alert: Alert) -> bool:
    texts = (alert.id, alert.rule, alert.subject, alert.says, alert.acknowledged_by or "")
    times = (alert.since, alert.fired_at, alert.told_at, alert.resolved_at, alert.acknowledged_at, alert.held_until)
    return _is_short(*texts) and _is_time(*times) and len(alert.examples) <= _MOST_EXAMPLES


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


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "alerts": _is_alert,
    "said": lambda said: _is_time(said.fired_at, said.resolved_at) and _is_short(said.rule, said.subject),
    "silences": lambda silence: _is_time(silence.until),
    "outbox": _is_notice,
    "missed": _is_missed,
}
