"""The store keeps every promise on a Redis Cluster of three masters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import PROVE

from conformance import Harness, StoreConformance
from conformance.claiming import Claiming
from conformance.driving import Driving
from conformance.keys import Keys
from conformance.leasing import Burying
from empty_stores import open_redis_cluster
from harnesses import AgreeingOnce, open_harness

# The short form: what keys on the wrong node might break.
CHAPTERS = StoreConformance.__bases__ if PROVE else (Claiming, Burying, Keys, Driving, AgreeingOnce)


class TestOnRedisCluster(*CHAPTERS):  # type: ignore[misc]
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        with open_harness("redis cluster", open_redis_cluster, request, tmp_path) as harness:
            yield harness
