"""What a supervisor is given: its plan, and its ports to the world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from standfast.clock import Clock
from standfast.events import Events
from standfast.figures.counting import Tally
from standfast.settings import Settings
from standfast.store.backend import Backend
from standfast.supervisor.child import Launcher
from standfast.supervisor.guard import Guard
from standfast.supervisor.premises import Survey
from standfast.supervisor.watching import FileWatch
from standfast.supervisor.witness import Witness
from standfast.worker.served import ServedQueues


@dataclass(frozen=True, slots=True)
class Ports:
    """What a supervisor needs from the world: real in `supervise`, virtual in the simulator."""

    launcher: Launcher
    open_backend: Callable[[Settings], Backend]
    clock: Clock
    random: Random
    events: Events
    witness: Witness | None = None
    """Who writes incidents; None where nobody does."""
    guard: Guard | None = None
    """Who ends the children should the supervisor be killed; None where nobody does."""
    watch: FileWatch | None = None
    """Who sees that the code of the app changes; None where nobody looks."""
    close_backend: Callable[[Backend], None] = lambda backend: backend.close()
    """Lets go of the store in the end."""
    memory: Callable[[Sequence[int]], Mapping[int, int]] = lambda _: {}
    """Tells the resident bytes of processes, as far as that costs next to nothing."""

    tally: Callable[[Clock], Tally] = Tally
    """Makes what counts how jobs end that no child has ended."""
    surveyor: Callable[[Settings], Survey] | None = None
    """Gives who looks at the server of the store and at disks; None where nobody does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the supervisor is to keep up."""

    processes: int = 1
    queues: ServedQueues | None = None
    drain: bool = False
    hang_limit: float = Settings().hang_limit
    """Seconds that a child may be silent, as long as none has told what the app sets."""

    @property
    def queue_names(self) -> tuple[str, ...] | None:
        """The queues that are served; None for every queue."""
        return None if self.queues is None else self.queues.names
