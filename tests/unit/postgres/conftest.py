"""An engine in a schema of its own."""

import pytest
from pg_world import World


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
