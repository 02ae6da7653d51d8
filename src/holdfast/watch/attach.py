"""Attaches the console to a process's events."""

from rich.console import Console

from holdfast.events import Events
from holdfast.watch.console import ConsoleSubscriber
from holdfast.watch.lines import LineWriter


def attach_console(events: Events) -> LineWriter:
    """Tell every event on standard error, one line each; flush what this returns before the process ends."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    writer = LineWriter(console.file)
    events.subscribe(ConsoleSubscriber(console, writer.write))
    return writer
