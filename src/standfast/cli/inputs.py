"""What people type on a command line: spans of time, moments, and values by name."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import click

from standfast.cli.exit_codes import ExitCode, say_failed, wrong_usage
from standfast.errors import ConfigurationError
from standfast.model.validation import read_span
from standfast.schedules.zones import find_zone, first_instant


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


def read_moment_or_span(option: str, text: str, tz: str | None, now: datetime) -> datetime:
    """Return the moment that a text means: a span back from `now`, as 12h, or a date."""
    zone = None if tz is None else find_zone(tz)
    if not text.isdigit():  # a date without its dashes
        with suppress(ValueError, OverflowError):
            return now - read_span(text)
    return read_moment(option, text, zone, otherwise=", or how long ago, e.g. 12h or 2d")


# What is refused, told in the words of the command line: the errors of rules and policies speak Python.

_TRANSLATIONS = (
    (r", or say on which days it is on, with days=\(.*\)", ""),
    (r"a timedelta or seconds", "a span"),
    (r"datetime\.date\([\d, ]+\), ", ""),
    (r'Cron\("([^"]*)"\)', r"--cron '\1'"),
    (r"Every\((\d+)\)", r"--every \1s"),
    (r'Window\("([\d:]+)", "([\d:]+)"[^)]*\)', r"--exclude '\1-\2'"),
    (r'\b(\w+)="([^"]*)"', r"--\1 \2"),
    (r"\b(\w+)=(\d+)", r"--\1 \2"),
    (r"(?<![-\w'])(max_attempts|misfire_after|catch_up_\w+|pause_on_failure)\b", r"--\1"),
)


@contextmanager
def told_in_options() -> Iterator[None]:
    """Tell what is wrong inside, and what would be right, as one writes it on a command line."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(in_options(str(error))) from error


def in_options(words: str) -> str:
    """Return advice with the options of the command line in the place of Python."""
    for python, options in _TRANSLATIONS:
        words = re.sub(python, options, words)
    return re.sub(r"--\w+", lambda option: option[0].replace("_", "-"), words)


# Asking a person before something that cannot be undone.


def confirm(question: str) -> None:
    """Ask on stderr; end with exit code 1 unless the answer is yes. Nobody there is wrong usage."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as aborted:
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise
        raise wrong_usage("nobody is there to confirm; add --yes") from aborted
    if not agreed:
        say_failed("nothing was done")
        raise click.exceptions.Exit(ExitCode.FAILED)


# A token that a command is given in a file: on the command line everybody on the machine could read it.

_LONGEST = 4096


def read_token(_ctx: click.Context, parameter: click.Parameter, file: str | None) -> str | None:
    """Return what is in the file, without the line's end. No error repeats it.

    A file that others may read is refused, as that of a dashboard is.
    """
    if file is None:
        return None
    from standfast.dashboard.access.credentials import refuse_open  # noqa: PLC0415 - few commands need it

    try:
        with Path(file).open("rb") as opened:
            refuse_open(Path(file), os.fstat(opened.fileno()))
            token = opened.read(_LONGEST + 1).strip().decode("ascii")
    except OSError as error:
        raise ConfigurationError(f"{parameter.opts[0]}: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > _LONGEST or any(not "!" <= letter <= "~" for letter in token):
        raise ConfigurationError(f"{parameter.opts[0]}: {file} must hold one token: a line of ASCII without spaces")
    return token


token_file_option = click.option(
    "--token-file",
    "token",
    metavar="FILE",
    callback=read_token,
    help="A file with the token, sent as `Authorization: Bearer …`.",
)
