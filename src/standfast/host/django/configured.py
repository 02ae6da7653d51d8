"""What the settings of a Django project say: the dict STANDFAST, and the app that it names."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from msgspec.structs import replace

from standfast.app import Standfast
from standfast.child.loading import load_app
from standfast.errors import ConfigurationError
from standfast.host.django.connections import with_connections
from standfast.spelling import hint

TARGET = "standfast.host.django.target:app"
"""The MODULE:APP of every Django project: it sets Django up before it imports the app that the settings name."""

KEYS = ("APP", "EMBEDDED", "OPTIONS")
_EXAMPLE = 'STANDFAST = {"APP": "shop.jobs:app"}'


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the settings, and what would help."""

    id: str
    says: str
    hint: str


@dataclass(frozen=True, slots=True)
class Configured:
    """What STANDFAST says, complete and checked."""

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)


def configured() -> Configured:
    """Return what the settings say. Raises ConfigurationError that names all that is wrong with them."""
    said: Any = getattr(settings, "STANDFAST", None)
    found = [f"{problem.says}; {problem.hint}" for problem in problems_of(said)]
    if found:
        raise ConfigurationError("; ".join(found))
    return Configured(said["APP"], said.get("OPTIONS", {}))


def problems_of(said: Any) -> Iterator[Problem]:
    """Yield what is wrong with the dict STANDFAST itself; whether the app can be imported is another question."""
    if not isinstance(said, Mapping):
        what = "STANDFAST is not set" if said is None else f"STANDFAST must be a dict, not {said!r:.80}"
        yield Problem("E001", what, f"write e.g. {_EXAMPLE} into the settings")
        return
    for key in said:
        if key not in KEYS:
            remedy = hint(str(key), [known.lower() for known in KEYS], lambda known: repr(known.upper()))
            yield Problem("E002", f"STANDFAST has no key {key!r}", remedy)
    target = said.get("APP")
    if not (isinstance(target, str) and all(target.partition(":"))):
        yield Problem("E003", f"STANDFAST['APP'] must be 'MODULE:APP', not {target!r}", f"write e.g. {_EXAMPLE}")
    if not isinstance(said.get("EMBEDDED", False), bool):
        yield Problem(
            "E005", f"STANDFAST['EMBEDDED'] must be True or False, not {said['EMBEDDED']!r:.80}", _EMBEDDED
        )
    yield from _problems_of_options(said.get("OPTIONS", {}))


_EMBEDDED = "True lets the processes that serve requests run jobs too"


def _problems_of_options(said: Any) -> Iterator[Problem]:
    if not isinstance(said, Mapping):
        remedy = 'write e.g. "OPTIONS": {"concurrency": 4}'
        yield Problem("E006", f"STANDFAST['OPTIONS'] must be a dict, not {said!r:.80}", remedy)
        return
    if said:
        known = _options_of_a_host()
        for name in said:
            if name not in known:
                yield Problem("E006", f"STANDFAST['OPTIONS'] has no option {name!r}", hint(str(name), known, repr))


def _options_of_a_host() -> list[str]:
    """Return what may be said of the embedded worker."""
    from standfast.host.host import Host  # noqa: PLC0415 - only who says something of it loads it

    return [name for name in inspect.signature(Host).parameters if name not in {"app", "target"}]


def app_of(target: str) -> Standfast:
    """Import the app that MODULE:APP names and make it one of Django's. Raises ConfigurationError."""
    app = load_app(target, sys.path[0], unfound="no folder of sys.path holds it; name it as an import does")
    if app.settings.name is None:  # not that of the TARGET which all projects have: their schedules are not one's
        app.settings = replace(app.settings, name=target)
    if with_connections not in app.lifespans:
        app.lifespan(with_connections)
    return app
