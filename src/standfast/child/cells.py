"""The processes for the isolated tasks of an app: an app without any has none, and loads nothing for them."""

from random import Random
from typing import TYPE_CHECKING

from standfast.app import Standfast
from standfast.clock import SystemClock
from standfast.policy import Isolation
from standfast.settings import Settings
from standfast.worker.messages import Channel, Configure

if TYPE_CHECKING:
    from standfast.worker.isolated.pool import CellPool


class CellKeeper:
    """Makes the pool of cells: at once for an app that has isolated tasks, else when a job of one turns up.

    They run in `folder`.
    """

    def __init__(
        self,
        app: Standfast,
        configure: Configure,
        settings: Settings,
        channel: Channel,
        random: Random,
        *,
        folder: str,
    ) -> None:
        self._configure = configure
        self._settings = settings
        self._channel = channel
        self._random = random
        self._folder = folder
        self._pool: CellPool | None = None
        if not configure.group and any(task.policy.isolation is Isolation.PROCESS for task in app.tasks.values()):
            self.pool()

    def pool(self) -> "CellPool":
        """Return the pool."""
        if self._pool is None:
            from standfast.worker.isolated.messages import Furnish  # noqa: PLC0415 - most apps never need it
            from standfast.worker.isolated.pool import CellPool  # noqa: PLC0415

            configure = self._configure
            furnish = Furnish(
                configure.worker,
                configure.target,
                configure.app_dir,
                self._settings,
                self._folder,
                configure.logs,
            )
            self._pool = CellPool(furnish, SystemClock(), self._random, self._channel.send)
        return self._pool

    async def close(self) -> None:
        """Let all cells go, if there are any."""
        if self._pool is not None:
            await self._pool.close()
