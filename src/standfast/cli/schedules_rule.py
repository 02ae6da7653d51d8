"""The options of the command line that say when a schedule fires, and the rule that they mean."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import datetime, timedelta
from typing import Any, Self

import click
from msgspec.structs import fields, replace

from standfast.cli.failures import wrong_usage
from standfast.cli.options import F, given
from standfast.cli.optionwords import told_in_options
from standfast.cli.typed import as_span, as_spans, read_moment
from standfast.schedule.rules import AnyOf, AnyRule, At, Cron, Every, Misfire, Overlap, Rule
from standfast.schedule.window import Window
from standfast.schedule.zones import find_zone
from standfast.watch.spans import read_span

_NONE = "none"
"""What an option says to take back what was set."""

_WINDOW = re.compile(r"(?P<start>[\d:]+) ?[-–] ?(?P<end>\d+:[\d:]+)( (?P<reason>.+))?")
_SHARED = tuple(field.name for field in fields(Rule))
"""What every rule has besides its times."""


def _options(default: Callable[[str], str]) -> tuple[Callable[[F], F], ...]:
    """Return the options; `default` makes the tail of a help text of what holds where nothing is said."""
    misfires, overlaps = [each.value for each in Misfire], [each.value for each in Overlap]
    all_missed = "with --misfire all"
    return (
        click.option("--cron", multiple=True, metavar="EXPR", help="The times of a cron expression: '0 2 * * *'."),
        click.option(
            "--every", multiple=True, callback=as_spans, metavar="SPAN", help="Again and again: 15m, 1h30m."
        ),
        click.option("--at", multiple=True, metavar="TIME", help="Once, at a time: 2026-03-01T09:00+08:00."),
        click.option(
            "--anchored/--not-anchored", default=None, help="Count --every from 1970: 1h is each full hour."
        ),
        click.option("--tz", metavar="ZONE", help=f"By the clock of this zone: Asia/Taipei.{default('UTC')}"),
        click.option("--start", metavar="TIME", help="Not before this."),
        click.option("--end", metavar="TIME", help="Not after this."),
        click.option(
            "--exclude",
            multiple=True,
            metavar="WHEN",
            help="Not then: sat, 2026-12-25, 12-25 (each year), '03:00-03:15 reason'.",
        ),
        click.option("--jitter", callback=as_span, metavar="SPAN", help="Put each run off by up to so much."),
        click.option(
            "--misfire", type=click.Choice(misfires), help=f"What becomes of missed times.{default('once')}"
        ),
        click.option(
            "--misfire-after", callback=as_span, metavar="SPAN", help=f"So late, a time is missed.{default('60s')}"
        ),
        click.option(
            "--catch-up-limit",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"So many at most are made up for, {all_missed}.{default('100')}",
        ),
        click.option(
            "--catch-up-window",
            metavar="SPAN",
            help=f"And those of so long, {all_missed}; or none.{default('1d')}",
        ),
        click.option(
            "--overlap", type=click.Choice(overlaps), help=f"While a run before is not over.{default('skip')}"
        ),
        click.option(
            "--pause-on-failure/--no-pause-on-failure",
            default=None,
            help="A job that ends dead pauses the schedule.",
        ),
    )


def default_shown(value: str) -> str:
    """Return the tail of a help text, where what is not said has a default."""
    return f"  [default: {value}]"


def default_hidden(_value: str) -> str:
    """Return nothing, where what is not said stays as it is."""
    return ""


def rule_options(default: Callable[[str], str]) -> Callable[[F], F]:
    """Give a command the options that say when; `RuleWish.take` reads them."""
    return given(*_options(default))


@dataclass(frozen=True, slots=True)
class RuleWish:
    """What a person says of when a schedule is to fire; None, or nothing, where nothing is said."""

    cron: tuple[str, ...]
    every: tuple[timedelta, ...]
    at: tuple[str, ...]
    anchored: bool | None
    tz: str | None
    start: str | None
    end: str | None
    exclude: tuple[str, ...]
    jitter: timedelta | None
    misfire: Misfire | None
    misfire_after: timedelta | None
    catch_up_limit: int | None
    catch_up_window: str | None
    overlap: Overlap | None
    pause_on_failure: bool | None

    @classmethod
    def take(cls, given: dict[str, Any]) -> Self:
        """Take its options out of those of a command."""
        return cls(**{field.name: given.pop(field.name) for field in fields_of(cls)})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return all(getattr(self, field.name) in {None, ()} for field in fields_of(self))

    @told_in_options()
    def make(self) -> AnyRule:
        """Return the rule that is meant. Raises click.UsageError or ConfigurationError."""
        times = self._times(self.tz)
        if not times:
            raise wrong_usage("say when: --cron '0 2 * * *', --every 15m or --at 2026-03-01T09:00+08:00")
        self._check_anchor(times)
        return self._with_options(times, {}, self.tz)

    @told_in_options()
    def change(self, rule: AnyRule) -> AnyRule:
        """Return a rule as it is to be from now on: what is not said stays as it is."""
        zones = rule.zones()
        tz = self.tz or (next(iter(zones)) if len(zones) == 1 else None)
        times = self._times(tz) or list(self._same_times(rule))
        self._check_anchor(times)
        return self._with_options(times, {name: getattr(rule, name) for name in _SHARED}, tz)

    def _times(self, tz: str | None) -> list[AnyRule]:
        """Return rules for the times that are said, each without options."""
        if tz is not None:
            find_zone(tz)
        return [
            *(Cron(expression, tz=tz or "UTC") for expression in self.cron),
            *(Every(span.total_seconds(), anchored=bool(self.anchored)) for span in self.every),
            *([At(*(self._moment("--at", text, tz) for text in self.at))] if self.at else []),
        ]

    def _check_anchor(self, times: Sequence[AnyRule]) -> None:
        if self.anchored is not None and not any(isinstance(each, Every) for each in times):
            raise wrong_usage("--anchored says how to count --every, and there is none; leave it out")

    def _same_times(self, rule: AnyRule) -> Iterator[AnyRule]:
        """Yield the rules of times that stay, but for their zone and anchor."""
        for each in rule.rules if isinstance(rule, AnyOf) else (rule,):
            if isinstance(each, Cron) and self.tz is not None:
                yield replace(each, tz=self.tz)
            elif isinstance(each, Every) and self.anchored is not None:
                yield replace(each, anchored=self.anchored)
            else:
                yield each

    def _with_options(self, times: Sequence[AnyRule], options: dict[str, Any], tz: str | None) -> AnyRule:
        options = {**options, **self._said(tz)}
        return replace(times[0], **options) if len(times) == 1 else AnyOf(*times, **options)

    def _said(self, tz: str | None) -> dict[str, Any]:
        """Return the options that are said."""
        said: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("jitter", "misfire", "misfire_after", "catch_up_limit", "overlap", "pause_on_failure")
            if getattr(self, name) is not None
        }
        for name in ("start", "end"):
            text = getattr(self, name)
            if text is not None:
                said[name] = None if text == _NONE else self._moment(f"--{name}", text, tz)
        if self.catch_up_window is not None:
            said["catch_up_window"] = None if self.catch_up_window == _NONE else _span(self.catch_up_window)
        if self.exclude:
            said["exclude"] = tuple(_exclusion(text, tz or "UTC") for text in self.exclude if text != _NONE)
        return said

    def _moment(self, option: str, text: str, tz: str | None) -> datetime:
        return read_moment(option, text, None if tz is None else find_zone(tz))


def _exclusion(text: str, tz: str) -> Window | str:
    """Return a window for `03:00-03:15`, else the day as it is written."""
    written = text.strip()
    window = _WINDOW.fullmatch(written)
    return written if window is None else Window(window["start"], window["end"], tz=tz, reason=window["reason"])


def _span(text: str) -> timedelta:
    try:
        return read_span(text)
    except ValueError as error:
        raise wrong_usage(f"--catch-up-window: {error}, or none") from error
