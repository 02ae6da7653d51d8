"""The rules that count from the start. An app may replace each, or switch it off, by its name."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.alerts import AlertRule, Check, Objective, Severity
from standfast.model.configuration import LONGEST_SPAN
from standfast.model.phrases import Phrase, listed
from standfast.model.suggestions import closest_name, hint
from standfast.model.validation import is_finite, is_int
from standfast.observe.alerts.channel import Channel, DeadMan
from standfast.schedules.windows import Window

HOUR = 3600.0

SOON = 60.0  # the cool-down of what is critical, or may be: the next outage is not to wait for long
DEFAULT_RULES: tuple[AlertRule, ...] = (
    AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=30.0, cool_down=SOON),
    AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=300.0),
    AlertRule(name="task_unknown", check=Check.TASK_UNKNOWN, above=300.0),
    AlertRule(name="failure_rate", check=Check.FAILURE_RATE, above=0.5, over=300.0, at_least=10),
    AlertRule(name="dead_letters", check=Check.DEAD_LETTERS, above=0.0, over=300.0),
    AlertRule(name="dead_backlog", check=Check.DEAD_BACKLOG, repeat=24 * HOUR),
    AlertRule(name="schedule_missed", check=Check.SCHEDULE_MISSED, above=0.0, over=900.0),
    AlertRule(name="schedule_late", check=Check.SCHEDULE_LATE, above=60.0),
    AlertRule(name="job_too_long", check=Check.JOB_TOO_LONG),
    AlertRule(
        name="budget_burn_fast",
        check=Check.BUDGET_BURN,
        above=14.4,
        over=HOUR,
        severity=Severity.CRITICAL,
        cool_down=SOON,
    ),
    AlertRule(name="budget_burn_slow", check=Check.BUDGET_BURN, above=6.0, over=6 * HOUR),
    AlertRule(name="incident", check=Check.INCIDENT, above=0.0, over=600.0),
    AlertRule(name="store_slow", check=Check.STORE_SLOW, above=1.0, hold=30.0),
    AlertRule(
        name="keep_alive", check=Check.KEEP_ALIVE, above=0.0, over=600.0, severity=Severity.CRITICAL, cool_down=SOON
    ),
    AlertRule(
        name="not_durable", check=Check.NOT_DURABLE, severity=Severity.CRITICAL, cool_down=SOON, repeat=24 * HOUR
    ),
    AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, repeat=24 * HOUR),
)


def with_defaults(rules: tuple[AlertRule, ...]) -> tuple[AlertRule, ...]:
    """Return the default rules, with those that are declared in the place of the ones whose names they have."""
    declared = {rule.name: rule for rule in rules}
    kept = tuple(declared.pop(rule.name, rule) for rule in DEFAULT_RULES)
    return (*kept, *(rule for rule in rules if rule.name in declared))


LONGEST_LOOK = 6 * HOUR  # seconds: so far back figures are kept by the minute
NAME_LENGTH = 100

MOST_RULES = 500  # how many rules, or channels, an app can have told of


class Unit(StrEnum):
    """What `above` is."""

    SECONDS = "seconds"
    NUMBER = "a number"
    SHARE = "a share"
    FACTOR = "a factor"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a rule says for its check: `above` in this unit, needed or not; which filters fit; whether `over`."""

    unit: Unit
    needed: bool = True
    filters: tuple[str, ...] = ()
    over: bool = False
    at_least: bool = False


NEEDS: Mapping[Check, Needs] = MappingProxyType(
    {
        Check.WORKER_SILENT: Needs(Unit.SECONDS, filters=("queue",)),
        Check.QUEUE_AGE: Needs(Unit.SECONDS, filters=("queue",)),
        Check.TASK_UNKNOWN: Needs(Unit.SECONDS, filters=("queue", "task")),
        Check.START_LAG: Needs(Unit.SECONDS, filters=("queue", "task"), over=True, at_least=True),
        Check.FAILURE_RATE: Needs(Unit.SHARE, filters=("queue", "task"), over=True, at_least=True),
        Check.DEAD_LETTERS: Needs(Unit.NUMBER, filters=("queue", "task"), over=True),
        Check.DEAD_BACKLOG: Needs(Unit.NUMBER, needed=False),
        Check.SCHEDULE_MISSED: Needs(Unit.NUMBER, filters=("schedule",), over=True),
        Check.SCHEDULE_LATE: Needs(Unit.SECONDS, filters=("schedule",)),
        Check.JOB_TOO_LONG: Needs(Unit.SECONDS, needed=False, filters=("queue", "task")),
        Check.BUDGET_BURN: Needs(Unit.FACTOR, over=True),
        Check.INCIDENT: Needs(Unit.NUMBER, filters=("task",), over=True),
        Check.STORE_SLOW: Needs(Unit.SECONDS),
        Check.KEEP_ALIVE: Needs(Unit.NUMBER, over=True),
        Check.NOT_DURABLE: Needs(Unit.NOTHING, needed=False),
        Check.DISK_FULL: Needs(Unit.SHARE),
    }
)


