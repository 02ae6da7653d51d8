"""Where settings come from: a file, the code, the environment. What cannot be read is told, never passed over."""

import errno
import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec

from standfast.errors import ConfigurationError
from standfast.model.configuration import DEFAULTS, NONE_WORD, RULES, Settings, UnfitError
from standfast.model.suggestions import hint

__all__ = ["Loaded", "Settings", "load_settings", "read_settings"]

PREFIX = "STANDFAST_"
URL_VARIABLE = f"{PREFIX}URL"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
HOST_VARIABLE = f"{PREFIX}HOST"
"""Says `on` or `off` for a worker inside a web process."""

IN_CODE = "the code"
"""The origin of what is given to `Standfast(...)`."""

_PROJECT_FILE = "pyproject.toml"
_OWN_FILE = "standfast.toml"
_VARIABLES = (CONFIG_VARIABLE.removeprefix(PREFIX).lower(), *RULES, HOST_VARIABLE.removeprefix(PREFIX).lower())
_NOT_SETTINGS = {CONFIG_VARIABLE, HOST_VARIABLE, f"{PREFIX}PROVE"}
_TESTS = f"{PREFIX}TEST_"
_KUBERNETES = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""What Kubernetes puts into every container beside a service whose name begins with `standfast`."""


class GivenSetting(msgspec.Struct, frozen=True):
    """A value and where it is from. What is `written`, in a file or variable, may say 5m or none as text."""

    value: object
    origin: str
    written: bool = False


SECTIONS = ("alerts", "objectives")
"""Tables of the file that are no settings: they are read by those whom they concern."""


class Section(msgspec.Struct, frozen=True):
    """A table of a file, as it is written there, and which file that is."""

    content: Mapping[str, Any]
    origin: str


class FoundSettings(msgspec.Struct):
    """What the sources say, the stronger over the weaker, and what is wrong with them, in code or elsewhere."""

    values: dict[str, GivenSetting] = msgspec.field(default_factory=dict)
    sections: dict[str, Section] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    """Variables that mean nothing here: another program's perhaps, or of another release; they stop nobody."""
    in_code: bool = False

    def add(self, name: str, given: GivenSetting) -> None:
        """Let the value count over that of an earlier source; a name that is no setting is a problem."""
        origin = given.origin
        if name in RULES:
            self.values[name] = given
        elif maybe_url(name):
            self.blame(f"a URL stands where a setting is named (from {origin}): write url = ...", origin)
        elif isinstance(given.value, dict):
            meant = hint(name, SECTIONS, "[{}]".format)
            self.blame(f"unknown section [{name}] (from {origin}); {meant}", origin)
        else:
            self.blame(f"unknown setting {name} (from {origin}); {hint(name, RULES)}", origin)

    def blame(self, problem: str, *origins: str) -> None:
        """Take a problem with what these say."""
        self.problems.append(problem)
        self.in_code |= IN_CODE in origins


def maybe_url(text: str) -> bool:
    """Tell whether a text may be a URL, which may hold a password: it is not repeated."""
    return "://" in text


def read_file(environment: Mapping[str, str], found: FoundSettings) -> None:
    """Read the file that STANDFAST_CONFIG names, else the one of the working directory."""
    named = environment.get(CONFIG_VARIABLE)
    if named:
        _read_named(named, found)
        return
    sections = {
        file: section for file in (_OWN_FILE, _PROJECT_FILE) if (section := _section(file, found)) is not None
    }
    if len(sections) > 1:
        found.problems.append(
            f"{_OWN_FILE} and [tool.standfast] of {_PROJECT_FILE} are both here; keep the settings in one of them"
        )
    for file, section in sections.items():
        _add_all(section, file, found)


