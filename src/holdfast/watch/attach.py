"""Attaches the console to a process's events."""

from rich.console import Console

from holdfast.events import Events
from holdfast.watch.console import ConsoleSubscriber


def attach_console(events: Events) -> None:
    """Tell every event on standard error, one line each."""
    events.subscribe(ConsoleSubscriber(Console(stderr=True, highlight=False, soft_wrap=True)))
