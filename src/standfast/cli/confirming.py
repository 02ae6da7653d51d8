"""Asking a person before something that cannot be undone, and who that is."""

import getpass
import os

import click

from standfast.cli.failures import ExitCode, say_failed, wrong_usage


def confirm(question: str) -> None:
    """Ask on stderr; end with exit code 1 unless the answer is yes. Nobody there is wrong usage."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as aborted:
        if isinstance(aborted.__context__, KeyboardInterrupt):
            raise
        raise wrong_usage("nobody is there to confirm; add --yes") from aborted
    if not agreed:
        say_failed("nothing was done")
        raise click.exceptions.Exit(ExitCode.FAILED)


def person() -> str:
    """Return who runs this command: a name, or a number where the user of a container has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
