"""How a worker is, as it is written down: what a later release adds, or somebody spoils, does no harm."""

import pytest

from standfast.stores.values import Vitals, read_vitals, write_vitals


def test_what_is_written_is_read_back() -> None:
    """All of it; and no news stays no news."""
    vitals = Vitals(memory=1, running=2, slots=3, lag=0.25, pulse_age=1.5, done=4)
    assert read_vitals(write_vitals(vitals)) == vitals
    assert write_vitals(None) is read_vitals(None) is None


def test_the_next_release_may_say_more_or_less() -> None:
    """What this one does not know is passed over, what it misses has its default."""
    assert read_vitals('{"memory": 7, "threads": [1, 2], "mood": "fine"}') == Vitals(memory=7)
    assert read_vitals(b"{}") == Vitals()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"memory": "much"}', b"\xff\xfe", "[" * 100_000])
def test_nonsense_is_no_news(text: str | bytes) -> None:
    """Whatever is found there, who looks at workers is not stopped by it."""
    assert read_vitals(text) is None
