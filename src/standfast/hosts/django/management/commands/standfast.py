"""`manage.py standfast …`: the command line of Standfast with the project's own app and store."""

import os
import sys
from argparse import REMAINDER
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from django.conf import settings  # type: ignore[import-untyped]
from django.core.management.base import BaseCommand, CommandError, CommandParser  # type: ignore[import-untyped]

from standfast.cli.main import cli
from standfast.errors import ConfigurationError
from standfast.hosts.django.configuration import TARGET, app_of, configured

_SETTINGS = "DJANGO_SETTINGS_MODULE"


class Command(BaseCommand):  # type: ignore[misc]
    """Passes everything on; only what names the app or the store is filled in."""

    help = "The command line of Standfast: `manage.py standfast worker`, `manage.py standfast jobs list` and so on."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run what was typed. Django's own options are read by Django before, and left out here."""
        own = CommandParser(add_help=False, allow_abbrev=False)
        own.add_argument("--settings")
        own.add_argument("--pythonpath")
        _, words = own.parse_known_args(argv[2:])
        try:
            self.handle(*words)
        except CommandError as error:
            self.stderr.write(str(error))
            sys.exit(error.returncode)

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whatever comes: for `call_command("standfast", "jobs", "list")`."""
        parser.add_argument("args", nargs=REMAINDER, help="see `manage.py standfast --help`")

    def handle(self, *words: str, **_options: Any) -> None:
        """Run a command of Standfast; ends by SystemExit with its code."""
        try:
            cli(filled_in(words), prog_name="manage.py standfast")
        except ConfigurationError as error:
            raise CommandError(str(error), returncode=2) from error


def filled_in(words: Sequence[str]) -> list[str]:
    """Return the words with the app, for commands that take one; others find their store in the environment."""
    at, command = _command_in(words)
    if command is cli:
        return list(words)
    takes = {parameter.name: parameter for parameter in command.params}
    if isinstance(takes.get("target"), click.Argument):
        configured()  # what is wrong is said here, not by a child
        filled = [TARGET, "--app-dir", project_folder()]
        if "variables" in takes:  # of a service, which has none of this shell's
            filled += ["--env", f"{_SETTINGS}={_settings_module()}"]
        return [*words[: at + 1], *filled, *words[at + 1 :]]
    said = app_of(configured().target).settings
    os.environ["STANDFAST_URL"] = said.url
    if said.namespace is not None:
        os.environ["STANDFAST_NAMESPACE"] = said.namespace
    return list(words)


def _command_in(words: Sequence[str]) -> tuple[int, click.Command]:
    """Return the command that the words name, and which of them is the last of its name; groups have no values."""
    command: click.Command = cli
    last = -1
    for at, word in enumerate(words):
        if not word.startswith("-"):
            found = command.commands.get(word) if isinstance(command, click.Group) else None
            if found is None:
                break
            last, command = at, found
    return last, command


def _settings_module() -> str:
    return os.environ.get(_SETTINGS) or str(settings.SETTINGS_MODULE)


def project_folder() -> str:
    """Return the folder from which the settings are imported: worker processes have to look there, too."""
    name = _settings_module()
    file = Path(import_module(name).__file__ or "")
    package = file.parent if file.stem != "__init__" else file.parent.parent
    return str(package.parents[name.count(".") - 1] if "." in name else package)
