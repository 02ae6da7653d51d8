"""Shows on stderr how far long work is, on a terminal only. Bars are loaded when one is drawn: few commands do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from standfast.words import one_line


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
