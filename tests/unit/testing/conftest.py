"""Fixtures that the tests of the kit share. A file that needs tasks of its own has its own `app`."""

import pytest

from holdfast import Holdfast
from holdfast.testing import HoldfastKit


@pytest.fixture
def app():
    return Holdfast("memory://")


@pytest.fixture
def kit(app):
    with HoldfastKit(app) as kit:
        yield kit
