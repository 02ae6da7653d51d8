"""What an app declares about alerts and objectives, in its code and in its settings file.

    [alerts.channels.ops]
    kind = "webhook"
    url = "https://ops.example/standfast"
    secret = "${OPS_SECRET}"

    [[alerts.rules]]
    name = "disk_full"
    enabled = false

The shape of channels is checked when the file is read; variables are looked up by those who need the channels, as a
process that sends nothing need not know the secrets. A rule that has the name of another takes its place; of a rule
that there is already, only what changes need be said.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from standfast.errors import ConfigurationError
from standfast.model.alerts import AlertRule, Check, Objective
from standfast.model.configuration import NONE_WORD, SpanRule, UnfitError
from standfast.model.phrases import listed
from standfast.model.suggestions import closest_name, hint, refuse_unknown
from standfast.model.validation import http_url, refuse_any
from standfast.observe.alerts.alert_rules import (
    MOST_RULES,
    NEEDS,
    AlertSettings,
    Unit,
    check_rule,
    check_rules,
    read_amount,
    refuse_unknown_channel,
    refuse_unused,
    with_defaults,
)
from standfast.observe.alerts.channel import AppriseChannel, Channel, CommandChannel, DeadMan, WebhookChannel
from standfast.observe.objectives import check_objective, read_objectives
from standfast.schedules.windows import Window
from standfast.settings import Section

KINDS: Mapping[str, type[Channel]] = {
    "apprise": AppriseChannel,
    "webhook": WebhookChannel,
    "command": CommandChannel,
}

_CHANNELS, _DEAD_MAN, _DASHBOARD = "channels", "dead_man", "dashboard_url"
_TABLES = ("rules", "quiet_hours", "enabled", _CHANNELS, _DEAD_MAN, _DASHBOARD)
_EXPANDED = ("url", "secret", "headers")
_CHANNEL_SPANS = ("every", "timeout")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_RULE_SPANS = ("over", "hold", "cool_down", "repeat")
_OPTIONS = AlertRule.__struct_fields__
_SLIP = 0.8
"""From which likeness on, of 1, a rule without a check is a slip of another: people name their own as they like."""

NO_CHANNEL = (
    "no channel is declared: give app.alerts(channels=[...]) some and name MODULE:APP here, or write"
    " [alerts.channels.NAME] into standfast.toml"
)

Needing = tuple[str, str, Mapping[str, Any]]
"""What needs variables, in words; what to do without it; and what the file says of it."""

S = TypeVar("S", bound=msgspec.Struct)
D = TypeVar("D", AlertRule, Channel, Window)


class FileAlerts:
    """What [alerts] of a file says. Raises ConfigurationError where that cannot be."""

    def __init__(self, section: Section | None) -> None:
        section = section or Section({}, "")
        self._origin = section.origin
        content = section.content
        self._channels = content.get(_CHANNELS, {})
        if not isinstance(self._channels, Mapping):
            raise ConfigurationError(
                f"alerts.{_CHANNELS} (from {self._origin}): must be a table, [alerts.{_CHANNELS}.NAME]"
            )
        self._dead_man = content.get(_DEAD_MAN)
        self.dashboard_url: str | None = content.get(_DASHBOARD)
        self._refuse(self._problems())
        if self.dashboard_url is not None:
            http_url(self.dashboard_url, f"dashboard_url (from {self._origin})", "people sign in there")
        for name in content:
            if name not in _TABLES:
                raise self._error(f"[alerts] has no option {name!r:.80}; {hint(name, _TABLES)}")
        enabled = content.get("enabled", True)
        if not isinstance(enabled, bool):
            raise self._error(f"enabled of [alerts] must be true or false, not {enabled!r:.80}")
        self.off_in: tuple[str, ...] = () if enabled else (f"enabled = false of [alerts] in {self._origin}",)
        self.quiet_hours = self._windows(content.get("quiet_hours", []))
        self._written = self._tables(content.get("rules", []), "[[alerts.rules]]")
        self._rules = [self._said(each) for each in self._written]
        names = [said["name"] for said in self._rules]
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"two rules are named {name!r}; give one of them another name")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        return tuple(self._channels)

    def refuse_unset(self) -> None:
        """Raise ConfigurationError that names all variables that are not set, and what needs them."""
        said = _needing(self._channels)
        if self._dead_man is not None:
            said.append(("the dead man's switch", "leave [alerts.dead_man] out", self._dead_man))
        self._refuse(_unset_problems(said))

    def channels(self, names: Collection[str]) -> tuple[Channel, ...]:
        """Return those of these channels that the file has, with what the environment says."""
        wanted = {name: said for name, said in self._channels.items() if name in names}
        self._refuse(_unset_problems(_needing(wanted)))
        return tuple(
            self._made(KINDS[said["kind"]], f"channel {name!r}", _without_kind(said) | {"name": name})
            for name, said in wanted.items()
        )

    def dead_man(self) -> DeadMan | None:
        """Return the dead man's switch, with what the environment says."""
        if self._dead_man is None:
            return None
        return self._made(DeadMan, "the dead man's switch", self._dead_man)

    def _problems(self) -> Iterator[str]:
        for name, said in self._channels.items():
            yield from _channel_problems(name, said)
        if self._dead_man is not None:
            yield from _table_problems("the dead man's switch", self._dead_man, DeadMan)
        if self.dashboard_url is not None and not isinstance(self.dashboard_url, str):
            yield f"{_DASHBOARD} must be a text"

    def _made(self, kind: type[S], what: str, said: Mapping[str, Any]) -> S:
        try:
            return msgspec.convert(_meant(said), kind)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{what} (from {self._origin}): {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{error} (from {self._origin})") from None

    def _refuse(self, problems: Iterator[str]) -> None:
        refuse_any(f"{problem} (from {self._origin})" for problem in problems)

    def over(self, rules: Iterable[AlertRule]) -> tuple[AlertRule, ...]:
        """Return rules with those of the file: added, or as the file changes those of the same names."""
        made = {rule.name: rule for rule in rules}
        for table, said in zip(self._written, self._rules, strict=True):
            made[said["name"]] = self._rule(table, said, made)
        return tuple(made.values())

    def _rule(self, table: Mapping[str, Any], said: Mapping[str, Any], known: Mapping[str, AlertRule]) -> AlertRule:
        before = known.get(said["name"])
        if before is None and "check" not in said:
            meant = closest_name(said["name"], known, _SLIP)
            slip = "" if meant is None else f"no other rule has this name (did you mean {meant}?), and "
            missing = f"{slip}check is missing; it is one of: {', '.join(Check)}"
            raise self._error(f"rule {said['name']!r}: {missing}")
        other_check = before is not None and said.get("check", before.check) != before.check
        base = {} if before is None or other_check else asdict(before)
        try:
            rule = AlertRule(**{**base, **said, "above": self._above(said, base)})
            check_rule(rule, {option: value for option, value in table.items() if isinstance(value, str)})
            refuse_unused(rule)
        except ConfigurationError as error:
            raise self._error(str(error)) from None
        return rule

    def _above(self, said: Mapping[str, Any], base: Mapping[str, Any]) -> Any:
        """Return the `above` of a rule: a text is a span, or a share such as 50%, as its check has it."""
        above, check = said.get("above", base.get("above")), said.get("check", base.get("check"))
        if not isinstance(above, str) or check not in tuple(Check):
            return above
        if NEEDS[Check(check)].unit is Unit.SECONDS:
            return self._seconds(said["name"], "above", above.strip())
        try:
            return read_amount(Check(check), above.strip())
        except ValueError as error:
            raise ConfigurationError(f"rule {said['name']!r}: {error}") from None

    def _said(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a table says, with spans as seconds."""
        name = table.get("name")
        if not (isinstance(name, str) and name):
            raise self._error('a rule of [[alerts.rules]] has no name: write name = "…"')
        for option in table:
            if option not in _OPTIONS:
                raise self._error(f"rule {name!r:.80} has no option {option!r:.80}; {hint(option, _OPTIONS)}")
        said = dict(table)
        for option in _RULE_SPANS:
            if isinstance(said.get(option), str):
                try:
                    said[option] = self._seconds(name, option, said[option].strip())
                except ConfigurationError as error:
                    raise self._error(str(error)) from None
        if isinstance(said.get("channels"), str):
            said["channels"] = (said["channels"],)
        return said

    @staticmethod
    def _seconds(name: str, option: str, text: str) -> object:
        if option == "repeat" and text.lower() == NONE_WORD:
            return None
        try:
            return SpanRule(from_zero=True).parse(text)
        except UnfitError as error:
            raise ConfigurationError(f"rule {name!r:.80}: {option} {error}, not {text!r:.80}") from None

    def _windows(self, said: object) -> tuple[Window, ...]:
        windows = []
        for table in self._tables(said, "quiet_hours"):
            try:
                refuse_unknown("it", table, Window.__struct_fields__)
                windows.append(msgspec.convert(dict(table), Window))
            except (msgspec.ValidationError, ConfigurationError) as error:
                raise self._error(f"quiet_hours: {error}") from None
        return tuple(windows)

    def _tables(self, said: object, what: str) -> Sequence[Mapping[str, Any]]:
        tables = [said] if isinstance(said, Mapping) else said
        if not (isinstance(tables, list) and all(isinstance(each, Mapping) for each in tables)):
            raise self._error(f"{what} must be tables")
        return tables

    def _error(self, words: str) -> ConfigurationError:
        return ConfigurationError(f"{words} (from {self._origin})")


def _channel_problems(name: str, said: object) -> Iterator[str]:
    what = f"channel {name!r:.80}"
    if not isinstance(said, Mapping):
        yield f"{what}: must be a table, [alerts.channels.{name:.80}]"
    elif "kind" not in said:
        yield f"{what}: kind is missing; it is one of: {', '.join(KINDS)}"
    elif said["kind"] not in tuple(KINDS):
        yield f"{what}: no channel is of kind {said['kind']!r:.80}; {hint(str(said['kind']), KINDS)}"
    else:
        yield from _table_problems(what, _without_kind(said), KINDS[said["kind"]])


def _table_problems(what: str, said: object, kind: type[msgspec.Struct]) -> Iterator[str]:
    if not isinstance(said, Mapping):
        yield f"{what}: must be a table"
        return
    fields = [field for field in msgspec.structs.fields(kind) if field.name != "name"]
    names = [field.name for field in fields]
    for key in said:
        if key not in names:
            yield f"{what}: unknown option {key:.80}; {hint(key, names)}"
    for field in fields:
        if field.required and field.name not in said:
            yield f"{what}: {field.name} is missing"
    for key, value in said.items():
        problem = _value_problem(key, value) if key in names else None
        if problem:
            yield f"{what}: {key} {problem}"


def _value_problem(key: str, value: object) -> str | None:
    """Return what is wrong with the kind of a value, which is not repeated: it may be a secret."""
    match key:
        case "every" | "timeout":
            return _span_problem(value)
        case "command":
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            return None if fits else 'must be a list of texts, such as ["/usr/local/bin/tell", "ops"]'
        case "headers":
            fits = isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
            if not fits:
                return 'must be a table of texts, such as { Authorization = "Bearer ${OPS_TOKEN}" }'
        case _:
            if not isinstance(value, str):
                return f'must be a text: write {key} = "…"'
    if key in _EXPANDED and any("${" in _VARIABLE.sub("", text) for text in _texts(value)):
        return "has ${ in it that begins no variable: write ${NAME}, of letters, digits and _"
    return None


def _span_problem(value: object) -> str | None:
    rule = SpanRule()
    try:
        rule.check(rule.parse(value.strip()) if isinstance(value, str) else value)
    except UnfitError:
        return "must be a span above 0: write seconds, or text such as 30s or 5m"
    return None


def _needing(channels: Mapping[str, Any]) -> list[Needing]:
    return [(f"channel {name!r}", "leave the channel out", said) for name, said in channels.items()]


def _unset_problems(needing: Iterable[Needing]) -> Iterator[str]:
    for what, otherwise, said in needing:
        texts = [text for key in _EXPANDED for text in _texts(said.get(key))]
        names = dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text))
        unset = [name for name in names if not os.environ.get(name)]
        if unset:
            are, it = ("variable {} is", "it") if len(unset) == 1 else ("variables {} are", "them")
            yield f"{what}: the {are.format(listed(unset))} not set; set {it}, or {otherwise}"


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of an option, also inside a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (each for each in value.values() if isinstance(each, str))


def _without_kind(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key != "kind"}


def _meant(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table means: variables in their places, spans as seconds."""
    meant = dict(said)
    for key in _EXPANDED:
        if key in meant:
            meant[key] = _expanded(meant[key])
    for key in _CHANNEL_SPANS:
        if isinstance(meant.get(key), str):
            meant[key] = SpanRule().parse(meant[key].strip())
    return meant


def _expanded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _expanded(each) for key, each in value.items()}
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value)


