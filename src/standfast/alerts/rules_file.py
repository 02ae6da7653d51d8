"""Rules as a settings file declares them, and quiet hours. One that has the name of another takes its place.

    [alerts]
    quiet_hours = [{ start = "22:00", end = "07:00", tz = "Asia/Taipei" }]

    [[alerts.rules]]
    name = "mail waits"
    check = "queue_age"
    queue = "mail"
    above = "2m"

Of a rule that there is already, only what changes need be said: `name = "disk_full"` and `enabled = false`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from standfast.alerts.channels.from_file import TABLES
from standfast.alerts.checking import NEEDS, Unit, check_rule, read_amount, refuse_unused
from standfast.core.alert import AlertRule, Check
from standfast.errors import ConfigurationError
from standfast.schedule.window import Window
from standfast.settings.rules import NONE_WORD, SpanRule, UnfitError
from standfast.settings.sources import Section
from standfast.spelling import hint, nearest, refuse_unknown

_OWN = ("rules", "quiet_hours", "enabled")
_SPANS = ("over", "hold", "cool_down", "repeat")
_OPTIONS = AlertRule.__struct_fields__
_SLIP = 0.8
"""From which likeness on, of 1, a rule without a check is a slip of another: people name their own as they like."""
_NOTHING = Section({}, "")


class FileRules:
    """What [alerts] of a file says about rules. Raises ConfigurationError where that cannot be."""

    def __init__(self, section: Section | None) -> None:
        section = section or _NOTHING
        self._origin = section.origin
        content = section.content
        for name in content:
            if name not in (*_OWN, *TABLES):
                raise self._error(f"[alerts] has no option {name!r:.80}; {hint(name, (*_OWN, *TABLES))}")
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

    def over(self, rules: Iterable[AlertRule]) -> tuple[AlertRule, ...]:
        """Return rules with those of the file: added, or as the file changes those of the same names."""
        made = {rule.name: rule for rule in rules}
        for table, said in zip(self._written, self._rules, strict=True):
            made[said["name"]] = self._rule(table, said, made)
        return tuple(made.values())

    def _rule(self, table: Mapping[str, Any], said: Mapping[str, Any], known: Mapping[str, AlertRule]) -> AlertRule:
        before = known.get(said["name"])
        if before is None and "check" not in said:
            raise self._error(f"rule {said['name']!r}: {self._what_is_it(said['name'], known)}")
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

    @staticmethod
    def _what_is_it(name: str, known: Collection[str]) -> str:
        """Return what to do about a rule that says no check: it may be a slip of one that there is."""
        meant = nearest(name, known, _SLIP)
        slip = "" if meant is None else f"no other rule has this name (did you mean {meant}?), and "
        return f"{slip}check is missing; it is one of: {', '.join(Check)}"

    def _said(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a table says, with spans as seconds."""
        name = table.get("name")
        if not (isinstance(name, str) and name):
            raise self._error('a rule of [[alerts.rules]] has no name: write name = "…"')
        for option in table:
            if option not in _OPTIONS:
                raise self._error(f"rule {name!r:.80} has no option {option!r:.80}; {hint(option, _OPTIONS)}")
        said = dict(table)
        for option in _SPANS:
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
