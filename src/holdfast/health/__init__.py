"""Health over HTTP: does this process answer, may it be sent work, how are the jobs. Guarded, and never costly."""

from holdfast.health.guard import LOOPBACK
from holdfast.health.health import Health
from holdfast.health.report import Report

__all__ = ["LOOPBACK", "Health", "Report"]