class AlertDeclarations:
    """What is declared so far."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        try:
            self._in_file = FileAlerts(sections.get("alerts"))
            self._objectives = {each.name: each for each in read_objectives(sections.get("objectives"))}
        except ConfigurationError as error:
            error.in_code = False
            raise
        self._alerts: AlertSettings | None = None
        self._needed: dict[str, str] = {}

    def alerts(
        self,
        rules: Sequence[AlertRule],
        channels: Sequence[Channel],
        quiet_hours: Sequence[Window],
        dead_man: DeadMan | None,
        *,
        dashboard_url: str | None,
        enabled: bool,
    ) -> None:
        """Take what code says of alerts, once."""
        if self._alerts is not None:
            raise ConfigurationError("app.alerts is called twice; call it once, with all that it is to say")
        rules = _several("rules", rules, AlertRule, 'AlertRule(name="…", check="queue_age", above=300)')
        channels = _several("channels", channels, Channel, 'CommandChannel(name="ops", command=("tell", "ops"))')
        quiet_hours = _several("quiet_hours", quiet_hours, Window, 'Window("22:00", "07:00", tz="Asia/Taipei")')
        refuse_any(_problems(dead_man, dashboard_url, enabled))
        _refuse_twice(channels)
        for rule in rules:
            check_rule(rule)
            refuse_unused(rule)
        _refuse_twice(rules, "rules")
        if dashboard_url is not None:
            http_url(dashboard_url, "dashboard_url", "people sign in there")
        self._alerts = AlertSettings(
            rules=rules,
            channels=channels,
            quiet_hours=quiet_hours,
            dead_man=dead_man,
            dashboard_url=dashboard_url,
            enabled=enabled,
        )
        self._refuse_unknown_channels()

    def need_channel(self, channel: str, what: str) -> None:
        """Take that `what` goes through a channel. Refused at once if that cannot be declared any more."""
        self._needed[what] = channel
        if self._alerts is not None:
            self._refuse_unknown_channels()

    def objective(self, objective: Objective) -> None:
        """Take an objective that code declares."""
        if objective.name in self._objectives:
            raise ConfigurationError(
                f"two objectives are named {objective.name!r}, in code or in the settings file; rename one of them"
            )
        self._objectives[objective.name] = check_objective(objective)

    @property
    def all(self) -> AlertSettings:
        """All of it. Raises ConfigurationError where the file names a variable that is not set."""
        said = self._alerts or AlertSettings()
        self._refuse_unknown_channels()
        self._in_file.refuse_unset()
        channels = (*said.channels, *self._in_file.channels(self._in_file.names))
        _refuse_twice(channels)
        rules = self._in_file.over(with_defaults(said.rules))
        check_rules(rules, [channel.name for channel in channels])
        if len(rules) > MOST_RULES:
            raise ConfigurationError(
                f"there are {len(rules):,} rules of alerts, and {MOST_RULES} are the most: a rule without queue and"
                " task is about all of them, and has a subject for each"
            )
        off_in = (*(() if said.enabled else ("app.alerts(enabled=False) in the code",)), *self._in_file.off_in)
        return AlertSettings(
            rules=rules,
            channels=channels,
            quiet_hours=(*said.quiet_hours, *self._in_file.quiet_hours),
            dead_man=said.dead_man or self._in_file.dead_man(),
            objectives=tuple(self._objectives.values()),
            dashboard_url=said.dashboard_url or self._in_file.dashboard_url,
            enabled=not off_in,
            off_in=off_in,
        )

    def through(self, names: Collection[str]) -> AlertSettings:
        """Return what it takes to send through these channels alone. Raises ConfigurationError if one is unknown."""
        said, known = self._alerts or AlertSettings(), self._channel_names
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"there is no channel {name!r}; {hint(name, known) if known else NO_CHANNEL}"
                )
        channels = (*said.channels, *self._in_file.channels(names))
        _refuse_twice(channels)
        by_name = {channel.name: channel for channel in channels}
        return AlertSettings(
            channels=tuple(by_name[name] for name in dict.fromkeys(names)),
            dashboard_url=said.dashboard_url or self._in_file.dashboard_url,
        )

    @property
    def _channel_names(self) -> list[str]:
        said = () if self._alerts is None else self._alerts.channels
        return [*(channel.name for channel in said), *self._in_file.names]

    def _refuse_unknown_channels(self) -> None:
        """Refuse what goes through a channel that neither the code nor the file declares."""
        for what, channel in self._needed.items():
            refuse_unknown_channel(what, channel, self._channel_names)


def _several(option: str, said: Any, kind: type[D] | UnionType, example: str) -> tuple[D, ...]:
    """Return what an option holds. What does not fit is named by its kind alone: it may be a URL with a secret."""
    if isinstance(said, kind | str) or not isinstance(said, Iterable):
        raise ConfigurationError(f"{option} of app.alerts must be a list, {option}=[{example}], not {_a(said)}")
    several = tuple(said)
    for each in several:
        if not isinstance(each, kind):
            raise ConfigurationError(f"{option} of app.alerts must hold such as {example}, not {_a(each)}")
    return several


def _problems(dead_man: Any, dashboard_url: Any, enabled: Any) -> Iterator[str]:
    if not (dead_man is None or isinstance(dead_man, DeadMan)):
        yield f'dead_man of app.alerts must be a DeadMan(url="https://…"), not {_a(dead_man)}'
    if not (dashboard_url is None or isinstance(dashboard_url, str)):
        yield f"dashboard_url of app.alerts must be a text, not {_a(dashboard_url)}"
    if not isinstance(enabled, bool):
        yield f"enabled of app.alerts must be True or False, not {_a(enabled)}"


def _a(value: object) -> str:
    return f"something of kind {type(value).__name__}"


def _refuse_twice(declared: Iterable[Channel | AlertRule], what: str = "channels") -> None:
    names = set()
    for each in declared:
        if each.name in names:
            raise ConfigurationError(f"two {what} are named {each.name!r}; give one of them another name")
        names.add(each.name)
