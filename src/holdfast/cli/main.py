"""The entry: the group of all commands, and the one place where their failures come out."""

import io
import sys
from typing import Any

import click

from holdfast.cli.bench import bench
from holdfast.cli.check import check
from holdfast.cli.connection import debug_option
from holdfast.cli.dead import dead
from holdfast.cli.doctor import doctor
from holdfast.cli.failures import told_to_people
from holdfast.cli.incidents import incidents
from holdfast.cli.jobs import jobs
from holdfast.cli.migrate import migrate
from holdfast.cli.queues import queues
from holdfast.cli.schedules import schedules
from holdfast.cli.service import service
from holdfast.cli.stats import stats
from holdfast.cli.up import up
from holdfast.cli.why import why
from holdfast.cli.worker import worker
from holdfast.cli.workers import workers

_EPILOG = """\b
Examples:
  holdfast up myproject.jobs:app
  holdfast jobs list --state dead
  holdfast why 3c2d1e0f
  holdfast stats --url sqlite:////var/lib/shop/holdfast.db --json

\b
Exit codes:
  0    done
  1    it could not be done: no such job or incident, or its state does not allow it
  2    wrong usage or configuration
  3    the store cannot be used: missing, locked, away, full or of another release
  130  interrupted
"""
_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


class _Commands(click.Group):
    """A group that tells failures in one line."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the group's own options."""
        with told_to_people({}):
            return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands in the order in which people need them."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with told_to_people(ctx.meta):
            return super().invoke(ctx)


@click.group(cls=_Commands, epilog=_EPILOG, context_settings=_SETTINGS)
@click.version_option(package_name="holdfast", prog_name="holdfast", message="%(prog)s %(version)s")
@debug_option
def cli() -> None:
    """Background jobs that hold fast: run workers, look at jobs, deal with what went wrong."""


for _command in (
    up,
    worker,
    jobs,
    dead,
    queues,
    schedules,
    workers,
    incidents,
    stats,
    why,
    check,
    doctor,
    migrate,
    service,
    bench,
):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    cli(prog_name="holdfast")
