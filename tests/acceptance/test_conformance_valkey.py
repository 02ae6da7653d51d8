"""The store keeps every promise on Valkey, which counts as Redis."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import PROVE
from shopfloor import run

from conformance import Harness, StoreConformance
from conformance.claiming import Claiming
from conformance.driving import Driving
from conformance.fencing import Fencing
from conformance.keys import Keys
from conformance.leasing import Burying
from harnesses import AgreeingOnce, open_harness
from servers import ValkeyServer
from standfast.model.clock import Clock
from standfast.model.states import State
from standfast.stores.backend import Backend
from standfast.stores.redis.store import RedisBackend

# The short form: the largest scripts, and what a server decides by itself.
CHAPTERS = StoreConformance.__bases__ if PROVE else (Fencing, Claiming, Burying, Keys, Driving, AgreeingOnce)


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def valkey_url(valkey: ValkeyServer) -> str:
    """Give the URL of an empty database."""
    with valkey.connect() as own:
        own.flushall()
    return valkey.url().replace("redis://", "valkey://")


def open_valkey(request: pytest.FixtureRequest, _: Path, clock: Clock) -> Backend:
    return RedisBackend(request.getfixturevalue("valkey_url"), clock=clock)


class TestOnValkey(*CHAPTERS):  # type: ignore[misc]
    @pytest.fixture
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        with open_harness("valkey", open_valkey, request, tmp_path) as harness:
            yield harness


def test_workers_and_doctor_on_valkey(fleet_on, valkey_url):
    """Real workers are woken there, and doctor says which server it is."""
    fleet = fleet_on(valkey_url)
    fleet.start_workers(2, safety_poll=600)
    for _ in range(20):
        fleet.app.handle(fleet.enqueue("nap", seconds=0)).result(timeout=60)
    assert fleet.count(State.COMPLETED) == 20
    told = json.loads(run("doctor", "--json", "--url", valkey_url).stdout)
    assert next(each["says"] for each in told["checks"] if each["check"] == "redis").startswith("Valkey ")