def read_amount(check: Check, text: str) -> float:
    """Return what a text means as the `above` of a check not about seconds; 80% is a share. Raises ValueError."""
    unit, is_share = NEEDS[check].unit, text.endswith("%")
    if is_share and unit is not Unit.SHARE:
        raise ValueError(str(_unfit(check, text)))
    try:
        return float(text.removesuffix("%")) / (100 if is_share else 1)
    except ValueError:
        raise ValueError(str(_unfit(check, text))) from None


def _unfit(check: Check, above: object) -> Phrase:
    if NEEDS[check].unit is Unit.NOTHING:
        return Phrase("rule_problem.no_above", check=check.value)
    return Phrase("rule_problem.above", check=check.value, takes=_takes(check), given=f"{above!r:.80}")


def _takes(check: Check) -> Phrase:
    return Phrase(f"above_takes.{NEEDS[check].unit.name.lower()}")


def check_rules(rules: Iterable[AlertRule], channels: Collection[str]) -> None:
    """Refuse rules that cannot be, and channels that nobody declares."""
    for rule in rules:
        check_rule(rule)
        check_channels(rule, channels)


def check_channels(rule: AlertRule, channels: Collection[str]) -> None:
    """Refuse a rule that names a channel which is not declared."""
    for name in rule.channels or ():
        refuse_unknown_channel(f"rule {rule.name!r}", name, channels)


def refuse_unknown_channel(what: str, name: str, channels: Collection[str]) -> None:
    """Refuse a channel that is not declared; `what` tells it."""
    if name not in channels:
        known = hint(name, channels) if channels else "no channel is declared: see app.alerts"
        raise ConfigurationError(f"{what} tells channel {name!r}, which does not exist; {known}")


def check_rule(rule: AlertRule, written: Mapping[str, str] = MappingProxyType({})) -> None:
    """Refuse a rule that means nothing, shown as people have `written` it. Raises ConfigurationError."""
    if not isinstance(rule, AlertRule):
        raise ConfigurationError(f'a rule is an AlertRule(name="…", check="queue_age", above=300), not {rule!r}')
    if not (isinstance(rule.name, str) and 0 < len(rule.name) <= NAME_LENGTH and rule.name.isprintable()):
        raise ConfigurationError(f"a rule has a name of 1 to {NAME_LENGTH} letters, not {rule.name!r}")
    problem = _problem(rule, written)
    if problem:
        raise ConfigurationError(Phrase("refusal.rule_unfit", rule=rule.name, problem=problem))


def refuse_unused(rule: AlertRule) -> None:
    """Refuse what is said in vain: options that the check of a rule, which is fit otherwise, does not use."""
    needs = NEEDS[rule.check]
    used = {"above": needs.unit is not Unit.NOTHING, "over": needs.over, "at_least": needs.at_least}
    takes = listed([*(name for name, is_used in used.items() if is_used), *needs.filters, "hold"])
    for field in msgspec.structs.fields(rule):
        if not used.get(field.name, True) and getattr(rule, field.name) != field.default:
            raise ConfigurationError(
                f"rule {rule.name!r}: {rule.check} does not use {field.name}: leave it out; it takes {takes}"
            )


def _problem(rule: AlertRule, written: Mapping[str, str]) -> Phrase | str | None:
    if rule.check not in tuple(Check):
        return f"there is no check {str(rule.check)!r}; {hint(str(rule.check), [each.value for each in Check])}"
    if rule.severity not in tuple(Severity):
        return f"there is no severity {str(rule.severity)!r}; {hint(str(rule.severity), [*Severity])}"
    needs = NEEDS[Check(rule.check)]
    return (
        _above_problem(rule, needs, written)
        or _filter_problem(rule, needs)
        or _span_problem(rule, written)
        or _kind_problem(rule)
    )


