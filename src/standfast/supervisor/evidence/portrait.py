"""The picture of a living child: where its threads and coroutines are, and what can be seen of it from outside."""

from standfast.supervisor.child import Child
from standfast.supervisor.evidence.gathering import gather

PICTURED_WITHIN = 0.5
"""Seconds for its event loop to answer; one that is blocked never does."""

STACKS_WITHIN = 1.5
"""Seconds for its stacks, whose own limit is shorter."""


async def take_portrait(child: Child) -> dict[str, str]:
    """Return texts by name, within seconds and whatever is wrong with it."""
    itself = {"stacks": child.process.stacks(), "coroutines": child.picture(PICTURED_WITHIN)}
    told = await gather(itself, STACKS_WITHIN)
    try:
        return {**told, **await child.process.seen_from_outside()}
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        return {**told, "process": f"(not known: {type(error).__name__}: {error})"}
