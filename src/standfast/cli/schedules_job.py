"""The options of the command line that say which job a schedule enqueues, and what they mean.

The store does not know what a task takes: without an app, arguments are stored by name as they are given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import click
import msgspec
from msgspec.structs import replace

from standfast.app import Standfast
from standfast.cli.failures import wrong_usage
from standfast.cli.options import F, given
from standfast.cli.optionwords import told_in_options
from standfast.cli.target import check_target
from standfast.cli.typed import read_pairs
from standfast.errors import ArgumentsError, UnknownTaskError
from standfast.policy import declare_options
from standfast.policy.problems import name_problems, refuse_any
from standfast.schedule.declaring import Declaration
from standfast.schedule.plan import Template
from standfast.schedule.rules import AnyRule
from standfast.schedule.schedules import declare
from standfast.spelling import hint
from standfast.task import Task
from standfast.watch.envelope import changed_payload, encode_envelope, read_envelope

Named = Mapping[str, msgspec.Raw]


def _as_json(_ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[msgspec.Raw, ...]:
    return tuple(_read(parameter.opts[0], text) for text in texts)


def _as_named_json(_ctx: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Named:
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
    """Give a command the options that say what to enqueue; `JobWish.take` reads them."""
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
class JobWish:
    """What a person says of the job that a schedule is to enqueue. `routing` has only what is said."""

    kwargs: Named
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


def _fitting(task: Task[..., Any], args: tuple[msgspec.Raw, ...], kwargs: Named) -> dict[str, Any]:
    try:
        return task.arguments.read(args, kwargs)
    except ArgumentsError as error:
        raise wrong_usage(str(error)) from error
