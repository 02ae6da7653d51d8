"""`standfast doctor`: is everything in order, from versions to the oldest due job? It looks and changes nothing."""

import platform
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import click
from rich.text import Text

from standfast.app import Standfast
from standfast.cli.connection import (
    AppTarget,
    StoreOptions,
    app_dir_option,
    examples,
    find_target,
    store_options,
    target_argument,
)
from standfast.cli.exit_codes import ExitCode
from standfast.cli.output import Column, cut, say, say_heading, say_json, say_table
from standfast.errors import ConfigurationError
from standfast.model.display import counted, span
from standfast.observe.health.status import judge_census
from standfast.observe.incidents import judge_incidents
from standfast.settings import BY_DEFAULT, Loaded
from standfast.stores.doctor import Census, Examination, Finding, Severity
from standfast.stores.url import examine_store, public_name
from standfast.task import Task

_OLDEST_PYTHON = (3, 11)
_DECLARE_ONE = "declare one in app.alerts or the settings file, as docs/howto/alert-channels.md says"
_STYLES: Mapping[Severity, str] = MappingProxyType(
    {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "bold red"}
)


@click.command(
    epilog=examples("standfast doctor", "standfast doctor myproject.jobs:app", "standfast doctor --deep --json")
)
@target_argument
@app_dir_option
@click.option("--deep", is_flag=True, help="Read all of the store to find damage, however large it is.")
@click.pass_context
@store_options
def doctor(wanted: StoreOptions, ctx: click.Context, *, target: str | None, app_dir: str, deep: bool) -> None:
    """Look at everything that jobs depend on, and say what to mend.

    With MODULE:APP it is about that app: its store, settings and tasks. Nothing is made, migrated or written.
    """
    meant = find_target(wanted, target, app_dir)
    examination = examine_store(meant.loaded.settings, deep=deep)
    findings = list(_findings(meant, examination))
    if wanted.as_json:
        say_json(_report(meant, findings))
    else:
        _tell(meant, findings)
    ctx.exit(_exit_code(examination, findings))


def _findings(meant: AppTarget, examination: Examination) -> Iterator[Finding]:
    yield _versions()
    yield _platform()
    yield from examination.findings
    yield _boot_clock()
    if examination.census is not None:
        yield from judge_census(examination.census, () if meant.app is None else meant.app.tasks.keys())
        yield judge_incidents(examination.census)
    yield _settings(meant.loaded)
    if meant.app is not None:
        yield _tasks(meant.app)
        yield from _alerts(meant.app, examination.census)


def _versions() -> Finding:
    python = platform.python_version()
    says = (
        f"standfast {version('standfast')}, Python {python}, msgspec {version('msgspec')}, click {version('click')}"
    )
    if sys.version_info < _OLDEST_PYTHON:
        return Finding.problem("versions", says, "use Python 3.11 or newer")
    return Finding.ok("versions", says)


def _platform() -> Finding:
    says = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if platform.system() not in {"Linux", "Darwin"}:
        return Finding.warning("platform", says, "workers run on Linux and macOS; use a container or WSL")
    return Finding.ok("platform", says)


def _boot_clock() -> Finding:
    if hasattr(time, "CLOCK_BOOTTIME") or platform.system() == "Darwin":
        return Finding.ok("boot clock", "counts the time that the machine sleeps: leases end when they should")
    return Finding.warning(
        "boot clock",
        "does not count the time that the machine sleeps: leases are taken for longer than they are",
        "do not let the machine sleep",
    )


def _settings(loaded: Loaded) -> Finding:
    chosen = [f"{name} from {origin}" for name, origin in loaded.where.items() if origin != BY_DEFAULT]
    return Finding.ok("settings", f"all valid; {', '.join(chosen) or 'all by default'}")


def _tasks(app: Standfast) -> Finding:
    if not app.tasks:
        return Finding.warning("tasks", "the app declares none", "import the modules that declare them")
    queues = ", ".join(sorted({task.policy.queue for task in app.tasks.values()}))
    endless = sum(task.policy.timeout is None for task in app.tasks.values())
    says = f"{counted(len(app.tasks), 'task')} in these queues: {queues}"
    return Finding.ok("tasks", f"{says}; {endless} of them without a timeout" if endless else says)


def _alerts(app: Standfast, census: Census | None) -> Iterator[Finding]:
    from standfast.hosts.publication import name_doubts  # noqa: PLC0415 - likewise
    from standfast.observe.alerts.delivery import doubts, refuse_unusable, slow_doubts  # noqa: PLC0415 - only of an app

    try:
        watching = app.watching
        refuse_unusable(watching.channels)
    except ConfigurationError as error:
        yield Finding.problem("alerts", str(error), "no worker of the app starts here until that is mended")
        return
    doubtful = [*doubts(watching.channels), *slow_doubts(watching.channels)]
    for doubt in doubtful:
        yield Finding.problem("alerts", doubt, "mend it, and try it with `standfast alerts test MODULE:APP`")
    strange = list(name_doubts(app, _queues_in(census)))
    for doubt in strange:
        yield Finding.warning(
            "alerts", doubt, "correct the name, unless another app has it or it comes at run time"
        )
    if not watching.enabled:
        off_in = " and ".join(watching.off_in)
        yield Finding.warning(
            "alerts", f"switched off, by {off_in}: nobody looks for trouble", "switch them on there"
        )
    elif not watching.channels:
        yield Finding.warning("alerts", "no channel is declared: nobody is told of trouble", _DECLARE_ONE)
    elif not (doubtful or strange):
        names = ", ".join(channel.name for channel in watching.channels)
        yield Finding.ok("alerts", f"people are told through: {names}{_firing(census)}")


