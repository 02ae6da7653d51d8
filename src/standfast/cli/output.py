"""All that commands print: JSON for programs, tables for people.

On a terminal a table fits its width: long texts are cut, ids are shortened to the end that every command takes for
them, and only then less important columns are left out. In a pipe there is no width: every column is there, one row
is one line, and no colour.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

import click
import msgspec
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from standfast.cli.connection import StoreOptions
from standfast.model.display import legible, one_line
from standfast.model.phrases import in_english
from standfast.model.states import State

R = TypeVar("R")

_NO_WIDTH = 10_000
_LONGEST_CELL = 300
_SHRUNK_TO = 8
"""So wide is a column that shrinks at least."""
_SHRUNK_FAIRLY = 12
"""So wide it is before cells are shortened."""
_GAP = 2

STYLES: Mapping[State, str] = MappingProxyType(
    {
        State.SCHEDULED: "blue",
        State.READY: "cyan",
        State.BLOCKED: "yellow",
        State.HELD: "magenta",
        State.RUNNING: "bold cyan",
        State.COMPLETED: "green",
        State.DEAD: "bold red",
        State.CANCELLED: "dim",
    }
)


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column of a table, shown from a terminal width on.

    One that `shrinks` gives way where the columns do not fit: its cells go on in further lines or, if `cut` made
    them, end in an ellipsis. Where that is not enough, cells that have a `short` form take it. Where they still do
    not fit, empty columns are left out, then the others from the right, the first column never, and those that are
    more `vital` last.
    """

    header: str
    cell: Callable[[R], str | Text]
    short: Callable[[R], str | Text] | None = None
    from_width: int = 0
    below_width: int = _NO_WIDTH + 1
    shrinks: bool = False
    vital: int = 0
    justify: Literal["left", "right"] = "left"


def say(sentence: str | Text) -> None:
    """Print a sentence, broken between words where the terminal is too narrow."""
    _console().print(sentence)


def say_json(value: Any) -> None:
    """Print a value as indented JSON, phrases in English."""
    encoded = msgspec.json.format(msgspec.json.encode(value, enc_hook=in_english), indent=2)
    click.echo(encoded.decode(errors="replace"))


def answer(wanted: StoreOptions, value: Any, *sentences: str | Text | None) -> None:
    """Print a value as JSON for a program, or sentences for a person; what is None or empty is left out."""
    if wanted.as_json:
        say_json(value)
    else:
        for sentence in sentences:
            if sentence:
                say(sentence)


def say_list(wanted: StoreOptions, rows: Sequence[R], columns: Sequence[Column[R]], nothing: str) -> None:
    """Print rows as JSON for a program, or as a table for a person, or that there is `nothing`."""
    if wanted.as_json:
        say_json(rows)
    elif rows:
        say_table(rows, columns)
    else:
        say(nothing)


def say_table(rows: Sequence[R], columns: Sequence[Column[R]], indent: int = 0) -> None:
    """Print rows as a table."""
    console = _console()
    asked = [column for column in columns if column.from_width <= console.width < column.below_width]
    shown = _fitting(rows, asked, console.width - indent)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for column, _ in shown:
        table.add_column(column.header, justify=column.justify, no_wrap=not column.shrinks, overflow="ellipsis")
    for row in zip(*(cells for _, cells in shown), strict=True):
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, indent), expand=False))


Filled = tuple[Column[R], list[Text]]
"""A column with its cells."""


def _fitting(rows: Sequence[R], columns: Sequence[Column[R]], room: int) -> Sequence[Filled[R]]:
    """Return the columns that there is room for."""
    full = [_fill(rows, column, column.cell) for column in columns]
    if _least_width(full, _SHRUNK_FAIRLY) <= room:
        return full
    shown = [_fill(rows, column, column.short or column.cell) for column in columns]
    expendable = sorted(shown[1:], key=_expendable)
    while len(shown) > 1 and _least_width(shown, _SHRUNK_TO) > room:
        shown.remove(expendable.pop())
    return shown


def _fill(rows: Sequence[R], column: Column[R], cell: Callable[[R], str | Text]) -> Filled[R]:
    return column, [_cell(cell(row)) for row in rows]


def _expendable(filled: Filled[R]) -> tuple[bool, int]:
    """Return how soon a column is left out, the greatest first; of equals the one to the right."""
    column, cells = filled
    return not any(cell.plain for cell in cells), -column.vital


def _least_width(shown: Sequence[Filled[R]], shortest: int) -> int:
    """Return what the columns need, if those that shrink do so to that width."""
    widths = [max(cell.cell_len for cell in (Text(column.header), *cells)) for column, cells in shown]
    shrunk_to = [shortest if column.shrinks else _NO_WIDTH for column, _ in shown]
    return sum(map(min, widths, shrunk_to)) + _GAP * (len(shown) - 1)


def say_fields(fields: Mapping[str, str | Text | None]) -> None:
    """Print names and values, one per line; what is None is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            grid.add_row(name, _cell(value))
    _console().print(Padding(grid, (0, 0, 0, 2), expand=False))


def say_heading(title: str) -> None:
    """Print the title of what follows."""
    _console().print(Text(f"\n{title}", style="bold"))


def say_block(text: str, style: str = "") -> None:
    """Print text of several lines as it is, indented; control characters are made visible."""
    safe = "\n".join(f"  {legible(line)}" for line in text.splitlines())
    _console().print(Text(safe, style=style), soft_wrap=True)


def coloured(state: State) -> Text:
    """Return a state in its colour."""
    return Text(state.value, style=STYLES[state])


def number(count: int, style: str = "") -> Text:
    """Return a count; a zero stays in the background."""
    return Text(f"{count:,}", style=style if count else "dim")


def cut(text: str, style: str = "") -> Text:
    """Return foreign text as a cell of one line, which ends in an ellipsis where its column shrinks."""
    return Text(one_line(text, _LONGEST_CELL), style=style, no_wrap=True, overflow="ellipsis")


def _cell(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(one_line(value))


def _console() -> Console:
    """Return the console of this moment's stdout: tests and pagers replace it."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _NO_WIDTH
    return console


# Shows on stderr how far long work is, on a terminal only. Bars are loaded when one is drawn: few commands do.


@contextmanager
def bulk_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while bulk work goes on, on a terminal; tell what it gives how much more is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn  # noqa: PLC0415 - see above

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def span_progress() -> Iterator[Callable[[str, str, float, float], None]]:
    """Show a bar on stderr for each of several things that take a known time, on a terminal only.

    Call what it gives with the name of one, a word on how it stands, how much of it is done, and how much there is.
    """
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - see above

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    bars: dict[str, TaskID] = {}
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, refresh_per_second=2, disable=hidden) as progress:

        def show(name: str, words: str, done: float, total: float) -> None:
            if name not in bars:
                bars[name] = progress.add_task("", total=total)
            progress.update(bars[name], completed=done, total=total, description=f"{name} {words}")

        yield show


@contextmanager
def wait_progress() -> Iterator[Callable[[str], None]]:
    """Show on stderr what is waited for, on a terminal only; call what it gives to change the words."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda words: status.update(Text(one_line(words)))
