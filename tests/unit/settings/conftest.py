"""Settings are read in an empty folder."""

import pytest


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Work in an empty folder: no file of the project plays a part."""
    monkeypatch.chdir(tmp_path)
