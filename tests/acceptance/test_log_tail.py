"""What an attempt logged is kept with it, for those who ask later what happened."""

import pytest
from shopfloor import Shop


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--log-format", "json")])
def test_each_attempt_keeps_what_it_logged(tmp_path, options):
    """Whatever the worker's own log shows: with its thread, its failures and its context's logger."""
    with Shop(tmp_path) as shop:
        muttering = shop.tasks.mutter.enqueue(words="counting the till")
        silent = shop.tasks.weigh.enqueue(order=1)
        shop.drain(*options)
        first, second = shop.history(muttering)
        assert [line.split(" ", 1)[1] for line in first.log.splitlines()] == [
            "WARNING shop.mutter: counting the till, attempt 1",
            "ERROR standfast.job: by the context",
        ]
        assert second.log.splitlines()[0].endswith("WARNING shop.mutter: counting the till, attempt 2")
        assert [attempt.log for attempt in shop.history(silent)] == [None]
