"""Which queues and tasks are closed by a window, in plain words. Pure.

It goes by what workers have told the store about the windows that their code declares.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from standfast.core.job import Job
from standfast.phrases import Distance, Phrase
from standfast.schedule.closing import About, ClosedHours, Closing
from standfast.schedule.zones import find_zone
from standfast.words import one_line

Windows = Sequence[ClosedHours]


class Closed(NamedTuple):
    """What is closed, and by which closing."""

    hours: ClosedHours
    closing: Closing

    @property
    def what(self) -> Phrase:
        """What is closed, as in `queue 'mail'`."""
        return Phrase(f"closed.{self.hours.about}", name=self.hours.name)

    def until(self, now: datetime) -> Phrase:
        """Return until when it is closed by the clocks of its zone, and why."""
        end, window = self.closing.end, self.closing.window
        zone = find_zone(window.tz)
        there = end.astimezone(zone)
        time = f"{there:%H:%M:%S}" if there.second else f"{there:%H:%M}"
        day = "" if there.date() == now.astimezone(zone).date() else f"{there:%Y-%m-%d} "
        until = Phrase("closed.until", at=f"{day}{time}", zone=window.tz, distance=Distance(end, now))
        return Phrase("closed.because", until=until, reason=one_line(window.reason)) if window.reason else until


def queue_closed(windows: Windows, queue: str, moment: datetime) -> Closed | None:
    """Return what closes a queue at a moment, and longest, if anything does."""
    return _longest((each for each in windows if (each.about, each.name) == (About.QUEUE, queue)), moment)


def job_closed(windows: Windows, job: Job, moment: datetime) -> Closed | None:
    """Return what closes the queue or the task of a job at a moment, and longest, if anything does."""
    whose = {(About.QUEUE, job.queue), (About.TASK, job.task)}
    return _longest((each for each in windows if (each.about, each.name) in whose), moment)


def _longest(windows: Iterable[ClosedHours], moment: datetime) -> Closed | None:
    found = [Closed(hours, closing) for hours in windows if (closing := hours.closed_at(moment)) is not None]
    return max(found, key=lambda each: each.closing.end, default=None)
