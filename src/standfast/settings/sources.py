"""Where settings come from: a file, the code, the environment. What cannot be read is told, never passed over."""

import errno
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from standfast.settings.rules import RULES
from standfast.spelling import hint

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


class Given(msgspec.Struct, frozen=True):
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


class Found(msgspec.Struct):
    """What the sources say, the stronger over the weaker, and what is wrong with them, in code or elsewhere."""

    values: dict[str, Given] = msgspec.field(default_factory=dict)
    sections: dict[str, Section] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    """Variables that mean nothing here: another program's perhaps, or of another release; they stop nobody."""
    in_code: bool = False

    def add(self, name: str, given: Given) -> None:
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


def read_file(environment: Mapping[str, str], found: Found) -> None:
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


def read_environment(environment: Mapping[str, str], found: Found) -> None:
    """Read STANDFAST_<NAME> for every setting; an empty variable counts as none. An unknown one is told of."""
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or not environment[variable]:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in RULES and variable == _variable(name):
            found.add(name, Given(environment[variable], variable, written=True))
        elif name in SECTIONS:
            found.unknown.append(f"unknown variable {variable}; [{name}] is a table of the settings file")
        elif not _is_of_others(variable):
            found.unknown.append(f"unknown variable {variable}; {hint(name, _VARIABLES, _variable)}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _is_of_others(variable: str) -> bool:
    return variable in _NOT_SETTINGS or variable.startswith(_TESTS) or bool(_KUBERNETES.fullmatch(variable))


def _read_named(name: str, found: Found) -> None:
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


def _add_all(section: Mapping[str, Any], file: str, found: Found) -> None:
    for name, value in section.items():
        if name not in SECTIONS:
            found.add(name, Given(value, file, written=True))
        elif isinstance(value, dict):
            found.sections[name] = Section(value, file)
        else:
            found.problems.append(f"{name} (from {file}): must be a table, [{name}]")


def _section(file: str, found: Found) -> Mapping[str, Any] | None:
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


def _parse(file: str, text: bytes, found: Found, *, ours: bool) -> Mapping[str, Any] | None:
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
