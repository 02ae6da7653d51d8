"""What an app declares about alerts and objectives, in its code and in its settings file, put together."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import Any, TypeVar

from standfast.alerts.channel import Channel, DeadMan
from standfast.alerts.channels.from_file import FileChannels
from standfast.alerts.checking import MOST_RULES, check_rule, check_rules, refuse_unknown_channel, refuse_unused
from standfast.alerts.defaults import with_defaults
from standfast.alerts.rules_file import FileRules
from standfast.alerts.watching import Watching
from standfast.core.alert import AlertRule
from standfast.core.objective import Objective
from standfast.errors import ConfigurationError
from standfast.objectives.checking import check_objective
from standfast.objectives.from_file import read_objectives
from standfast.policy.problems import refuse_any
from standfast.schedule.window import Window
from standfast.settings.sources import Section
from standfast.spelling import hint
from standfast.weburl import http_url

NO_CHANNEL = (
    "no channel is declared: give app.alerts(channels=[...]) some and name MODULE:APP here, or write"
    " [alerts.channels.NAME] into standfast.toml"
)

D = TypeVar("D", AlertRule, Channel, Window)


class DeclaredWatching:
    """What is declared so far."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        with _said_in_a_file():
            self._in_file = FileChannels(sections.get("alerts"))
            self._file_rules = FileRules(sections.get("alerts"))
            self._objectives = {each.name: each for each in read_objectives(sections.get("objectives"))}
        self._alerts: Watching | None = None
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
        self._alerts = Watching(
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
    def all(self) -> Watching:
        """All of it. Raises ConfigurationError where the file names a variable that is not set."""
        said = self._alerts or Watching()
        self._refuse_unknown_channels()
        self._in_file.refuse_unset(os.environ)
        channels = (*said.channels, *self._in_file.channels(os.environ, self._in_file.names))
        _refuse_twice(channels)
        rules = self._file_rules.over(with_defaults(said.rules))
        check_rules(rules, [channel.name for channel in channels])
        if len(rules) > MOST_RULES:
            raise ConfigurationError(
                f"there are {len(rules):,} rules of alerts, and {MOST_RULES} are the most: a rule without queue and"
                " task is about all of them, and has a subject for each"
            )
        off_in = (*(() if said.enabled else ("app.alerts(enabled=False) in the code",)), *self._file_rules.off_in)
        return Watching(
            rules=rules,
            channels=channels,
            quiet_hours=(*said.quiet_hours, *self._file_rules.quiet_hours),
            dead_man=said.dead_man or self._in_file.dead_man(os.environ),
            objectives=tuple(self._objectives.values()),
            dashboard_url=said.dashboard_url or self._in_file.dashboard_url,
            enabled=not off_in,
            off_in=off_in,
        )

    def through(self, names: Collection[str]) -> Watching:
        """Return what it takes to send through some channels, in this order: the others need no variables.

        Raises ConfigurationError where one is not declared.
        """
        said, known = self._alerts or Watching(), self._channel_names
        for name in names:
            if name not in known:
                raise ConfigurationError(
                    f"there is no channel {name!r}; {hint(name, known) if known else NO_CHANNEL}"
                )
        channels = (*said.channels, *self._in_file.channels(os.environ, names))
        _refuse_twice(channels)
        by_name = {channel.name: channel for channel in channels}
        return Watching(
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


@contextmanager
def _said_in_a_file() -> Iterator[None]:
    """Mark what is refused inside as nothing that code says."""
    try:
        yield
    except ConfigurationError as error:
        error.in_code = False
        raise


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
