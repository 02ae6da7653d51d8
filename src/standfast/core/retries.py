"""How often a step is tried in one run, and with which waits."""

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from standfast.core.backoff import Backoff, Exponential
from standfast.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Retries:
    """At most `attempts` tries, with waits as `backoff` says; with `on`, after such exceptions only."""

    attempts: int = 3
    backoff: Backoff = field(default_factory=Exponential)
    on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise ConfigurationError(f"attempts must be an integer, 1 (no retries) or more, not {self.attempts!r}")
        if isinstance(self.backoff, type) or not callable(getattr(self.backoff, "delay", None)):
            raise ConfigurationError(f"backoff must be such as Exponential(base=1), not {self.backoff!r}")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(each, type) and issubclass(each, Exception) for each in kinds):
            raise ConfigurationError(f"on must be an exception type or a tuple of them, not {self.on!r}")

    def wait_after(self, tries: int, error: Exception, random: Random) -> timedelta | None:
        """Return how long to wait after so many tries, the last of which raised this; None to give up."""
        if tries >= self.attempts or not isinstance(error, self.on):
            return None
        return max(self.backoff.delay(tries, random), timedelta())


ONCE = Retries(attempts=1)
"""No second try."""
