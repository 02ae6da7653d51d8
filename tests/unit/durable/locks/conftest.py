"""An app on a store of its own."""

import pytest

from standfast import Standfast


@pytest.fixture
def app(quick_path):
    """Give an app on an empty SQLite file."""
    with Standfast(f"sqlite:///{quick_path / 'jobs.db'}") as app:
        yield app
