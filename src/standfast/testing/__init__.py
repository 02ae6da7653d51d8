"""What tests need: a kit for testing jobs, a clock they own, and the suite that every store must pass."""

from standfast.testing.clock import FakeClock
from standfast.testing.enqueued import Enqueued
from standfast.testing.faults import Fault
from standfast.testing.kit import StandfastKit
from standfast.testing.worker import Run

__all__ = ["Enqueued", "FakeClock", "Fault", "Run", "StandfastKit"]
