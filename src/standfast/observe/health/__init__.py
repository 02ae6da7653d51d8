"""Health over HTTP: does this process answer, may it be sent work, how are the jobs. Guarded, and never costly."""

from standfast.observe.health.access import LOOPBACK
from standfast.observe.health.endpoints import Health
from standfast.observe.health.status import Report

__all__ = ["LOOPBACK", "Health", "Report"]
