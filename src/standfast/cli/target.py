"""The app that a command is about: MODULE:APP, where MODULE is looked for, and the settings that count."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from standfast.cli.connection import Wanted
from standfast.settings import Loaded

if TYPE_CHECKING:  # most commands, and supervisors, start sooner without it
    from standfast.app import Standfast

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_target(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse what is not MODULE:APP before anything is imported."""
    if value is not None and not _TARGET.fullmatch(value):
        raise click.BadParameter(f"'{value}' is not MODULE:APP, as in `standfast worker myproject.jobs:app`")
    return value


app_dir_option = click.option(
    "--app-dir",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="Where MODULE is looked for first.",
)

target_argument = click.argument("target", metavar="[MODULE:APP]", required=False, callback=check_target)


@dataclass(frozen=True, slots=True)
class Meant:
    """What a command is about: settings with their origins; the app that they are of, if one is named; its name."""

    loaded: Loaded
    app: "Standfast | None"
    name: str


def find_meant(wanted: Wanted, target: str | None, app_dir: str) -> Meant:
    """Import the app, if one is named; the options of the command line go before its settings."""
    if target is None:
        return Meant(wanted.loaded, None, wanted.loaded.settings.name or "")
    from standfast.child.loading import load_app  # noqa: PLC0415 - only who names an app needs it

    app = load_app(target, app_dir)
    loaded = Loaded(app.settings, app.settings_from)
    return Meant(loaded.overridden(url=wanted.url, namespace=wanted.namespace), app, app.settings.name or target)
