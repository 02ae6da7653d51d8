"""Options that several commands have, and how a command is given several of them."""

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


page_options = given(
    click.option("--limit", type=click.IntRange(min=1), default=50, help="At most so many."),
    click.option("--before", metavar="ID", help="Only jobs older than this one: the next page."),
)

tz_option = click.option(
    "--tz", metavar="ZONE", help="Read times without a zone by the clock of this one: Asia/Taipei."
)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
