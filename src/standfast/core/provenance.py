"""Where the metadata of a job tells which schedule it comes from, or through which channel it delivers. Pure."""

from collections.abc import Mapping
from datetime import datetime

SCHEDULE_KEY = "standfast.schedule"
"""Where the metadata of a job names the schedule that it comes from."""

PLANNED_KEY = "standfast.planned"
"""Where the metadata of a job tells the time for which it was planned."""

CHANNEL_KEY = "channel"
"""Where the metadata of a delivery names its channel."""

DELIVERY = "standfast.deliver"
"""The task of deliveries."""

DELIVERIES = "standfast.alerts"
"""The queue of deliveries."""


def channel_of(task: str, metadata: Mapping[str, str]) -> str | None:
    """Return the channel through which a job delivers a notice, if it does."""
    return metadata.get(CHANNEL_KEY) if task == DELIVERY else None


def schedule_of(metadata: Mapping[str, str]) -> str | None:
    """Return the schedule that a job comes from, if it comes from one."""
    return metadata.get(SCHEDULE_KEY)


def planned_of(metadata: Mapping[str, str]) -> datetime | None:
    """Return the time for which a schedule has planned a job; None as well where someone else wrote that in."""
    try:
        planned = datetime.fromisoformat(metadata[PLANNED_KEY])
    except (KeyError, ValueError):
        return None
    return None if planned.utcoffset() is None else planned


def without_provenance(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return what else was noted about a job."""
    return {name: value for name, value in metadata.items() if name not in {SCHEDULE_KEY, PLANNED_KEY}}
