"""Engines and stores, in a schema of their own or an emptied one."""

from contextlib import closing

import pytest
from pg_underway import Crossing
from pg_world import World

from conformance import Harness
from standfast.stores.postgres.store import PostgresBackend
from standfast.testing import FakeClock


@pytest.fixture
def make_world():
    """Give a maker of worlds, all closed in the end."""
    made = []

    def make(url, **how):
        made.append(World(url, **how))
        return made[-1]

    yield make
    for world in made:
        world.engine.close()


@pytest.fixture
def world(make_world, postgres_url):
    return make_world(postgres_url)


@pytest.fixture
def harness(emptied_url):
    clock = FakeClock()
    with closing(PostgresBackend(emptied_url, clock=clock)) as backend:
        yield Harness(backend, clock)


@pytest.fixture
def crossing(emptied_url):
    with closing(Crossing(emptied_url)) as crossing:
        yield crossing
