"""Fixtures that acceptance tests share."""

import gc
import os
import signal
from contextlib import contextmanager
from urllib.parse import urlsplit

import fleet_app
import psycopg
import pytest
from fleet import PROVE, Fleet
from shopfloor import Shop


def pytest_collection_modifyitems(config, items):
    """Leave out what has no short form, a `make test` within `make test` above all, unless it is to be proved."""
    left_out = [item for item in items if item.get_closest_marker("full_size") and not PROVE]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter):
    """Say what was measured, where it was to be proved."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        if report.when == "call" and PROVE:
            for figures in [value for name, value in report.user_properties if name == "measured"]:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {figures}")


@pytest.fixture
def measured(record_property):
    """Give a way to say what was measured."""
    return lambda figures: record_property("measured", figures)


@pytest.fixture
def own_leavings():
    """Collect what a test leaves behind before the next test begins, and quickly: only what is newer than the test.

    What was being opened when an exception came is nobody's, and Python warns of it where it is collected.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()


@pytest.fixture
def fleet_on(tmp_path):
    """Give a maker of empty fleets, each on the store that a URL names.

    Afterwards every process is gone, and none has said that it met a bug.
    """
    fleets = []

    def make(url=None, module=fleet_app):
        folder = tmp_path / f"fleet-{len(fleets)}" if url else tmp_path
        folder.mkdir(exist_ok=True)
        fleets.append(Fleet(folder, url, module))
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


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def fleet_on_each_store(request, fleet_on):
    """Give an empty fleet, on one store after the other."""
    return fleet_on(None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def orders(tmp_path):
    """Give a shop whose app has rows of its own in the store's file: orders_app.py."""
    with Shop(tmp_path, "orders_app.py") as shop:
        shop.tasks.create_tables()
        yield shop
        shop.tasks.ENGINE.dispose()


@pytest.fixture
def postgres_orders(tmp_path, postgres_url, postgres_schema, monkeypatch):
    """Give a maker of shops whose app has rows of its own in the store's database: orders_postgres_app.py."""
    from orders_postgres import TESTS, PostgresOrders  # noqa: PLC0415 - it loads what few tests need

    monkeypatch.setenv("PYTHONPATH", str(TESTS))  # what they have in common with tests, in every process

    @contextmanager
    def make(kinds):
        with PostgresOrders(tmp_path / "orders", postgres_url, f"{postgres_schema}_own", kinds) as shop:
            shop.tasks.create_tables()
            yield shop

    return make


@pytest.fixture
def postgres_database(shared_postgres):
    """Give the URL of an empty database of the test's own."""
    name = f"test_{os.getpid()}_database"
    with psycopg.connect(shared_postgres, autocommit=True) as own:
        own.execute(f'CREATE DATABASE "{name}"')
        yield urlsplit(shared_postgres)._replace(path=f"/{name}").geturl()
        own.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


# -- the dashboard in a browser: loaded only where somebody looks at it ------------------------------------------


@pytest.fixture(scope="module")
def premises(tmp_path_factory):
    """Give a small app at work, with a dashboard."""
    from browser_stage import Premises  # noqa: PLC0415 - as said above

    with Premises(tmp_path_factory.mktemp("premises")) as shop:
        yield shop


@pytest.fixture(scope="module")
def browser():
    """Give a Chromium, which is installed where there is none."""
    from browser import open_browser  # noqa: PLC0415 - likewise

    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def badges(browser, premises):
    """Give what browsers keep of those who have signed in."""
    from browser import Visitor  # noqa: PLC0415 - likewise
    from browser_looks import sign_in  # noqa: PLC0415 - likewise

    kept = {}
    for name in ("admin", "viewer"):
        somebody = Visitor(browser, premises.base)
        sign_in(somebody.page, name)
        kept[name] = somebody.context.storage_state()
        somebody.leave()
    return kept


@pytest.fixture
def visit(browser, premises, badges):
    """Give a maker of visitors, signed in as somebody or not. In the end nothing has gone wrong for any of them."""
    from browser import Visitor  # noqa: PLC0415 - likewise

    visitors = []

    def make(name=None, **options):
        state = {} if name is None else {"storage_state": badges[name]}
        visitors.append(Visitor(browser, premises.base, **state, **options))
        return visitors[-1]

    yield make
    faults = [fault for each in visitors for fault in each.faults]
    for each in visitors:
        each.leave()
    assert faults == []
