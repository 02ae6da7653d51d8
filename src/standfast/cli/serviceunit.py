"""The systemd unit of a service, as text. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from standfast.words import one_line

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
