"""`make run`: opens the example shop. A real worker does its jobs while you watch, here and on the dashboard.

Three jobs make a story. Meanwhile customers come and buy, as often as a schedule says so.

The database is new each time, in a temporary folder of its own. At a terminal the worker goes on until Ctrl-C; with
--once, or in a pipe, it ends when the story is told, and the folder stays for you to look at.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape

from standfast import Job, JobHandle, State
from standfast.stores.values import JobFilter

EXAMPLES = Path(__file__).resolve().parent
STANDFAST = Path(sys.executable).with_name("standfast")
LONGEST_STORY = 60.0
GLANCE = 0.1

console = Console(highlight=False, markup=True, emoji=False, soft_wrap=True)


def main() -> int:
    """Tell the story; return the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description="An example shop at work.")
    parser.add_argument("--once", action="store_true", help="end when the story is told, also at a terminal")
    parser.add_argument("--folder", type=Path, help="keep the database in this folder, which must be empty")
    options = parser.parse_args()
    watched = sys.stdin.isatty() and sys.stdout.isatty() and not options.once
    with _place(options.folder, kept=not watched) as folder:
        return Demo(folder, watched=watched).run()


@contextmanager
def _place(folder: Path | None, *, kept: bool) -> Iterator[Path]:
    """Give a folder for the database: the one asked for, or a temporary one.

    Who watched is done with it; else it stays, so that the commands at the end of the story work.
    """
    if folder is None and kept:
        folder = Path(tempfile.mkdtemp(prefix="standfast-shop-"))
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="standfast-shop-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"demo: {folder} is not empty; name a new folder, or leave --folder out")
    yield folder.resolve()


@dataclass(frozen=True, slots=True)
class Orders:
    """The three jobs of the story."""

    welcome: JobHandle[str]
    report: JobHandle[str]
    failing: JobHandle[str]

    def __iter__(self) -> Iterator[JobHandle[str]]:
        return iter((self.welcome, self.report, self.failing))


