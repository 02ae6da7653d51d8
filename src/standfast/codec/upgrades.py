"""How the arguments of an older payload become those of today, one version at a time."""

import inspect
from collections.abc import Callable
from typing import Any

from standfast.codec.secrets import Scrub
from standfast.errors import ConfigurationError, PayloadError

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the arguments of one version as plain JSON values and returns those of the next."""


class Upgrades:
    """The upgrades of one task. A step for which none is declared leaves the arguments as they are."""

    def __init__(self, task: str, version: int) -> None:
        self._task = task
        self._version = version
        self._steps: dict[int, Upgrade] = {}
        self._last = 0

    def declare(self, from_version: int, upgrade: Upgrade) -> None:
        """Remember an upgrade. Raises ConfigurationError where there is no such step, or it has one already."""
        if isinstance(from_version, bool) or not isinstance(from_version, int) or from_version < 1:
            raise ConfigurationError(
                f"an upgrade of {self._task} starts from a version, an integer from 1, not {from_version!r}"
            )
        if from_version >= self._version:
            raise ConfigurationError(
                f"{self._task} has version {self._version}, so there is nothing to upgrade from version"
                f" {from_version} to; raise the task's version, or correct the upgrade's"
            )
        if from_version in self._steps:
            raise ConfigurationError(
                f"{self._task} already has an upgrade from version {from_version}; keep one of them"
            )
        if not callable(upgrade) or inspect.iscoroutinefunction(upgrade):
            raise ConfigurationError(
                f"the upgrade of {self._task} from version {from_version} must be a plain function, not {upgrade!r}"
            )
        self._steps[from_version] = upgrade
        self._last = max(self._steps)

    def concern(self, version: int) -> bool:
        """Tell whether a payload of that version is changed by any of them."""
        return version <= self._last

    def apply(self, version: int, arguments: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
        """Return the arguments as those of the task's own version. Raises PayloadError where an upgrade fails."""
        for step in sorted(self._steps):
            if step >= version:
                arguments = self._apply_one(step, arguments, scrub)
        return arguments

    def _apply_one(self, step: int, arguments: dict[str, Any], scrub: Scrub) -> dict[str, Any]:
        where = f"the upgrade of {self._task} from version {step} to {step + 1}"
        raised: Exception | None = None
        try:
            upgraded = self._steps[step](arguments)
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            raised = error
        if raised is not None:
            # With secrets about, the error itself stays behind: a traceback would show what it says.
            said = scrub.text(f"{type(raised).__qualname__}: {raised}")
            raise PayloadError(f"{where} failed: {said}; correct it and retry the job") from (
                None if scrub else raised
            )
        if not isinstance(upgraded, dict) or not all(isinstance(name, str) for name in upgraded):
            raise PayloadError(
                f"{where} returned {type(upgraded).__qualname__}, not a dict of arguments by name;"
                " return the arguments, changed or new"
            )
        return upgraded
