"""Whether a service will find its app: looked at in a process of its own, as the service will see it."""

import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from standfast.cli.serviceunit import Service
from standfast.errors import ConfigurationError

WITHIN = 120.0
"""Seconds for an app to be imported."""

_LOOK = """
import sys
from standfast.child.loading import load_app
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
