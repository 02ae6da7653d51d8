"""What workers inside the processes of one web server have counted, for whichever of them is asked.

It is read for each who asks and never kept for the next: another process may have told more in between, and what
was read before that would go back.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from standfast.metrics.families import Sample
from standfast.metrics.shared import SharedFolder
from standfast.metrics.totals import samples_of
from standfast.settings import Settings
from standfast.store.asked import Asked

log = logging.getLogger(__name__)


class CountedHere:
    """The counters of the folder that the settings of an app name; none where they name none."""

    def __init__(self, app: Asked) -> None:
        settings = getattr(app, "settings", None)
        named = settings.metrics_dir if isinstance(settings, Settings) else None
        self._folder = None if named is None else SharedFolder(Path(named))
        self._problem: str | None = None

    def samples(self) -> Sequence[Sample]:
        """Return all that was counted up to now; nothing where not all can be read, as less would go back."""
        if self._folder is None:
            return ()
        try:
            samples, problem = tuple(samples_of(self._folder.sums())), None
        except OSError as error:
            samples, problem = (), str(error)
        if problem is not None and self._problem is None:
            log.warning("health: what workers have counted cannot be read: %s", problem)
        self._problem = problem
        return samples
