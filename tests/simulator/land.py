"""What stays as it is for as long as a world lasts: where its store is, and how quick its machines are."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random


@dataclass(frozen=True, slots=True)
class Land:
    """One kind of world. As it stands: a store on the workers' own machine, and processes that start at once.

    elsewhere: the store is on another machine, whose clock is `ahead` of ours and gains `drift` in a second; disk:
    seconds that the answer to a write takes at least; launch: seconds that a process takes to start, at most;
    recycle_age: seconds after which children are replaced, if they are.
    """

    elsewhere: bool = False
    ahead: timedelta = timedelta()
    drift: float = 0.0
    disk: float = 0.0
    launch: float = 0.0
    recycle_age: float | None = None


PLAIN = Land()


def draw_land(seed: int) -> Land:
    """Return the land of a seed. A stream of its own: what happens there is drawn from another."""
    random = Random(f"land {seed}")
    launch = random.choice((0.0, 0.1, 0.5, 2.0))
    recycle_age = Random(f"recycling {seed}").choice((None, None, 5.0, 20.0))
    if random.random() < 0.5:
        return Land(launch=launch, recycle_age=recycle_age)
    return Land(
        elsewhere=True,
        ahead=timedelta(seconds=random.choice((-0.7, 0.0, 0.3, 40.0, 300.0))),
        drift=random.uniform(-2e-5, 2e-5),
        disk=random.choice((0.0, 0.2)),
        launch=launch,
        recycle_age=recycle_age,
    )
