"""How old a sign of life is. Pure; times are microseconds of the boot clock, which suspend does not stop."""

from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """Return which boot of the machine this is, or '' where the system does not say."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's lease and its last sign of life, as `leases` selects them.

    Its queues (JSON) and its last poll (microseconds since 1970) decide about its turn.
    """

    worker: str
    lease: int
    beat_at: int
    boot_id: str
    condemned: int
    queues: str | None = None
    polled_at: int | None = None

    def age(self, boot_at: int, boot_id: str) -> int:
        """Return the time since the sign; one of another boot is as old as this boot, and never fresh."""
        if boot_id != self.boot_id:
            return max(boot_at, self.lease + 1)
        return boot_at - self.beat_at

    def left(self, boot_at: int) -> int:
        """Return how long a lease that is not over still lasts."""
        return self.lease - (boot_at - self.beat_at)

    def is_over(self, boot_at: int, boot_id: str) -> bool:
        """Tell whether the lease has run out, or the worker is condemned already."""
        return bool(self.condemned) or self.age(boot_at, boot_id) > self.lease
