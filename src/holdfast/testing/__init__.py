"""What tests need: a clock they own, and the suite that every store must pass."""

from holdfast.testing.clock import FakeClock

__all__ = ["FakeClock"]
