"""Puts the settings together from all their sources and checks them all at once.

Weakest first: default, file, argument in code, environment, command line. Only the value that counts is checked.
"""

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec

from standfast.errors import ConfigurationError
from standfast.settings.model import DEFAULTS, Settings
from standfast.settings.rules import NONE_WORD, RULES, UnfitError
from standfast.settings.sources import IN_CODE, Found, Given, Section, maybe_url, read_environment, read_file

log = logging.getLogger(__name__)

BY_DEFAULT = "default"
"""The origin of what nobody has set."""

UrlCheck = Callable[[str], object]
"""Raises ConfigurationError for a URL that means no store; which do is known in a layer above."""

_LONGEST_SHOWN = 80


class Loaded(msgspec.Struct, frozen=True):
    """Checked settings, for each of them where it came from, and the tables of the file that are none."""

    settings: Settings
    where: Mapping[str, str]
    sections: Mapping[str, Section] = {}

    def overridden(self, **options: object) -> "Loaded":
        """Return them with what the command line sets differently, checked again; None leaves a setting alone."""
        found = Found({name: Given(getattr(self.settings, name), self.where[name]) for name in RULES})
        _add_options(options, found)
        return _settle(found, None)


def load_settings(environment: Mapping[str, str] | None = None, /, **given: object) -> Settings:
    """Return checked settings: those of the file, the arguments over it, and the environment over both."""
    return read_settings(given, environment=environment).settings


def read_settings(
    given: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    url_check: UrlCheck | None = None,
) -> Loaded:
    """Return checked settings with their origins. Raises ConfigurationError that names all that is wrong.

    `given` are the arguments in code, `options` those of the command line. What is None or UNSET is not given; but
    None is a value of its own where the default is something else.
    """
    environment = os.environ if environment is None else environment
    found = Found()
    read_file(environment, found)
    for name, value in (given or {}).items():
        if not (value is msgspec.UNSET or (value is None and not _means_something(name))):
            found.add(name, Given(value, IN_CODE))
    read_environment(environment, found)
    _add_options(options or {}, found)
    return _settle(found, url_check)


def _means_something(name: str) -> bool:
    """Tell whether None is more than a setting left alone."""
    return name in RULES and RULES[name].optional and getattr(DEFAULTS, name) is not None


def _add_options(options: Mapping[str, object], found: Found) -> None:
    for name, value in options.items():
        if value is not None:
            found.add(name, Given(value, f"--{name}"))


def _settle(found: Found, url_check: UrlCheck | None) -> Loaded:
    values: dict[str, Any] = {}
    for name in RULES:  # in this order, whatever the sources say first
        given = found.values.get(name)
        if given is None:
            continue
        try:
            values[name] = _fit(name, given)
            if name == "url" and url_check is not None:
                url_check(values[name])
        except (UnfitError, ConfigurationError) as error:
            found.blame(f"{_shown(name, given)}: {error}", given.origin)
    settings = Settings(**values)
    where = {name: found.values[name].origin if name in found.values else BY_DEFAULT for name in RULES}
    beats_too_seldom = settings.beat is not None and settings.beat > settings.lease / 2
    if beats_too_seldom and ("lease" in values or "lease" not in found.values):
        found.blame(
            f"beat={settings.beat:g} (from {where['beat']}): must be at most half the lease, which is"
            f" {settings.lease:g} (from {where['lease']})",
            where["beat"],
            where["lease"],
        )
    if found.problems:
        _refuse([*found.unknown, *found.problems], in_code=found.in_code)
    for unknown in found.unknown:
        _warn_once(unknown)
    return Loaded(settings, MappingProxyType(where), MappingProxyType(found.sections))


def _fit(name: str, given: Given) -> object:
    rule, value = RULES[name], given.value
    if given.written and isinstance(value, str):
        value = value.strip()
        value = None if rule.optional and value.lower() == NONE_WORD else rule.parse(value)
    return None if value is None and rule.optional else rule.check(value)


def _shown(name: str, given: Given) -> str:
    """Return a setting with its value and origin. What may be a URL may hold a password: it is not repeated."""
    text = given.value if isinstance(given.value, str) and given.value.isprintable() else repr(given.value)
    if name == "url" or maybe_url(text):
        return f"{name} (from {given.origin})"
    short = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return f"{name}={short} (from {given.origin})"


@cache
def _warn_once(words: str) -> None:
    log.warning("%s; it is ignored", words)


def _refuse(problems: list[str], *, in_code: bool) -> NoReturn:
    listed = "; ".join(f"({number}) {problem}" for number, problem in enumerate(problems, 1))
    several = f"the settings have {len(problems)} problems: {listed}"
    error = ConfigurationError(problems[0] if len(problems) == 1 else several)
    error.in_code = in_code
    raise error
