"""An app whose file holds a table of the user's own, and connections to that file."""

import sqlite3
from contextlib import closing

import pytest
from joining import SHORT, make_app


@pytest.fixture
def shop(tmp_path):
    """Give an app whose file holds a table of the user's own."""
    app = make_app(f"sqlite:///{tmp_path}/shop.db")
    app.prepare()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as own:
        own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        own.commit()
    with app:
        yield app


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def own(path):
    with closing(sqlite3.connect(path, timeout=SHORT)) as own:
        yield own


@pytest.fixture
def other(path):
    """Give another writer, which begins and commits by its own word."""
    with closing(sqlite3.connect(path, timeout=SHORT, isolation_level=None)) as other:
        yield other
