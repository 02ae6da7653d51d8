"""How a command fails: one readable line on stderr, an exit code that means something, a traceback on demand."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import click

from standfast.errors import ConfigurationError, StandfastError, StoreError
from standfast.model.display import one_line
from standfast.model.suggestions import closest_name

DEBUG = "standfast.debug"
"""The key, among what a context shares with its children, under which --debug is remembered."""


_OTHER_COMMANDS = {
    "retry": ("dead retry", "jobs retry"),
    "requeue": ("dead retry", "jobs retry"),
    "cancel": ("jobs cancel",),
    "list": ("jobs list",),
    "run": ("worker", "up"),
    "start": ("worker", "up"),
    "web": ("dashboard",),
    "delete": ("dead discard", "jobs cancel"),
    "purge": ("dead discard", "jobs cancel"),
    "init": ("migrate",),
}
"""What is called so elsewhere, and how here."""

_NO_COMMANDS = {
    "beat": "Schedules need no process of their own: `standfast worker` enqueues their jobs.",
    "logs": "Workers write their log to stderr; `standfast jobs show` has the error of a job.",
}

_SLIP = 0.7
"""From which likeness on, of 1, an option is a slip of another; dashes do not count."""


class ExitCode(IntEnum):
    """What a command's exit code says; the help of `standfast` lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STORE = 3
    INTERRUPTED = 130


@contextmanager
def report_failures(memory: dict[str, Any]) -> Iterator[None]:
    """Turn whatever goes wrong inside into one line on stderr and an exit code."""
    try:
        yield
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        raise
    except (Exception, KeyboardInterrupt) as raised:  # noqa: BLE001 - everything is told
        error = _alone(raised)
        if memory.get(DEBUG):
            click.echo("".join(traceback.format_exception(error)).rstrip(), err=True)
        say_failed(_sentence(error))
        raise click.exceptions.Exit(exit_code(error)) from error


def _alone(error: BaseException) -> BaseException:
    """Return what a group of one holds: the group itself says nothing to people."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def say_failed(sentence: str) -> None:
    """Write the one line."""
    click.echo(f"standfast: {one_line(sentence)}", err=True)


def wrong_usage(words: str) -> click.UsageError:
    """Return an error that tells where the help is of the command that runs."""
    return click.UsageError(words, click.get_current_context())


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    if _interrupted(error):
        return ExitCode.INTERRUPTED
    from standfast.admin.operation import WrongRequestError  # noqa: PLC0415 - only a command that fails needs it

    if isinstance(error, click.UsageError | ConfigurationError | WrongRequestError):
        return ExitCode.USAGE
    return ExitCode.STORE if isinstance(error, StoreError) else ExitCode.FAILED


def _sentence(error: BaseException) -> str:
    if _interrupted(error):
        return "interrupted"
    if isinstance(error, click.UsageError):
        help_of = error.ctx.command_path if error.ctx else "standfast"
        if isinstance(error, click.NoSuchOption):
            words = _no_such_option(error)
        else:
            words = _no_such_command(error) or error.format_message()
        return f"{words} (see `{help_of} --help`)"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, StandfastError):
        return str(error) or type(error).__name__
    if isinstance(error, OSError):
        return str(error)
    return f"internal error: {type(error).__name__}: {error}; please report it with the output of --debug"


def _no_such_option(error: click.NoSuchOption) -> str:
    """Return what is wrong, with the option that was meant; click's own guess goes by dashes and little else."""
    known = {option.lstrip("-"): option for option in error.possibilities or ()}
    meant = closest_name(error.option_name.lstrip("-"), known, _SLIP)
    return error.message if meant is None else f"{error.message} Did you mean '{known[meant]}'?"


def _no_such_command(error: click.UsageError) -> str | None:
    """Return what to say of a command that is not there: `restore`, which replaces the store, is never guessed."""
    found = re.fullmatch(r"No such command '(.*)'\.", error.message, re.DOTALL)
    if found is None or error.ctx is None or not isinstance(error.ctx.command, click.Group):
        return None
    name, group = found[1], error.ctx.command_path.partition(" ")[2]
    meant = [path for path in _OTHER_COMMANDS.get(name, ()) if path.startswith(group)]
    if not meant:
        known = [each for each in error.ctx.command.list_commands(error.ctx) if each != "restore"]
        meant = [f"{group} {each}".strip()] if (each := closest_name(name, known, _SLIP)) else []
    way = " or ".join(f"`standfast {path}`" for path in meant)
    told = f"Did you mean {way}?" if way else ""
    return f"{error.message} {_NO_COMMANDS.get(name, told)}".rstrip()


def _interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C is behind the error: a click prompt hides it in an Abort."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, click.Abort) and isinstance(error.__context__, KeyboardInterrupt)
    )