def _above_problem(rule: AlertRule, needs: Needs, written: Mapping[str, str]) -> Phrase | None:
    above = rule.above
    if needs.unit is Unit.NOTHING:
        return None if above is None else _unfit(rule.check, above)
    if above is None:
        needed = Phrase("rule_problem.above_needed", check=rule.check.value, takes=_takes(rule.check))
        return needed if needs.needed else None
    fits = is_finite(above) and {
        Unit.SECONDS: 0 < above <= LONGEST_SPAN,
        Unit.NUMBER: above >= 0,
        Unit.SHARE: 0 <= above < 1,
        Unit.FACTOR: above > 0,
    }.get(needs.unit, False)
    return None if fits else _unfit(rule.check, written.get("above", above))


def _filter_problem(rule: AlertRule, needs: Needs) -> str | None:
    for name in ("queue", "task", "schedule"):
        given = getattr(rule, name)
        if given is not None and name not in needs.filters:
            fits = " or ".join(needs.filters) or "none of queue, task and schedule"
            return f"{rule.check} is not about a {name}; it takes {fits}"
        if given is not None and not (isinstance(given, str) and given):
            return f"{name} must be a name, not {given!r}"
    return None


def _span_problem(rule: AlertRule, written: Mapping[str, str]) -> Phrase | None:
    for name, least, most in (
        ("over", 60.0, LONGEST_LOOK),
        ("hold", 0.0, LONGEST_SPAN),
        ("cool_down", 0.0, LONGEST_SPAN),
        ("repeat", 60.0, LONGEST_SPAN),
    ):
        given = getattr(rule, name)
        if given is None and name == "repeat":
            continue
        if not (is_finite(given) and least <= given <= most):
            longest, said = timedelta(seconds=most), f"{written.get(name, given)!r:.80}"
            return Phrase("rule_problem.span", field=name, least=f"{least:g}", longest=longest, given=said)
    return None


def _kind_problem(rule: AlertRule) -> str | None:
    if not (is_int(rule.at_least) and rule.at_least >= 1):
        return f"at_least must be a whole number from 1 on, not {rule.at_least!r}"
    if not isinstance(rule.enabled, bool):
        return f"enabled must be True or False, not {rule.enabled!r}"
    if rule.channels is not None and not (
        isinstance(rule.channels, tuple) and all(isinstance(each, str) for each in rule.channels)
    ):
        return f'channels must be a tuple of names, as in channels=("ops",), not {rule.channels!r}'
    return None


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched, and who is told.

    app: its name, or where it is found; rules: all that count, defaults included; channels: who can be told;
    quiet_hours: when only what is critical is told, the rest when they are over; dead_man: who is pinged while all
    is well; objectives: what is promised; timeouts: how many seconds a run of each task of the app may take, None
    where nothing is said; keep_dead, keep_dead_for: what its settings say; dashboard_url: where people find the
    dashboard. `enabled`: whether anything is looked at at all; `off_in`: where it says that nothing is.
    """

    app: str = ""
    rules: tuple[AlertRule, ...] = ()
    channels: tuple[Channel, ...] = ()
    quiet_hours: tuple[Window, ...] = ()
    dead_man: DeadMan | None = None
    objectives: tuple[Objective, ...] = ()
    timeouts: Mapping[str, float | None] = {}
    keep_dead: int | None = None
    keep_dead_for: float | None = None
    dashboard_url: str | None = None
    enabled: bool = True
    off_in: tuple[str, ...] = ()


ALERTS_OFF = AlertSettings(enabled=False)


_NOT_THERE: Mapping[str, str] = {
    "task": "which the app does not have",
    "queue": "which no task of the app uses",
    "schedule": "which the app does not declare",
}


def unmatched_names(watching: AlertSettings, known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a line for each task, queue or schedule, by kind, that is not known and that something counts on.

    What is switched off counts on nothing. It may be right all the same: other apps may have what this one has not.
    """
    rules = [(f"rule {rule.name!r}", rule) for rule in watching.rules if watching.enabled and rule.enabled]
    promised = [(f"objective {each.name!r}", each) for each in watching.objectives]
    for what, declared in (*rules, *promised):
        for kind, names in known.items():
            name = getattr(declared, kind, None)
            if name is not None and name not in names:
                meant = closest_name(name, names)
                slip = "" if meant is None else f"; did you mean {meant}?"
                yield f"{what} is about {kind} {name!r}, {_NOT_THERE[kind]}{slip}"
