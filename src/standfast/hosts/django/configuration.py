"""The setting STANDFAST of a Django project, its checks, and database connections around jobs."""

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings  # type: ignore[import-untyped]
from django.core.checks import CheckMessage, Error  # type: ignore[import-untyped]
from django.core.checks import Warning as Doubt
from django.db import close_old_connections, connections  # type: ignore[import-untyped]
from msgspec.structs import replace

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.hosts.loader import load_app
from standfast.model.suggestions import hint
from standfast.stores.url import public_name


async def with_connections(app: Standfast) -> AsyncGenerator[None, None]:
    """Close old database connections before and after each job, as Django does around requests: a lifespan.

    Django keeps connections by thread, so this happens in the thread of the handler; async code has its connections
    in the thread of `sync_to_async`.
    """
    bare = {task: task.fn for task in app.tasks.values()}
    for task, fn in bare.items():
        task.fn = _awaited(fn) if task.is_async else _called(fn)
    yield
    for task, fn in bare.items():
        task.fn = fn


def _called(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return fn(*args, **kwargs)
        finally:
            close_old_connections()

    return call


def _awaited(fn: Callable[..., Any]) -> Callable[..., Any]:
    close = sync_to_async(close_old_connections)

    @wraps(fn)
    async def call(*args: Any, **kwargs: Any) -> Any:
        await close()
        try:
            return await fn(*args, **kwargs)
        finally:
            await close()

    return call


TARGET = "standfast.hosts.django.target:app"
"""The MODULE:APP of every Django project: it sets Django up before it imports the app that the settings name."""

KEYS = ("APP", "EMBEDDED", "OPTIONS")
_EXAMPLE = 'STANDFAST = {"APP": "shop.jobs:app"}'


@dataclass(frozen=True, slots=True)
class Configured:
    """What STANDFAST says, complete and checked."""

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)


def configured() -> Configured:
    """Return what the settings say. Raises ConfigurationError that names all that is wrong with them."""
    said: Any = getattr(settings, "STANDFAST", None)
    found = [f"{problem.msg}; {problem.hint}" for problem in problems_of(said)]
    if found:
        raise ConfigurationError("; ".join(found))
    return Configured(said["APP"], said.get("OPTIONS", {}))


def _problem(number: str, says: str, hint: str) -> CheckMessage:
    return Error(says, hint=hint, id=f"standfast.{number}")


def problems_of(said: Any) -> Iterator[CheckMessage]:
    """Yield what is wrong with the dict STANDFAST itself; whether the app can be imported is another question."""
    if not isinstance(said, Mapping):
        what = "STANDFAST is not set" if said is None else f"STANDFAST must be a dict, not {said!r:.80}"
        yield _problem("E001", what, f"write e.g. {_EXAMPLE} into the settings")
        return
    for key in said:
        if key not in KEYS:
            remedy = hint(str(key), [known.lower() for known in KEYS], lambda known: repr(known.upper()))
            yield _problem("E002", f"STANDFAST has no key {key!r}", remedy)
    target = said.get("APP")
    if not (isinstance(target, str) and all(target.partition(":"))):
        yield _problem("E003", f"STANDFAST['APP'] must be 'MODULE:APP', not {target!r}", f"write e.g. {_EXAMPLE}")
    if not isinstance(said.get("EMBEDDED", False), bool):
        yield _problem(
            "E005", f"STANDFAST['EMBEDDED'] must be True or False, not {said['EMBEDDED']!r:.80}", _EMBEDDED
        )
    yield from _problems_of_options(said.get("OPTIONS", {}))


_EMBEDDED = "True lets the processes that serve requests run jobs too"


def _problems_of_options(said: Any) -> Iterator[CheckMessage]:
    if not isinstance(said, Mapping):
        remedy = 'write e.g. "OPTIONS": {"concurrency": 4}'
        yield _problem("E006", f"STANDFAST['OPTIONS'] must be a dict, not {said!r:.80}", remedy)
        return
    if said:
        known = _options_of_a_host()
        for name in said:
            if name not in known:
                yield _problem("E006", f"STANDFAST['OPTIONS'] has no option {name!r}", hint(str(name), known, repr))


def _options_of_a_host() -> list[str]:
    """Return what may be said of the embedded worker."""
    from standfast.hosts.host import Host  # noqa: PLC0415 - only who says something of it loads it

    return [name for name in inspect.signature(Host).parameters if name not in {"app", "target"}]


def app_of(target: str) -> Standfast:
    """Import the app that MODULE:APP names and make it one of Django's. Raises ConfigurationError."""
    app = load_app(target, sys.path[0], unfound="no folder of sys.path holds it; name it as an import does")
    if app.settings.name is None:  # not that of the TARGET which all projects have: their schedules are not one's
        app.settings = replace(app.settings, name=target)
    if with_connections not in app.lifespans:
        app.lifespan(with_connections)
    return app


def declare_backends(app: Standfast) -> None:
    """Declare what runs the tasks of every backend in TASKS whose jobs this app has."""
    if not getattr(settings, "TASKS", None):
        return
    from standfast.hosts.django.task_runner import task_backends  # noqa: PLC0415 - not every project has django-tasks
    from standfast.hosts.django.tasks import StandfastBackend  # noqa: PLC0415

    for backend in task_backends.all():
        if isinstance(backend, StandfastBackend) and backend.app is app:
            backend.declare()


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Return what is wrong with the settings, the app that they name included."""
    said: Any = getattr(settings, "STANDFAST", None)
    return list(problems_of(said)) or list(_problems_of_app(said["APP"], said.get("OPTIONS", {})))


def _problems_of_app(target: str, options: Any) -> Iterator[CheckMessage]:
    try:
        app = app_of(target)
    except ConfigurationError as error:
        hint = "STANDFAST['APP'] is 'MODULE:APP', as in 'shop.jobs:app'"
        yield Error(str(error), hint=hint, id="standfast.E004")
        return
    if options:
        yield from _problems_of_values(app, options)
    yield from _doubts_about_databases(app)


def _problems_of_values(app: Standfast, options: Any) -> Iterator[CheckMessage]:
    from standfast.hosts.host import Host  # noqa: PLC0415 - only who says something of it loads it

    try:
        Host(app, **options)
    except ConfigurationError as error:
        yield Error(str(error), hint="it is in STANDFAST['OPTIONS']", id="standfast.E006")


def _doubts_about_databases(app: Standfast) -> Iterator[CheckMessage]:
    """Yield what will fail beside a worker: SQLite refuses a write after a read if somebody wrote in between."""
    if not app.settings.url.startswith("sqlite:"):
        return
    jobs = Path(public_name(app.settings.url)).resolve()
    for alias in connections:
        said = connections[alias].settings_dict
        begins = str(said.get("OPTIONS", {}).get("transaction_mode") or "DEFERRED")
        if connections[alias].vendor == "sqlite" and Path(said["NAME"]).resolve() == jobs and begins == "DEFERRED":
            yield Doubt(
                f"DATABASES[{alias!r}] has the jobs in its file: a transaction that reads before it writes fails"
                " with 'database is locked' if a job is written in between",
                hint='add "OPTIONS": {"transaction_mode": "IMMEDIATE"} to it',
                id="standfast.W001",
            )
