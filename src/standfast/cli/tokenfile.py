"""A token that a command is given in a file: on the command line everybody on the machine could read it."""

import os
from pathlib import Path

import click

from standfast.dashboard.access.private_file import refuse_open
from standfast.errors import ConfigurationError

_LONGEST = 4096


def read_token(_ctx: click.Context, parameter: click.Parameter, file: str | None) -> str | None:
    """Return what is in the file, without the line's end. No error repeats it.

    A file that others may read is refused, as that of a dashboard is.
    """
    if file is None:
        return None
    try:
        with Path(file).open("rb") as opened:
            refuse_open(Path(file), os.fstat(opened.fileno()))
            token = opened.read(_LONGEST + 1).strip().decode("ascii")
    except OSError as error:
        raise ConfigurationError(f"{parameter.opts[0]}: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > _LONGEST or any(not "!" <= letter <= "~" for letter in token):
        raise ConfigurationError(f"{parameter.opts[0]}: {file} must hold one token: a line of ASCII without spaces")
    return token


token_file_option = click.option(
    "--token-file",
    "token",
    metavar="FILE",
    callback=read_token,
    help="A file with the token, sent as `Authorization: Bearer …`.",
)
