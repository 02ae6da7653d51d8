"""Fixtures that the tests of the kit share. A file that needs tasks of its own has its own `app`."""

import pytest

from standfast import Standfast
from standfast.testing import StandfastKit


@pytest.fixture
def app():
    return Standfast("memory://")


@pytest.fixture
def kit(app):
    with StandfastKit(app) as kit:
        yield kit
