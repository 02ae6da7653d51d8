"""Every store keeps every promise of the contract."""

from collections import Counter

from holdfast.testing.conformance import StoreConformance


class TestStores(StoreConformance):
    pass


def test_no_promise_hides_another() -> None:
    """Each test of the suite has a name of its own, so that none is lost when they become one class."""
    names = Counter(name for part in StoreConformance.__bases__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
