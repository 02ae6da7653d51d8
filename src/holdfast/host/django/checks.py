"""The system checks: `manage.py check` tells what is wrong with HOLDFAST, each with a remedy."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from django.core.checks import CheckMessage, Error  # type: ignore[import-untyped]

from holdfast.errors import ConfigurationError
from holdfast.host.django.configured import app_of, problems_of


def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Return what is wrong with the settings, the app that they name included."""
    said: Any = getattr(settings, "HOLDFAST", None)
    found = [Error(each.says, hint=each.hint, id=f"holdfast.{each.id}") for each in problems_of(said)]
    return found or list(_problems_of_app(said["APP"]))


def _problems_of_app(target: str) -> Iterator[CheckMessage]:
    try:
        app_of(target)
    except ConfigurationError as error:
        hint = "HOLDFAST['APP'] is 'MODULE:APP', as in 'shop.jobs:app'"
        yield Error(str(error), hint=hint, id="holdfast.E004")