def _firing(census: Census | None) -> str:
    """Return how many alerts fire, if any does: to be told of trouble is in order, and trouble is not."""
    from standfast.observe.alerts.board import board_in  # noqa: PLC0415 - only of an app

    fire = 0 if census is None else len(board_in(census.board).board.firing)
    return f"; {counted(fire, 'alert fires', 'alerts fire')}: see `standfast alerts list`" if fire else ""


def _queues_in(census: Census | None) -> Iterator[str]:
    """Yield the queues that somebody serves, or that have due jobs, whichever app they are of."""
    if census is not None:
        yield from (name for worker in census.workers for name in worker.info.queues or ())
        yield from (queue.name for queue in census.due)


def _exit_code(examination: Examination, findings: list[Finding]) -> ExitCode:
    if not examination.usable:
        return ExitCode.STORE
    return ExitCode.FAILED if any(finding.severity is Severity.PROBLEM for finding in findings) else ExitCode.OK


def _public_settings(loaded: Loaded) -> dict[str, Any]:
    """Return the settings without what a URL may hide."""
    values = {name: getattr(loaded.settings, name) for name in loaded.where}
    return values | {"url": public_name(loaded.settings.url)}


def _report(meant: AppTarget, findings: list[Finding]) -> dict[str, Any]:
    return {
        "ok": all(finding.severity is not Severity.PROBLEM for finding in findings),
        "checks": [
            {"check": each.check, "level": each.severity.value, "says": each.says, "remedy": each.remedy or None}
            for each in findings
        ],
        "settings": {
            name: {"value": value, "from": meant.loaded.where[name]}
            for name, value in _public_settings(meant.loaded).items()
        },
        "tasks": None if meant.app is None else [_task_fields(task) for task in meant.app.tasks.values()],
    }


def _task_fields(task: Task[..., Any]) -> dict[str, Any]:
    policy = task.policy
    return {
        "name": task.name,
        "queue": policy.queue,
        "priority": policy.priority,
        "max_attempts": policy.max_attempts,
        "timeout": policy.timeout,
        "version": policy.version,
    }


def _timeout(task: Task[..., Any]) -> str:
    timeout = task.policy.timeout
    return "none" if timeout is None else span(timedelta(seconds=timeout))


def _tell(meant: AppTarget, findings: list[Finding]) -> None:
    say_table(findings, _FINDING_COLUMNS)
    say_heading("Settings")
    rows = [(name, str(value), meant.loaded.where[name]) for name, value in _public_settings(meant.loaded).items()]
    say_table(rows, _SETTING_COLUMNS)
    if meant.app is None:
        say("An app may have settings of its own in its code: `standfast doctor MODULE:APP` shows them.")
    if meant.app is not None and meant.app.tasks:
        say_heading("Tasks")
        say_table(list(meant.app.tasks.values()), _TASK_COLUMNS)
    say(_summary(findings))


def _summary(findings: list[Finding]) -> Text:
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    worst = Severity.PROBLEM if problems else Severity.WARNING if warnings else Severity.OK
    told = f"\n{counted(problems, 'problem') if problems else 'No problem'}, {counted(warnings, 'warning')}."
    return Text(told, style=_STYLES[worst])


def _what(finding: Finding) -> str:
    return f"{finding.says} → {finding.remedy}" if finding.remedy else finding.says


_FINDING_COLUMNS: list[Column[Finding]] = [
    Column("CHECK", lambda finding: finding.check),
    Column("", lambda finding: Text(finding.severity.value, style=_STYLES[finding.severity])),
    Column("WHAT IS FOUND → WHAT TO DO", _what, shrinks=True),
]
_SETTING_COLUMNS: list[Column[tuple[str, str, str]]] = [
    Column("SETTING", lambda row: row[0]),
    Column("VALUE", lambda row: row[1], shrinks=True),
    Column("FROM", lambda row: row[2], shrinks=True),
]
_TASK_COLUMNS: list[Column[Task[..., Any]]] = [
    Column("TASK", lambda task: cut(task.name), shrinks=True),
    Column("QUEUE", lambda task: cut(task.policy.queue), shrinks=True),
    Column("PRIORITY", lambda task: str(task.policy.priority), justify="right"),
    Column("ATTEMPTS", lambda task: str(task.policy.max_attempts), justify="right"),
    Column("TIMEOUT", _timeout, justify="right"),
    Column("VERSION", lambda task: str(task.policy.version), justify="right"),
]
