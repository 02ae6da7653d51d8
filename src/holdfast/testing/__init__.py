"""What tests need: a kit for testing jobs, a clock they own, and the suite that every store must pass."""

from holdfast.testing.clock import FakeClock
from holdfast.testing.enqueued import Enqueued
from holdfast.testing.faults import Fault
from holdfast.testing.kit import HoldfastKit
from holdfast.testing.runner import Run

__all__ = ["Enqueued", "FakeClock", "Fault", "HoldfastKit", "Run"]
