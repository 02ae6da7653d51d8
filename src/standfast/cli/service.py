"""`standfast service`: have systemd run the workers of an app, from boot on."""

import getpass
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from standfast.cli.confirming import confirm
from standfast.cli.connection import debug_option
from standfast.cli.failures import ExitCode, say_failed, wrong_usage
from standfast.cli.options import examples, given, yes_option
from standfast.cli.output import say, say_fields, say_json
from standfast.cli.servicecheck import grace_of_app
from standfast.cli.serviceunit import KNOWS_SUBGROUPS, MARK, Service
from standfast.cli.systemctl import Systemctl, version_of_systemd
from standfast.cli.target import check_target
from standfast.cli.up import up
from standfast.errors import ConfigurationError, StandfastError
from standfast.settings import URL_VARIABLE, Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,100}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SHOWN = (
    "ActiveState",
    "SubState",
    "MainPID",
    "NRestarts",
    "StatusText",
    "UnitFileState",
    "ExecMainStartTimestamp",
)


def _read_name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter(f"'{value}' cannot be a unit's name: use letters, digits, and any of _ . @ -")
    return value


def _read_variables(
    _ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    found = tuple((name, rest) for name, _, rest in (each.partition("=") for each in value))
    for each, (name, rest) in zip(value, found, strict=True):
        if not (_VARIABLE.fullmatch(name) and "=" in each and rest.isprintable()):
            raise click.BadParameter(f"'{each}' is not NAME=VALUE, in one line")
    if URL_VARIABLE in dict(found):
        raise _open_to_all("--env")
    return found


def _open_to_all(option: str) -> ConfigurationError:
    return ConfigurationError(
        f"anybody can read a unit: put {URL_VARIABLE}=… in a file and name it with --env-file, instead of {option}"
    )


_whose_options = given(
    click.option("--name", callback=_read_name, metavar="NAME", help="The service's name.", default="standfast"),
    click.option(
        "--system/--user",
        default=None,
        help="Of the machine (the default for root), or of the user who installs it.",
    ),
)


def _is_of_the_system(system: bool | None) -> bool:
    return os.geteuid() == 0 if system is None else system


@click.group(
    epilog=examples(
        "standfast service install myproject.jobs:app",
        "standfast service install myproject.jobs:app --print",
        "standfast service status",
        "standfast service remove",
    )
)
@debug_option
def service() -> None:
    """Have systemd run an app from boot on."""


@service.command(
    epilog=examples(
        "standfast service install myproject.jobs:app",
        "standfast service install myproject.jobs:app --env-file /etc/shop.env -- --processes 4 --queues mail",
        "sudo standfast service install myproject.jobs:app --run-as shop --name shop-jobs",
        "standfast service install myproject.jobs:app --print > standfast.service",
    )
)
@click.argument("target", metavar="MODULE:APP", callback=check_target)
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS OF `up`]")
@_whose_options
@click.option(
    "--app-dir",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default=".",
    help="The folder it runs in, where MODULE is found.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    callback=_read_variables,
    metavar="NAME=VALUE",
    help="A variable for it, which is no secret: anybody can read a unit.",
)
@click.option(
    "--env-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Variables for it, one NAME=VALUE in a line: the place for secrets, which the unit is not.",
)
@click.option("--run-as", metavar="USER", help="The user it runs as; only with --system.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit, and do nothing.")
@click.option("--no-start", is_flag=True, help="Write the unit, and neither enable nor start it.")
@click.option(
    "--no-check",
    is_flag=True,
    help="Do not import the app. If it sets a grace, pass -- --grace SECONDS.",
)
@yes_option
@debug_option
def install(
    *,
    target: str,
    options: tuple[str, ...],
    name: str,
    system: bool | None,
    app_dir: Path,
    variables: tuple[tuple[str, str], ...],
    env_file: Path | None,
    run_as: str | None,
    only_print: bool,
    no_start: bool,
    no_check: bool,
    yes: bool,
) -> None:
    """Write a unit for an app, enable it and start it.

    Options after -- are for `standfast up`. The app is imported first, in a process of its own and with the
    variables that the service will have; its grace decides how long systemd waits at a stop.
    """
    of_system = _is_of_the_system(system)
    if run_as is not None and not of_system:
        raise wrong_usage("--run-as is for services of the machine; add --system")
    read = _read_up(target, options)
    grace: float | None = read["grace"]
    wanted = Service(
        name=name,
        target=target,
        command=[str(_program()), "up", target, *options],
        folder=app_dir,
        system=of_system,
        grace=Settings().grace if grace is None else grace,
        user=run_as,
        variables=variables,
        environment_file=env_file,
        subgroups=(version_of_systemd() or 0) >= KNOWS_SUBGROUPS,
    )
    if not no_check:
        try:
            found = grace_of_app(wanted, read["app_dir"])
        except ConfigurationError as error:
            if not only_print:
                raise
            click.echo(f"{error}. TimeoutStopSec allows for a grace of {wanted.grace:g} s.", err=True)
        else:
            wanted = wanted if grace is not None else replace(wanted, grace=found)
    if only_print:
        click.echo(wanted.text(), nl=False)
        return
    _install(wanted, start=not no_start, yes=yes)


