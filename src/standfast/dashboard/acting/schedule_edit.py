"""What a person says about when a schedule fires and what it enqueues, and what that makes of it."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from standfast.dashboard.refusals import WrongRequestError
from standfast.dashboard.shapes.schedules import ScheduleEditAsked
from standfast.errors import ConfigurationError
from standfast.phrases import Phrase, listed
from standfast.schedule.plan import Template
from standfast.schedule.rules import AnyRule, Cron, Every, Rule
from standfast.watch.envelope import changed_payload

_SHARED = tuple(field.name for field in msgspec.structs.fields(Rule))
"""What every rule has besides its times."""

_ROUTING = ("queue", "priority", "max_attempts")


def new_rule(asked: ScheduleEditAsked) -> Callable[[AnyRule], AnyRule] | None:
    """Return what makes the new rule of the old one; None where it stays. Raises WrongRequestError."""
    said = [name for name in ("cron", "every", "rule") if getattr(asked, name)]
    if len(said) > 1:
        raise WrongRequestError(Phrase("refusal.one_rule", fields=listed(said)))
    if asked.rule:
        whole = _whole_rule(asked.rule)
        return lambda _: whole
    if not (asked.cron or asked.every or asked.tz):
        return None
    return lambda rule: _changed(rule, asked)


def _changed(rule: AnyRule, asked: ScheduleEditAsked) -> AnyRule:
    options = {name: getattr(rule, name) for name in _SHARED}
    zones = rule.zones()
    tz = asked.tz or (next(iter(zones)) if len(zones) == 1 else "UTC")
    if asked.every and isinstance(rule, Every):
        return replace(rule, interval=asked.every)
    if asked.cron:
        return Cron(asked.cron, tz=tz, **options)
    if asked.every:
        return Every(asked.every, **options)
    if isinstance(rule, Cron):
        return replace(rule, tz=tz)
    raise WrongRequestError(Phrase("refusal.only_cron"))


def _whole_rule(rule: dict[str, Any]) -> AnyRule:
    try:
        read: AnyRule = msgspec.convert(rule, AnyRule)
    except (msgspec.ValidationError, ConfigurationError, ValueError, TypeError, OverflowError) as error:
        raise WrongRequestError(f"rule: {error}") from error
    return read


def new_job(asked: ScheduleEditAsked, secrets: frozenset[str]) -> Callable[[Template], Template] | None:
    """Return what makes the new job of the old one; None where it stays. `secrets` are names of its arguments."""
    routing = {name: value for name in _ROUTING if (value := getattr(asked, name)) not in {None, ""}}
    args = asked.args
    if not routing and args is None:
        return None
    encoded = (
        None if args is None else {name: msgspec.Raw(msgspec.json.encode(each)) for name, each in args.items()}
    )

    def changed(template: Template) -> Template:
        new = replace(template, **routing)
        if encoded is None:
            return new
        return replace(new, payload=changed_payload(template.payload, encoded, whole=True, secrets=secrets))

    return changed
