"""A strategy over the table as one who plays: its jobs are in a table of its own, in a SQLite file."""

import asyncio
import os
import sys
from collections.abc import Sequence

from game.contender import Due, Launch
from game.evidence import Played
from game.place import Place
from game.playing import Game
from game.reference.table import Table, read_table


class Reference:
    """One of `strategies.STRATEGIES`, or a contestant's MODULE:CLASS."""

    def __init__(self, name: str, place: Place, game: Game) -> None:
        self.name = name
        self._place = place
        self._game = game
        self._path = place.folder / "table.db"
        self._table = Table(self._path)

    async def create(self, jobs: Sequence[Due]) -> None:
        """Put jobs into the table."""
        await asyncio.to_thread(self._table.create, jobs)

    def launch(self, instance: str) -> Launch:
        """Return the program of an instance."""
        game = str(self._game.period), str(self._game.instances)
        words = self.name, str(self._path), str(self._place.calls(instance)), *game
        modules = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100 - "" is this folder
        return Launch(
            (sys.executable, "-m", "game.reference", *words),
            {**self._place.environment(instance), "PYTHONPATH": modules},
        )

    async def played(self) -> list[Played]:
        """Return all jobs."""
        return await asyncio.to_thread(read_table, self._path)

    def close(self) -> None:
        """Let go of the table."""
        self._table.close()
