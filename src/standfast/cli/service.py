"""`standfast service`: a systemd unit, written, checked and installed.

The systemd unit of a service, as text. Pure.
"""

import getpass
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from standfast.cli.connection import check_target, debug_option, examples, given, yes_option
from standfast.cli.exit_codes import ExitCode, say_failed, wrong_usage
from standfast.cli.inputs import confirm
from standfast.cli.output import say, say_fields, say_json
from standfast.cli.up import up
from standfast.errors import ConfigurationError, StandfastError
from standfast.model.configuration import Settings
from standfast.model.display import one_line
from standfast.settings import URL_VARIABLE

MARK = "# Written by `standfast service install`: what is changed here is lost with the next one."

_PLAIN = re.compile(r"[A-Za-z0-9_@:,./=+-]+")

_HARDENED = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0027"""

_HARDENED_SYSTEM = """\
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
CapabilityBoundingSet="""

KNOWS_SUBGROUPS = 254
"""The first systemd that knows DelegateSubgroup=; others warn of it at every start."""

LAST_WORDS = 15
"""Seconds beyond the grace before systemd ends what is left."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service: `command` runs the target in `folder`, for a user of its own where `user` names one.

    `system`: of the machine, not of the user who installs it. `grace` is how many seconds a stop may take.
    `subgroups`: whether systemd knows how to leave room for control groups beside that of the workers.
    """

    name: str
    target: str
    command: Sequence[str]
    folder: Path
    system: bool
    grace: float
    user: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    environment_file: Path | None = None
    watchdog: int = field(default=60)
    subgroups: bool = False

    @property
    def file(self) -> Path:
        """Where systemd looks for it."""
        home = Path("/etc/systemd/system") if self.system else Path.home() / ".config/systemd/user"
        return home / f"{self.name}.service"

    def text(self) -> str:
        """Return the unit."""
        lines = [
            MARK,
            "[Unit]",
            f"Description={_escaped(one_line(f'Standfast: jobs and schedules of {self.target}'))}",
            "Wants=network-online.target",
            "After=network-online.target",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStart={' '.join(map(_quoted, self.command))}",
            "ExecReload=/bin/kill -HUP $MAINPID",
            f"WorkingDirectory={_escaped(str(self.folder))}",
            *([f"User={self.user}"] if self.user else []),
            *(f"Environment={_assigned(name, value)}" for name, value in self.variables),
            *([f"EnvironmentFile={_escaped(str(self.environment_file))}"] if self.environment_file else []),
            "Restart=always",
            "RestartSec=2",
            f"WatchdogSec={self.watchdog}",
            "TimeoutStartSec=180",
            f"TimeoutStopSec={self.grace + LAST_WORDS:.0f}",
            "KillMode=mixed",
            "Delegate=memory",
            *(["DelegateSubgroup=worker"] if self.subgroups else []),
            _HARDENED,
            *([_HARDENED_SYSTEM] if self.system else []),
            "",
            "[Install]",
            f"WantedBy={'multi-user' if self.system else 'default'}.target",
        ]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text in which systemd finds none of its specifiers."""
    return text.replace("%", "%%")


def _assigned(name: str, value: str) -> str:
    """Return a variable as systemd reads it."""
    inside = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}={_escaped(inside)}"'


def _quoted(word: str) -> str:
    """Return a word of a command line as systemd reads it."""
    if _PLAIN.fullmatch(word):
        return word
    inside = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_escaped(inside)}"'


# Whether a service will find its app: looked at in a process of its own, as the service will see it.

WITHIN = 120.0
"""Seconds for an app to be imported."""

