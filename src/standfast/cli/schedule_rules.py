"""The options of the command line that say when a schedule fires, and the rule that they mean."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

import click
import msgspec
from msgspec.structs import asdict, fields, replace

from standfast.admin.fields import Named
from standfast.admin.job_details import changed_payload, encode_envelope, read_envelope
from standfast.admin.schedules import ScheduleEdit, ScheduleSeen, edit_schedule, show_schedule
from standfast.app import Standfast
from standfast.cli.connection import (
    F,
    StoreOptions,
    app_dir_option,
    check_target,
    examples,
    find_target,
    given,
    open_admin,
    store_options,
)
from standfast.cli.exit_codes import wrong_usage
from standfast.cli.inputs import as_span, as_spans, read_moment, read_pairs, told_in_options
from standfast.cli.output import say, say_json
from standfast.cli.timetable import say_next
from standfast.errors import ArgumentsError, UnknownTaskError
from standfast.model.display import counted, one_line
from standfast.model.policy import declare_options
from standfast.model.suggestions import hint
from standfast.model.validation import name_problems, read_span, refuse_any
from standfast.schedules import fires
from standfast.schedules.declarations import Declaration
from standfast.schedules.operations import declare
from standfast.schedules.rules import AnyOf, AnyRule, At, Cron, Every, Misfire, Overlap, Rule
from standfast.schedules.schedule import Template
from standfast.schedules.windows import Window
from standfast.schedules.zones import find_zone
from standfast.stores.verb import run_procedure
from standfast.task import Task

_TAKEN_BACK = "none"
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
            "--catch-up-window", metavar="SPAN", help=f"And those of so long, {all_missed}; or none.{default('1d')}"
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
    """Give a command the options that say when; `RuleOptions.take` reads them."""
    return given(*_options(default))


@dataclass(frozen=True, slots=True)
class RuleOptions:
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
                said[name] = None if text == _TAKEN_BACK else self._moment(f"--{name}", text, tz)
        if self.catch_up_window is not None:
            said["catch_up_window"] = None if self.catch_up_window == _TAKEN_BACK else _span(self.catch_up_window)
        if self.exclude:
            said["exclude"] = tuple(_exclusion(text, tz or "UTC") for text in self.exclude if text != _TAKEN_BACK)
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


# The options of the command line that say which job a schedule enqueues, and what they mean.
#
# The store does not know what a task takes: without an app, arguments are stored by name as they are given.

JsonByName = Mapping[str, msgspec.Raw]


def _as_json(_ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[msgspec.Raw, ...]:
    return tuple(_read(parameter.opts[0], text) for text in texts)


def _as_named_json(_ctx: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> JsonByName:
    named = read_pairs(pairs, str.isidentifier, "NAME=JSON, as in --kwarg month=3 or --kwarg to='\"Ada\"'")
    return {name: _read(f"{parameter.opts[0]} {name}", text) for name, text in named.items()}


def _read(where: str, text: str) -> msgspec.Raw:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        quoted = msgspec.json.encode(text).decode()
        raise wrong_usage(f"{where}: {text} is no JSON; a text stands in double quotes: '{quoted}'") from None
    return msgspec.Raw(text.encode())


positional_option = click.option(
    "--arg", "args", multiple=True, metavar="JSON", callback=_as_json, help="An argument by position; needs --app."
)


def job_options(default: Callable[[str], str]) -> Callable[[F], F]:
    """Give a command the options that say what to enqueue; `TemplateOptions.take` reads them."""
    told = default("the task's")
    options = (
        click.option(
            "--kwarg", "kwargs", multiple=True, metavar="NAME=JSON", callback=_as_named_json, help="An argument."
        ),
        click.option("--queue", metavar="NAME", help=f"Where its jobs wait.{told}"),
        click.option("--priority", type=int, metavar="N", help=f"Greater goes first.{told}"),
        click.option("--max-attempts", type=int, metavar="N", help=f"Of each job.{told}"),
        click.option(
            "--app", "target", metavar="MODULE:APP", callback=check_target, help="Check it against this app's task."
        ),
    )
    return given(*options)


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """What a person says of the job that a schedule is to enqueue. `routing` has only what is said."""

    kwargs: JsonByName
    routing: Mapping[str, Any]

    @classmethod
    @told_in_options()
    def take(cls, given: dict[str, Any]) -> Self:
        """Take its options out of those of a command. Raises ConfigurationError for what no job can have."""
        kwargs = given.pop("kwargs")
        routing = {name: given.pop(name) for name in ("queue", "priority", "max_attempts")}
        said = {name: value for name, value in routing.items() if value is not None}
        declare_options(**said)
        return cls(kwargs, said)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said."""
        return not (self.kwargs or self.routing)

    def make(
        self, name: str, task: str, rule: AnyRule, args: tuple[msgspec.Raw, ...], app: Standfast | None
    ) -> Declaration:
        """Return the schedule that is meant, checked against the app's task where there is an app."""
        if app is None:
            if args:
                raise wrong_usage(
                    "--arg needs --app MODULE:APP, for arguments are stored by name; or write --kwarg NAME=JSON"
                )
            refuse_any([*name_problems("schedule", name), *name_problems("task", task)])
            return Declaration(
                name, rule, Template(task=task, payload=encode_envelope(1, self.kwargs), **self.routing)
            )
        found = _find(app, task)
        return declare(name, found.options(**self.routing), rule, (), _fitting(found, args, self.kwargs))

    def change(self, template: Template, task: str | None, app: Standfast | None) -> Template:
        """Return a template as it is to be from now on: what is not said stays, arguments too."""
        changed = replace(template, task=task or template.task, **self.routing)
        if not self.kwargs and app is None:
            return changed
        if app is None:
            return replace(changed, payload=changed_payload(template.payload, self.kwargs, whole=False))
        stored = read_envelope(template.payload)
        found = _find(app, changed.task)
        values = _fitting(found, (), {**stored.args, **stored.secret, **self.kwargs})
        return replace(changed, payload=found.arguments.encode((), values), version=found.policy.version)


