"""The system checks: `manage.py check` tells what is wrong with STANDFAST, each with a remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from django.core.checks import CheckMessage, Error  # type: ignore[import-untyped]
from django.core.checks import Warning as Doubt
from django.db import connections  # type: ignore[import-untyped]

from standfast.app import Standfast
from standfast.errors import ConfigurationError
from standfast.host.django.configured import app_of, problems_of
from standfast.store.open import public_name


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Return what is wrong with the settings, the app that they name included."""
    said: Any = getattr(settings, "STANDFAST", None)
    found = [Error(each.says, hint=each.hint, id=f"standfast.{each.id}") for each in problems_of(said)]
    return found or list(_problems_of_app(said["APP"], said.get("OPTIONS", {})))


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
    from standfast.host.host import Host  # noqa: PLC0415 - only who says something of it loads it

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