_LOOK = """
import sys
from standfast.hosts.loader import load_app
from standfast.errors import StandfastError
try:
    app = load_app(*sys.argv[1:])
    print("", app.settings.grace, sep="\\n")
except StandfastError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""

_KEPT = ("PATH", "LANG", "HOME", "USER", "LOGNAME", "SHELL", "XDG_RUNTIME_DIR")


def grace_of_app(wanted: Service, app_dir: str) -> float:
    """Import the app as the service will, and return its grace. Raises ConfigurationError if that fails."""
    try:
        looked = subprocess.run(  # noqa: S603 - our own command, and no shell
            [sys.executable, "-c", _LOOK, wanted.target, app_dir],
            cwd=wanted.folder,
            env=_environment(wanted),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WITHIN,
            check=False,
            **_identity(wanted.user),
        )
    except subprocess.TimeoutExpired:
        raise _refused(f"{wanted.target} could not be imported within {WITHIN:g} s") from None
    except OSError as error:
        raise _refused(f"{wanted.target} could not be looked at: {error}") from error
    if looked.returncode != 0:
        lines = looked.stderr.strip().splitlines()
        raise _refused(lines[-1] if lines else f"importing {wanted.target} ended with {looked.returncode}")
    return float(looked.stdout.splitlines()[-1])


def _refused(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the service would not start: {why}; it sees the variables of --env and --env-file and none of this"
        " shell's, and --no-check leaves this check out"
    )


def _environment(wanted: Service) -> dict[str, str]:
    """Return the variables that the service will have, as far as they are known here."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if wanted.user is not None:
        user = _user(wanted.user)
        kept |= {"HOME": user.pw_dir, "USER": wanted.user, "LOGNAME": wanted.user, "SHELL": user.pw_shell}
    kept |= dict(wanted.variables)
    return kept | ({} if wanted.environment_file is None else read_env_file(wanted.environment_file))


def read_env_file(file: Path) -> dict[str, str]:
    """Return the variables of a file, as systemd reads them: NAME=VALUE, maybe in quotes; # begins a comment."""
    found: dict[str, str] = {}
    for line in file.read_text().splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name and name[0] not in "#;":
            found[name.strip()] = _unquoted(value.strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] not in ("'", '"'):
        return value
    try:
        return "".join(shlex.split(value))
    except ValueError:
        return value


def _identity(name: str | None) -> dict[str, Any]:
    """Return what makes a process that of another user, where this one may do that: root imports no code for it."""
    if name is None or os.geteuid() != 0:
        return {}
    user = _user(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": os.getgrouplist(name, user.pw_gid)}


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise ConfigurationError(
            f"--run-as {name}: there is no such user; `useradd --system {name}` makes one"
        ) from None


# What is asked of systemd, by its own command.

ELSEWHERE = (
    "add --print to see the unit, for another machine; docs/howto/run-as-a-service.md says what to do elsewhere"
)


def version_of_systemd() -> int | None:
    """Return the version of the systemd that is installed here; None where that is not known."""
    found = shutil.which("systemctl")
    if found is None:
        return None
    try:
        asked = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=10)  # noqa: S603 - a fixed command
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.match(r"systemd (\d+)", asked.stdout)
    return None if said is None else int(said[1])


class Systemctl:
    """The manager of the machine's services, or of those of the user."""

    def __init__(self, *, system: bool) -> None:
        found = shutil.which("systemctl")
        if found is None:
            raise ConfigurationError(f"systemd does not run this machine: it has no systemctl; {ELSEWHERE}")
        self._command = [found] if system else [found, "--user"]
        if self._run("is-system-running").stdout.strip() in ("", "offline"):
            raise ConfigurationError(f"systemd is installed, and does not run this machine; {ELSEWHERE}")

    def do(self, *words: str) -> None:
        """Have something done. Raises StandfastError with what systemctl says where it cannot be."""
        done = self._run(*words)
        if done.returncode != 0:
            raise StandfastError(
                f"`systemctl {' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}"
            )

    def show(self, name: str, *properties: str) -> Mapping[str, str]:
        """Return what systemd knows of a unit."""
        done = self._run("show", name, "--property", ",".join(properties))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - a fixed command, and no shell
            [*self._command, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "SYSTEMD_PAGER": "", "LC_ALL": "C"},
        )


# `standfast service`: have systemd run the workers of an app, from boot on.

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
    "--no-check", is_flag=True, help="Do not import the app. If it sets a grace, pass -- --grace SECONDS."
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
