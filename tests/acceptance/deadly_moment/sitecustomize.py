"""Found first by the Python of a worker: whoever writes alerts down is killed right before that, or right after.

The folder that STANDFAST_TEST_MOMENT names has a file while the next one is to die: `before telling` or `after
telling` for who writes the board with jobs that tell people, `before filing` or `after filing` for who files what
they are told. Who dies takes the file, so that one dies of it. The kill is a real one, of the process that does it.
"""

import os
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from standfast.model.records import Change, Kind

BACKENDS = {
    "sqlite": ("sqlite", "SqliteBackend"),
    "postgresql": ("postgres", "PostgresBackend"),
    "redis": ("redis", "RedisBackend"),
}


class Moment:
    """The way to the store, on which one dies."""

    def __init__(self, folder: Path, backend: type) -> None:
        self._folder = folder
        self._arun = backend.arun

    async def arun(self, backend: Any, verb: Any) -> Any:
        doing = (
            {self._doing(change) for change in changes_of(verb.steps)} if verb.name == "change_records" else set()
        )
        for each in doing:
            self._die_of(f"before {each}")
        answer = await self._arun(backend, verb)
        for each in doing:
            self._die_of(f"after {each}")
        return answer

    def _doing(self, change: Change) -> str:
        if change.kind is Kind.BOARD and change.jobs:
            return "telling"
        return "filing" if change.kind is Kind.NOTICE else "something else"

    def _die_of(self, moment: str) -> None:
        with suppress(FileNotFoundError):
            (self._folder / moment).rename(self._folder / f"{moment}.{os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)


def changes_of(steps: Any) -> Iterator[Any]:
    """Yield what a verb that has not begun is to change, whoever has wrapped it."""
    for given in steps.args if isinstance(steps, partial) else steps.gi_frame.f_locals.values():
        if isinstance(given, Generator | partial):
            yield from changes_of(given)
        elif isinstance(given, list | tuple):
            yield from (each for each in given if isinstance(each, Change))


if "STANDFAST_TEST_MOMENT" in os.environ:
    store, name = BACKENDS[os.environ["STANDFAST_TEST_STORE"]]
    found = getattr(import_module(f"standfast.stores.{store}.store"), name)
    moment = Moment(Path(os.environ["STANDFAST_TEST_MOMENT"]), found)
    found.arun = lambda backend, verb: moment.arun(backend, verb)  # noqa: PLW0108 - it must bind as a method
