"""What can be set, with its defaults, checked once and all together."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from holdfast.errors import ConfigurationError

DEFAULT_URL = "sqlite:///holdfast.db"
URL_VARIABLE = "HOLDFAST_URL"

LONGEST_SPAN = 365 * 86_400.0
"""Seconds beyond which a span is a mistake; infinity would not even reach the worker."""

_NAMESPACE = re.compile(r"[a-z][a-z0-9_]{0,30}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app and its workers behave. Spans are seconds.

    lease: how long a worker's claims stay valid without a beat; beat: how often it beats (a third of the lease
    unless given); grace: how long a stop waits for running jobs; hang_limit: how long a child may give no sign
    of life; look_ahead: how far ahead jobs are claimed; store_timeout: when a store call is given up.
    """

    url: str = DEFAULT_URL
    namespace: str | None = None
    lease: float = 15.0
    beat: float | None = None
    grace: float = 30.0
    hang_limit: float = 120.0
    look_ahead: float = 10.0
    safety_poll: float = 2.0
    store_timeout: float = 10.0
    concurrency: int = 20

    @property
    def beat_every(self) -> float:
        """Seconds between two beats."""
        return self.lease / 3 if self.beat is None else self.beat

    @property
    def margin(self) -> float:
        """How long before the lease ends a worker stops trusting it."""
        return min(1.0, self.lease / 10)

    @property
    def lease_span(self) -> timedelta:
        """The lease as a span."""
        return timedelta(seconds=self.lease)


def load_settings(
    environment: Mapping[str, str] | None = None, /, *, url: str | None = None, **given: object
) -> Settings:
    """Return checked settings; HOLDFAST_URL overrides the URL given in code."""
    environment = os.environ if environment is None else environment
    chosen = environment.get(URL_VARIABLE) or url or DEFAULT_URL
    values = {name: value for name, value in given.items() if value is not None}
    unknown = sorted(values.keys() - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise ConfigurationError(f"unknown setting {', '.join(unknown)}; there are: {known}")
    values = {name: _seconds(value) for name, value in values.items()}
    try:
        settings = msgspec.convert({"url": chosen, **values}, Settings)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"bad setting: {error}") from error
    problems = list(_problems(settings))
    if problems:
        raise ConfigurationError("; ".join(problems))
    return settings


def _seconds(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _problems(settings: Settings) -> "list[str]":
    problems = [
        f"{name} must be above 0 seconds and at most a year, not {getattr(settings, name):g}"
        for name in ("lease", "hang_limit", "safety_poll", "store_timeout")
        if not 0 < getattr(settings, name) <= LONGEST_SPAN
    ]
    problems += [
        f"{name} must be from 0 seconds to a year, not {getattr(settings, name):g}"
        for name in ("grace", "look_ahead")
        if not 0 <= getattr(settings, name) <= LONGEST_SPAN
    ]
    if not 0 < settings.beat_every <= settings.lease / 2:
        problems.append(f"beat ({settings.beat_every:g} s) must be above 0 and at most half the lease")
    if settings.concurrency < 1:
        problems.append(f"concurrency must be 1 or more, not {settings.concurrency}")
    if settings.namespace is not None and not _NAMESPACE.fullmatch(settings.namespace):
        problems.append(
            f"namespace {settings.namespace!r} must start with a letter and have at most 31 small letters,"
            " digits and underscores"
        )
    return problems
