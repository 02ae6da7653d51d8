"""The store keeps every promise through PgBouncer in transaction mode, where no connection is anyone's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import PROVE

from conformance import Harness, StoreConformance
from conformance.claiming import Claiming
from conformance.driving import Driving
from conformance.keys import Keys
from conformance.leasing import Burying
from empty_stores import open_pgbouncer
from harnesses import AgreeingOnce, open_harness

# The short form: what a connection that changes hands might break.
CHAPTERS = StoreConformance.__bases__ if PROVE else (Claiming, Burying, Keys, Driving, AgreeingOnce)


class TestThroughPgBouncer(*CHAPTERS):  # type: ignore[misc]
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        with open_harness("postgres through pgbouncer", open_pgbouncer, request, tmp_path) as harness:
            yield harness
