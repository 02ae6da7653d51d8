"""What every store must do, as tests, behind one entry point.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def harness(self) -> Harness: ...   # an empty store on a FakeClock

Nothing is skipped for anyone.
"""

from conformance.harness import Harness
from conformance.suite import StoreConformance

__all__ = ["Harness", "StoreConformance"]
