"""Fixtures that acceptance tests share."""

import signal

import pytest
from fleet import PROVE, Fleet
from shopfloor import Shop


def pytest_collection_modifyitems(config, items):
    """Leave out what has no short form, a `make test` within `make test` above all, unless it is to be proved."""
    left_out = [item for item in items if item.get_closest_marker("full_size") and not PROVE]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def fleet_on(tmp_path):
    """Give a maker of empty fleets, each on the store that a URL names.

    Afterwards every process is gone, and none has said that it met a bug.
    """
    fleets = []

    def make(url=None):
        folder = tmp_path / f"fleet-{len(fleets)}" if url else tmp_path
        folder.mkdir(exist_ok=True)
        fleets.append(Fleet(folder, url))
        return fleets[-1]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker heeds what its parent does
    try:
        yield make
    finally:
        signal.signal(signal.SIGINT, before)
        for fleet in fleets:
            fleet.close()
    told = {str(tree.log): tree.told for fleet in fleets for tree in fleet.trees}
    assert {name: text for name, text in told.items() if "Traceback (most recent call last)" in text} == {}


@pytest.fixture
def fleet(fleet_on):
    """Give an empty fleet on a SQLite file."""
    return fleet_on()


@pytest.fixture
def orders(tmp_path):
    """Give a shop whose app has rows of its own in the store's file: orders_app.py."""
    with Shop(tmp_path, "orders_app.py") as shop:
        shop.tasks.create_tables()
        yield shop
        shop.tasks.ENGINE.dispose()
