"""What people type on a command line: spans of time, moments, and values by name."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo

import click

from standfast.cli.failures import wrong_usage
from standfast.schedule.zones import first_instant
from standfast.watch.spans import read_span


def as_span(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> timedelta | None:
    """Read an option as a span: `15m`, `1h30m`, `2d`, or a number of seconds."""
    return None if text is None else _span_option(text)


def as_span_with_unit(ctx: click.Context, parameter: click.Parameter, text: str | None) -> timedelta | None:
    """Read an option as a span whose unit is said: who writes 2 hardly means two seconds."""
    number = (text or "").strip()
    if number.replace(".", "", 1).isdecimal():
        raise click.BadParameter(f"'{text}' has no unit; write {number}h, {number}m or {number}s")
    return as_span(ctx, parameter, text)


def as_spans(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[timedelta, ...]:
    """Read an option that may be given several times."""
    return tuple(map(_span_option, texts))


def _span_option(text: str) -> timedelta:
    try:
        return read_span(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def read_pairs(pairs: Iterable[str], is_name: Callable[[str], bool], form: str) -> dict[str, str]:
    """Return pairs of name and value by name. Raises click.BadParameter that says what their form is."""
    named = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (equals and is_name(name)):
            raise click.BadParameter(f"'{pair}' is not {form}")
        named[name] = value
    return named


def read_moment(option: str, text: str, zone: tzinfo | None, otherwise: str = "") -> datetime:
    """Return what a text means as a moment; one without a zone of its own is read by the clock of `zone`.

    Raises click.UsageError that says how to write one, or what may be written `otherwise`.
    """
    written = text.strip()
    if written == "now":
        return datetime.now(UTC).replace(microsecond=0)
    try:
        moment = datetime.fromisoformat(written)
    except ValueError as error:
        why = f" ({error})" if "range" in str(error) or "must be" in str(error) else ""
        raise wrong_usage(
            f"{option}: '{text}' is no date{why}; write e.g. 2026-03-01T09:00+08:00{otherwise}"
        ) from error
    if moment.utcoffset() is not None:
        return moment
    if zone is None:
        raise wrong_usage(
            f"{option}: '{text}' has no time zone; write e.g. {moment:%Y-%m-%dT%H:%M}Z or"
            f" {moment:%Y-%m-%dT%H:%M}+08:00, or add --tz Asia/Taipei"
        )
    return first_instant(zone, moment)