def _find(app: Standfast, task: str) -> Task[..., Any]:
    found = app.tasks.get(task)
    if found is None:
        raise UnknownTaskError(f"the app has no task {task!r}; {hint(task, app.tasks)}")
    return found


def _fitting(task: Task[..., Any], args: tuple[msgspec.Raw, ...], kwargs: JsonByName) -> dict[str, Any]:
    try:
        return task.arguments.read(args, kwargs)
    except ArgumentsError as error:
        raise wrong_usage(str(error)) from error


# `standfast schedules create`: a schedule that no code declares.


@click.command(
    epilog=examples(
        "standfast schedules create nightly report --cron '0 2 * * *' --tz Asia/Taipei",
        "standfast schedules create poll poll_orders --every 15m --overlap allow",
        "standfast schedules create launch announce --at 2026-03-01T09:00+08:00",
        "standfast schedules create digest send_digest --cron '0 8 * * mon-fri' \\",
        "      --kwarg to='\"team@example.com\"' --exclude 12-25 --app shop.jobs:app",
        "standfast schedules create tidy tidy_up --every 1h --exclude '03:00-03:15 recycle'",
    )
)
@click.argument("name")
@click.argument("task")
@rule_options(default_shown)
@positional_option
@job_options(default_shown)
@app_dir_option
@store_options
def create(
    wanted: StoreOptions, /, *, name: str, task: str, target: str | None, app_dir: str, **given: Any
) -> None:
    """Make a schedule that runs TASK.

    Several of --cron, --every and --at mean all of their times. A TIME without a zone is read by the clock of --tz.
    Arguments are JSON; with --app they are checked against the task, and what is not said comes from its policy.
    """
    args = given.pop("args")
    rule, job = RuleOptions.take(given).make(), TemplateOptions.take(given)
    meant = find_target(wanted, target, app_dir)
    made = job.make(name, task, rule, args, meant.app)
    with open_admin(meant.loaded) as admin:
        ahead = timedelta(seconds=meant.loaded.settings.look_ahead)
        verbs = admin.backend.verbs
        run_procedure(admin.backend.run, fires.create(verbs, made.name, made.rule, made.job, ahead))
        seen = admin.run(show_schedule, Named(name=made.name))
    if wanted.as_json:
        say_json({**asdict(seen), "checked": meant.app is not None})
        return
    say(f"Schedule '{one_line(name)}' is made: it fires {seen.words}.")
    say_next(seen)
    if meant.app is None:
        _say_unchecked(seen)


def _say_unchecked(seen: ScheduleSeen) -> None:
    """Say that nobody has looked whether there is such a task, and whether the arguments fit it."""
    say(
        f"Stored as given: it was not checked that there is a task '{one_line(seen.task or '')}' and that its"
        f" arguments fit. Its jobs go to queue '{seen.queue}' and have {counted(seen.max_attempts, 'attempt')}."
        " --app MODULE:APP checks it, and takes from the task what is not said."
    )


# `standfast schedules edit`: change when a schedule fires, or what it enqueues.


@click.command(
    epilog=examples(
        "standfast schedules edit nightly --cron '30 3 * * *'",
        "standfast schedules edit nightly --overlap queue_one --misfire all",
        "standfast schedules edit nightly --end none --exclude none",
        "standfast schedules edit nightly --kwarg month=4 --queue reports",
    )
)
@click.argument("name")
@click.option("--task", metavar="NAME", help="Run another task.")
@rule_options(default_hidden)
@job_options(default_hidden)
@app_dir_option
@store_options
def edit(
    wanted: StoreOptions, /, *, name: str, task: str | None, target: str | None, app_dir: str, **given: Any
) -> None:
    """Change a schedule; what is not said stays as it is.

    --cron, --every and --at take the place of the times it has, and --exclude of what it excludes; `none` takes
    --start, --end, --exclude and --catch-up-window back. What it has fired ahead of its time is withdrawn, unless a
    worker has it.
    """
    rule, job = RuleOptions.take(given), TemplateOptions.take(given)
    if rule.is_empty and job.is_empty and task is None and target is None:
        raise wrong_usage("nothing is to be changed; say what, as in --cron '30 3 * * *' or --overlap allow")
    if task is not None:
        refuse_any(name_problems("task", task))
    meant = find_target(wanted, target, app_dir)
    change = partial(job.change, task=task, app=meant.app)
    asked = ScheduleEdit(name=name, change_rule=None if rule.is_empty else rule.change, change_job=change)
    with open_admin(meant.loaded) as admin:
        admin.run(edit_schedule, asked)
        seen = admin.run(show_schedule, Named(name=name))
    if wanted.as_json:
        say_json({**asdict(seen), "checked": meant.app is not None})
        return
    say(f"Schedule '{one_line(name)}' is changed: it fires {seen.words}.")
    say_next(seen)
    if seen.app is not None:
        say(f"{seen.app} declares it in code: it stays changed until that declaration is changed.")
