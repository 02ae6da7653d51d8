"""Health over HTTP: does this process answer, may it be sent work, how are the jobs. Guarded, and never costly."""

from standfast.health.guard import LOOPBACK
from standfast.health.health import Health
from standfast.health.report import Report

__all__ = ["LOOPBACK", "Health", "Report"]