def read_environment(environment: Mapping[str, str], found: FoundSettings) -> None:
    """Read STANDFAST_<NAME> for every setting; an empty variable counts as none. An unknown one is told of."""
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or not environment[variable]:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in RULES and variable == _variable(name):
            found.add(name, GivenSetting(environment[variable], variable, written=True))
        elif name in SECTIONS:
            found.unknown.append(f"unknown variable {variable}; [{name}] is a table of the settings file")
        elif not _is_of_others(variable):
            found.unknown.append(f"unknown variable {variable}; {hint(name, _VARIABLES, _variable)}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _is_of_others(variable: str) -> bool:
    return variable in _NOT_SETTINGS or variable.startswith(_TESTS) or bool(_KUBERNETES.fullmatch(variable))


def _read_named(name: str, found: FoundSettings) -> None:
    if maybe_url(name):
        found.problems.append(
            f"{CONFIG_VARIABLE} must be the path of a file, not a URL; that is for {URL_VARIABLE}"
        )
        return
    problems = len(found.problems)
    section = _section(name, found)
    if section is not None:
        _add_all(section, name, found)
    elif len(found.problems) == problems:
        lack = "there is no such file" if not Path(name).is_file() else "it has no section [tool.standfast]"
        found.problems.append(f"{CONFIG_VARIABLE} names {name}, and {lack}")


def _add_all(section: Mapping[str, Any], file: str, found: FoundSettings) -> None:
    for name, value in section.items():
        if name not in SECTIONS:
            found.add(name, GivenSetting(value, file, written=True))
        elif isinstance(value, dict):
            found.sections[name] = Section(value, file)
        else:
            found.problems.append(f"{name} (from {file}): must be a table, [{name}]")


def _section(file: str, found: FoundSettings) -> Mapping[str, Any] | None:
    """Return what a file says about Standfast, None if there is no such file or nothing of that kind in it."""
    path = Path(file)
    ours = path.name != _PROJECT_FILE
    try:
        text = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        found.problems.append(f"{file} cannot be read: {error.strerror}")
        return None
    if not ours and b"standfast" not in text:
        return None  # the usual case, and not worth loading a parser for
    return _parse(file, text, found, ours=ours)


def _read(path: Path) -> bytes:
    """Return what a file holds. A pipe or device is none: it may keep its reader waiting for ever."""
    kind = path.stat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise OSError(errno.EINVAL, "it is a pipe, device or socket, not a file")
    return path.read_bytes()


def _parse(file: str, text: bytes, found: FoundSettings, *, ours: bool) -> Mapping[str, Any] | None:
    import tomllib  # noqa: PLC0415 - most apps have no file

    try:
        content = tomllib.loads(text.decode("utf-8-sig"))
    except ValueError as error:  # of TOML or of UTF-8
        found.problems.append(f"{file} is no valid TOML: {error}")
        return None
    except RecursionError:
        found.problems.append(f"{file} cannot be read: its values are nested too deeply")
        return None
    section = content if ours else _section_of_project(content)
    if section is None or isinstance(section, dict):
        return section
    found.problems.append(f"{file}: tool.standfast must be a section, [tool.standfast]")
    return None


def _section_of_project(content: Mapping[str, Any]) -> Any:
    tools = content.get("tool", {})
    return tools.get("standfast") if isinstance(tools, dict) else tools


# Weakest first: default, file, argument in code, environment, command line. Only the value that counts is checked.

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
        found = FoundSettings(
            {name: GivenSetting(getattr(self.settings, name), self.where[name]) for name in RULES}
        )
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
    found = FoundSettings()
    read_file(environment, found)
    for name, value in (given or {}).items():
        if not (value is msgspec.UNSET or (value is None and not _means_something(name))):
            found.add(name, GivenSetting(value, IN_CODE))
    read_environment(environment, found)
    _add_options(options or {}, found)
    return _settle(found, url_check)


def _means_something(name: str) -> bool:
    """Tell whether None is more than a setting left alone."""
    return name in RULES and RULES[name].optional and getattr(DEFAULTS, name) is not None


def _add_options(options: Mapping[str, object], found: FoundSettings) -> None:
    for name, value in options.items():
        if value is not None:
            found.add(name, GivenSetting(value, f"--{name}"))


def _settle(found: FoundSettings, url_check: UrlCheck | None) -> Loaded:
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


def _fit(name: str, given: GivenSetting) -> object:
    rule, value = RULES[name], given.value
    if given.written and isinstance(value, str):
        value = value.strip()
        value = None if rule.optional and value.lower() == NONE_WORD else rule.parse(value)
    return None if value is None and rule.optional else rule.check(value)


def _shown(name: str, given: GivenSetting) -> str:
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