class Demo:
    """One run of the demo: the jobs, the worker, and what is said about them."""

    def __init__(self, folder: Path, *, watched: bool) -> None:
        self._url = f"sqlite:///{folder / 'shop.db'}"
        self._watched = watched
        self._stopping = False
        self._link = ""
        self._worker: subprocess.Popen[str]

    def run(self) -> int:
        """Enqueue, work, tell, and stop."""
        if not self._watched:
            say("[dim]It tells its story and ends. `make run` at a terminal goes on, with the dashboard.[/]\n")
        orders = self._enqueue()
        dashboard = (
            ", schedules and the dashboard" if self._watched else " and schedules, here without the dashboard"
        )
        say(f"\n[bold]Now `standfast up`:[/] workers{dashboard}, in one command.\n")
        with self._working():
            told = self._tell_story(orders)
            if told:
                self._tell_end(orders)
            if told and self._watched:
                self._worker.wait()
            else:
                self._stop(signal.SIGTERM)
        if not (told or self._stopping):
            say("\n[bold red]The story did not end as it should.[/]")
        return self._worker.returncode or (0 if told else 1)

    def _enqueue(self) -> Orders:
        os.environ["STANDFAST_URL"] = self._url
        from shop import monthly_report, send_mail  # noqa: PLC0415 - the app reads the URL when it is made

        say("[bold]A small shop, on SQLite, with nothing else to start.[/] It enqueues three jobs:\n")
        orders = Orders(
            send_mail.enqueue("ada@example.com", subject="Welcome"),
            monthly_report.options(delay=6, priority=1).enqueue("October"),
            send_mail.options(max_attempts=2).enqueue("fail@example.com", subject="Your order"),
        )
        say(f"  welcome mail     {ending(orders.welcome)}  runs at once")
        say(f"  monthly report   {ending(orders.report)}  in 6 s, before others (priority 1)")
        say(f"  another mail     {ending(orders.failing)}  to fail@example.com, with 2 attempts")
        say("\nSchedules are declared in its code, and nobody enqueues their jobs:\n")
        say("  serve_customers  every 2 seconds: they buy, orders are packed, now and then one fails")
        say("  count_stock      every 3 seconds")
        say("  index            all pages of the shop, each minute: a slow one, which says how far it is")
        say("  month-end        a monthly report, at 06:00 on the 1st, by the clock of Taipei")
        return orders

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Bring the app to life as anyone would; signals reach it through us alone, never from the terminal.

        Who watches has the dashboard for each step; else the worker tells them all, and there is no link to what
        is about to end.
        """
        command = [str(STANDFAST), "up", "shop:app", "--app-dir", str(EXAMPLES)]
        command += [] if self._watched else ["--verbose", "--no-dashboard"]
        self._worker = subprocess.Popen(  # noqa: S603 - our own command
            command, start_new_session=True, stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._pass_words_on, daemon=True).start()
        before = {number: signal.signal(number, self._pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            self._stop(signal.SIGTERM)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_words_on(self) -> None:
        """Say what `standfast up` prints; the link to the dashboard must not be overlooked."""
        for line in self._worker.stdout or ():
            if line.startswith("Open the dashboard: "):
                self._link = line.split()[3]
                say(f"\n  [bold reverse] Open the dashboard: [/] [bold]{escape(self._link)}[/]\n")
            else:
                say(escape(line.rstrip()))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        first, self._stopping = not self._stopping, True
        if first:
            say("\n[bold]Ctrl-C drains:[/] nothing new starts, what runs may finish. Once more stops at once.")
        if self._worker.poll() is None:
            self._worker.send_signal(number)

    def _stop(self, number: int) -> None:
        if self._worker.poll() is None and not self._stopping:
            self._worker.send_signal(number)
        self._worker.wait()

    def _tell_story(self, orders: Orders) -> bool:
        """Say what happens as it happens; return whether every job came to its end."""
        chapters = list(self._chapters(orders))
        give_up_at = time.monotonic() + LONGEST_STORY
        while chapters and time.monotonic() < give_up_at:
            if self._stopping or self._worker.poll() is not None:
                return False
            for chapter in [chapter for chapter in chapters if chapter.has_come()]:
                chapters.remove(chapter)
                say(f"    [italic dim]{chapter.words}[/]")
            time.sleep(GLANCE)
        return not chapters

    def _chapters(self, orders: Orders) -> "Iterator[Chapter]":
        welcome, report, failing = orders
        yield about(welcome, lambda job: job.state is State.COMPLETED, "The mail is sent, its result is stored.")
        yield about(failing, lambda job: job.attempt > 0, "That one failed. It waits a while, then tries again.")
        yield Chapter(stock_was_counted, "The schedule fired, on time. Any worker that is there does it.")
        yield about(
            report, lambda job: job.progress is not None, "The report began on time. It says how far it is."
        )
        yield about(
            failing,
            lambda job: job.state is State.DEAD,
            "No attempt is left: it is dead, and kept until you decide.",
        )
        yield about(report, lambda job: job.state is State.COMPLETED, "The report is ready.")

    def _tell_end(self, orders: Orders) -> None:
        say("\n[bold]Where everything is now[/] (standfast stats):\n")
        subprocess.run([STANDFAST, "stats"], check=False)  # noqa: S603 - our own command
        say("\n[bold]What runs when[/] (standfast schedules):\n")
        subprocess.run([STANDFAST, "schedules"], check=False)  # noqa: S603 - our own command
        say("\n[bold]Bring the dead one back[/]" + (" from another terminal:\n" if self._watched else ":\n"))
        say(f"  {command('dead', 'retry', orders.failing.id, '--url', self._url)}\n")
        say(f"Why it died:  {command('why', orders.failing.id, '--url', self._url)}")
        say(f"What is next: {command('schedules', 'next', '--url', self._url)}\n")
        if self._watched and self._link:
            say(f"[bold]Open the dashboard:[/] {escape(self._link)}")
            say("The link works once, for ten minutes; the page to sign in has a button for another one.\n")
        if self._watched:
            say("The worker goes on. [bold]Ctrl-C drains[/] and ends.\n")


@dataclass(frozen=True, slots=True)
class Chapter:
    """Something to say once it has come so far."""

    has_come: Callable[[], bool]
    words: str


def about(handle: JobHandle[str], reached: Callable[[Job], bool], words: str) -> Chapter:
    """Return what to say about a job once it has come so far."""

    def has_come() -> bool:
        job = handle.job()
        return reached(job) or job.state is State.COMPLETED

    return Chapter(has_come, words)


def stock_was_counted() -> bool:
    """Look whether a job of the schedule has run."""
    from shop import app  # noqa: PLC0415 - the app reads the URL when it is made

    return bool(app.call(app.verbs.list_jobs(JobFilter((State.COMPLETED,), task="count_stock", limit=1))))


def say(words: str) -> None:
    """Print a line of the narrator."""
    console.print(words)


def ending(handle: JobHandle[str]) -> str:
    """Return the end of a job's id, by which the worker's lines name it."""
    return f"[dim]{handle.id[-8:]}[/]"


def command(*words: str) -> str:
    """Return a standfast command as one would type it here."""
    here = Path.cwd()
    program = STANDFAST.relative_to(here) if STANDFAST.is_relative_to(here) else STANDFAST
    return shlex.join([str(program), *words])


if __name__ == "__main__":
    sys.exit(main())
