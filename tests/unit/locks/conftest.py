"""An app on a store of its own."""

import pytest

from holdfast import Holdfast


@pytest.fixture
def app(quick_path):
    """Give an app on an empty SQLite file."""
    with Holdfast(f"sqlite:///{quick_path / 'jobs.db'}") as app:
        yield app
