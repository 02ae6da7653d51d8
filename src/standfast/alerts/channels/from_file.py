"""Channels and the dead man's switch as a settings file declares them: secrets come from the environment.

    [alerts.channels.ops]
    kind = "webhook"
    url = "https://ops.example/standfast"
    secret = "${OPS_SECRET}"

Their shape is checked when the file is read; variables are looked up by those who need the channels, as a process
that sends nothing need not know the secrets.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from standfast.alerts.channel import AppriseChannel, Channel, CommandChannel, DeadMan, WebhookChannel
from standfast.errors import ConfigurationError
from standfast.phrases import listed
from standfast.policy.problems import refuse_any
from standfast.settings.rules import SpanRule, UnfitError
from standfast.settings.sources import Section
from standfast.spelling import hint
from standfast.weburl import http_url

KINDS: Mapping[str, type[Channel]] = {
    "apprise": AppriseChannel,
    "webhook": WebhookChannel,
    "command": CommandChannel,
}

_CHANNELS, _DEAD_MAN, _DASHBOARD = "channels", "dead_man", "dashboard_url"
TABLES = (_CHANNELS, _DEAD_MAN, _DASHBOARD)
"""What of [alerts] is read here."""

_EXPANDED = ("url", "secret", "headers")
_SPANS = ("every", "timeout")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_NOTHING = Section({}, "")

Needing = tuple[str, str, Mapping[str, Any]]
"""What needs variables, in words; what to do without it; and what the file says of it."""

S = TypeVar("S", bound=msgspec.Struct)


class FileChannels:
    """What [alerts] of a file says about who is told. Raises ConfigurationError where that cannot be."""

    def __init__(self, section: Section | None) -> None:
        section = section or _NOTHING
        self._origin = section.origin
        self._channels = self._table(section.content, _CHANNELS)
        self._dead_man = section.content.get(_DEAD_MAN)
        self.dashboard_url: str | None = section.content.get(_DASHBOARD)
        self._refuse(self._problems())
        if self.dashboard_url is not None:
            http_url(self.dashboard_url, f"dashboard_url (from {self._origin})", "people sign in there")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        return tuple(self._channels)

    def refuse_unset(self, environment: Mapping[str, str]) -> None:
        """Raise ConfigurationError that names all variables that are not set, and what needs them."""
        said = _needing(self._channels)
        if self._dead_man is not None:
            said.append(("the dead man's switch", "leave [alerts.dead_man] out", self._dead_man))
        self._refuse(_unset_problems(said, environment))

    def channels(self, environment: Mapping[str, str], names: Collection[str]) -> tuple[Channel, ...]:
        """Return those of these channels that the file has, with what the environment says."""
        wanted = {name: said for name, said in self._channels.items() if name in names}
        self._refuse(_unset_problems(_needing(wanted), environment))
        return tuple(
            self._made(KINDS[said["kind"]], f"channel {name!r}", _without_kind(said) | {"name": name}, environment)
            for name, said in wanted.items()
        )

    def dead_man(self, environment: Mapping[str, str]) -> DeadMan | None:
        """Return the dead man's switch, with what the environment says."""
        if self._dead_man is None:
            return None
        return self._made(DeadMan, "the dead man's switch", self._dead_man, environment)

    def _table(self, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        table = content.get(name, {})
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"alerts.{name} (from {self._origin}): must be a table, [alerts.{name}.NAME]")
        return table

    def _problems(self) -> Iterator[str]:
        for name, said in self._channels.items():
            yield from _channel_problems(name, said)
        if self._dead_man is not None:
            yield from _table_problems("the dead man's switch", self._dead_man, DeadMan)
        if self.dashboard_url is not None and not isinstance(self.dashboard_url, str):
            yield f"{_DASHBOARD} must be a text"

    def _made(self, kind: type[S], what: str, said: Mapping[str, Any], environment: Mapping[str, str]) -> S:
        try:
            return msgspec.convert(_meant(said, environment), kind)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{what} (from {self._origin}): {error}") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{error} (from {self._origin})") from None

    def _refuse(self, problems: Iterator[str]) -> None:
        refuse_any(f"{problem} (from {self._origin})" for problem in problems)


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


def _unset_problems(needing: Iterable[Needing], environment: Mapping[str, str]) -> Iterator[str]:
    for what, otherwise, said in needing:
        texts = [text for key in _EXPANDED for text in _texts(said.get(key))]
        names = dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text))
        unset = [name for name in names if not environment.get(name)]
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


def _meant(said: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a table means: variables in their places, spans as seconds."""
    meant = dict(said)
    for key in _EXPANDED:
        if key in meant:
            meant[key] = _expanded(meant[key], environment)
    for key in _SPANS:
        if isinstance(meant.get(key), str):
            meant[key] = SpanRule().parse(meant[key].strip())
    return meant


def _expanded(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _expanded(each, environment) for key, each in value.items()}
    return _VARIABLE.sub(lambda found: environment.get(found[1], ""), value)
