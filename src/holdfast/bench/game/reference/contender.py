"""A reference strategy as one who plays: its jobs are in a table of its own, in a SQLite file."""

import asyncio
import sys
from collections.abc import Sequence

from holdfast.bench.game.contender import Due, Launch
from holdfast.bench.game.evidence import Played
from holdfast.bench.game.place import Place
from holdfast.bench.game.reference.table import Table, read_table


class Reference:
    """One of `strategies.STRATEGIES`."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self._place = place
        self._path = place.folder / "table.db"
        self._table = Table(self._path)

    async def create(self, jobs: Sequence[Due]) -> None:
        """Put jobs into the table."""
        await asyncio.to_thread(self._table.create, jobs)

    def launch(self, instance: str) -> Launch:
        """Return the program of an instance."""
        calls = str(self._place.calls(instance))
        return Launch(
            (sys.executable, "-m", "holdfast.bench.game.reference", self.name, str(self._path), calls),
            self._place.environment(instance),
        )

    async def played(self) -> list[Played]:
        """Return all jobs."""
        return await asyncio.to_thread(read_table, self._path)

    def close(self) -> None:
        """Let go of the table."""
        self._table.close()