def _read_up(target: str, options: Sequence[str]) -> Mapping[str, Any]:
    """Return the options as `up` reads them, and refuse what it would refuse."""
    read = up.make_context("up", [target, *options]).params
    if read["url"] is not None:
        raise _open_to_all("--url")
    return read


def _program() -> Path:
    program = Path(sys.executable).with_name("standfast")
    if not program.exists():
        raise ConfigurationError(f"there is no {program}: install Standfast into the environment that runs this")
    return program


def _install(wanted: Service, *, start: bool, yes: bool) -> None:
    systemctl = Systemctl(system=wanted.system)
    file, text = wanted.file, wanted.text()
    before = file.read_text() if file.exists() else None
    if before is not None and MARK not in before:
        raise StandfastError(f"{file} was not written by this command: choose another --name, or remove it first")
    if before not in (None, text) and not yes:
        confirm(f"{file} is there already, and differs. Write it anew?")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    systemctl.do("daemon-reload")
    say(f"Wrote {file}.")
    if os.environ.get(URL_VARIABLE) and wanted.environment_file is None:
        say(f"{URL_VARIABLE} is set here, and will not be for the service: put it in a file, and add --env-file.")
    if start:
        systemctl.do("enable", wanted.name)
        systemctl.do("restart", wanted.name)
        say(f"It runs, and starts at boot. See `standfast service status --name {wanted.name}`.")
    if not wanted.system:
        say(f"So that it runs while you are not logged in: `loginctl enable-linger {getpass.getuser()}`.")


@service.command(epilog=examples("standfast service status", "standfast service status --name shop-jobs --json"))
@_whose_options
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@debug_option
def status(*, name: str, system: bool | None, as_json: bool) -> None:
    """Tell how a service is. Exit code 1 unless it runs."""
    found = Systemctl(system=_is_of_the_system(system)).show(name, *_SHOWN)
    runs = found.get("ActiveState") == "active"
    if as_json:
        say_json(
            {
                "name": name,
                "active": runs,
                "state": found.get("ActiveState", "unknown"),
                "status": found.get("StatusText", ""),
                "pid": int(found.get("MainPID") or 0),
                "restarts": int(found.get("NRestarts") or 0),
                "at_boot": found.get("UnitFileState") == "enabled",
            }
        )
    else:
        say_fields(
            {
                "service": name,
                "state": f"{found.get('ActiveState', 'unknown')} ({found.get('SubState', 'unknown')})",
                "status": found.get("StatusText") or None,
                "pid": found.get("MainPID") if runs else None,
                "since": found.get("ExecMainStartTimestamp") or None,
                "restarts": found.get("NRestarts"),
                "at boot": "yes" if found.get("UnitFileState") == "enabled" else "no",
            }
        )
    if not runs:
        if not as_json:
            say_failed(f"{name} does not run; `journalctl -u {name}` tells more")
        raise click.exceptions.Exit(ExitCode.FAILED)


@service.command(epilog=examples("standfast service remove", "standfast service remove --name shop-jobs --yes"))
@_whose_options
@yes_option
@debug_option
def remove(*, name: str, system: bool | None, yes: bool) -> None:
    """Stop a service, and remove its unit. Jobs stay in their store."""
    of_system = _is_of_the_system(system)
    file = Service(name, "", (), Path(), of_system, 0.0).file
    if not file.exists() or MARK not in file.read_text():
        raise StandfastError(
            f"there is no {file} of ours: see `systemctl list-units '*standfast*'`, and give --name"
        )
    systemctl = Systemctl(system=of_system)
    if not yes:
        confirm(f"Stop {name}, and remove {file}?")
    systemctl.do("disable", "--now", name)
    file.unlink()
    systemctl.do("daemon-reload")
    say(f"Removed {name}. Its jobs are where they were.")
