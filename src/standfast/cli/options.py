"""Options that several commands have, how a command is given several of them, and the tail of its help."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def given(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Give a command options, which its help shows in this order."""

    def give(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def examples(*lines: str) -> str:
    """Return an epilog of examples that click leaves as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


page_options = given(
    click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many."),
    click.option("--before", metavar="ID", help="Only jobs older than this one: the next page."),
)

tz_option = click.option(
    "--tz", metavar="ZONE", help="Read times without a zone by the clock of this one: Asia/Taipei."
)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
