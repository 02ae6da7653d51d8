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
def fleet(tmp_path):
    """Give an empty fleet; afterwards every process is gone, and none has said that it met a bug."""
    fleet = Fleet(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker heeds what its parent does
    try:
        yield fleet
    finally:
        signal.signal(signal.SIGINT, before)
        fleet.close()
    told = {tree.log.name: tree.told for tree in fleet.trees}
    assert {name: text for name, text in told.items() if "Traceback (most recent call last)" in text} == {}


@pytest.fixture
def orders(tmp_path):
    """Give a shop whose app has rows of its own in the store's file: orders_app.py."""
    with Shop(tmp_path, "orders_app.py") as shop:
        shop.tasks.create_tables()
        yield shop
        shop.tasks.ENGINE.dispose()
