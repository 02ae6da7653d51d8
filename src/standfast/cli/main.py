"""The entry: the group of all commands, and the one place where their failures come out."""

import io
import sys
from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click

from standfast.cli.connection import debug_option
from standfast.cli.exit_codes import report_failures

_EPILOG = """\b
Examples:
  standfast up myproject.jobs:app
  standfast jobs list --state dead
  standfast why 3c2d1e0f
  standfast stats --url sqlite:////var/lib/shop/standfast.db --json

\b
Exit codes:
  0    done
  1    it could not be done: no such job or incident, or its state does not allow it
  2    wrong usage or configuration
  3    the store cannot be used: missing, locked, away, full or of another release
  130  interrupted
"""
_COMMANDS = (
    "up",
    "worker",
    "dashboard",
    "jobs",
    "dead",
    "queues",
    "tasks",
    "schedules",
    "workers",
    "locks",
    "incidents",
    "alerts",
    "stats",
    "objectives",
    "report",
    "why",
    "check",
    "health",
    "keepalive",
    "doctor",
    "migrate",
    "backup",
    "restore",
    "service",
)
"""In the order in which people need them."""

_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


_FILES = {
    "why": "job_views",
    "objectives": "stats",
    "migrate": "storage",
    "backup": "storage",
    "restore": "storage",
}
"""The files of commands that have none of their own."""


class _ByName(UserDict[str, click.Command]):
    """The commands. Each is loaded when it is asked for.

    To load all of them takes longer than most of them run.
    """

    def __contains__(self, name: object) -> bool:
        return name in _COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)

    def __missing__(self, name: str) -> click.Command:
        if name not in _COMMANDS:
            raise KeyError(name)
        self.data[name] = getattr(import_module(f"standfast.cli.{_FILES.get(name, name)}"), name)
        return self.data[name]


class _Commands(click.Group):
    """A group that tells failures in one line."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the group's own options."""
        with report_failures({}):
            return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands in the order in which people need them."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with report_failures(ctx.meta):
            return super().invoke(ctx)


@click.group(cls=_Commands, commands=_ByName(), epilog=_EPILOG, context_settings=_SETTINGS)
@click.version_option(package_name="standfast", prog_name="standfast", message="%(prog)s %(version)s")
@debug_option
def cli() -> None:
    """Background jobs that stand fast: run workers, look at jobs, deal with what went wrong."""


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    cli(prog_name="standfast")
