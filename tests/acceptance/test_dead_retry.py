"""After an outage its dead letters, and only they, are brought back with one command."""

import pytest
from shopfloor import PROVE, Shop, assert_one_line

REFUSED = 10_000 if PROVE else 300
BAD = 20


@pytest.fixture
def shop(tmp_path):
    with Shop(tmp_path, source="dead_retry_app.py") as made:
        yield made


def test_the_dead_of_an_outage_are_retried_by_their_error_and_the_others_stay(shop):
    """Selected by task and error, asked for with the count, retried in one go, and all delivered."""
    shop.tasks.deliver.enqueue_many([{"number": number} for number in range(REFUSED)])
    shop.tasks.deliver.enqueue_many([{"number": -number} for number in range(1, BAD + 1)])
    shop.drain("--quiet")
    assert shop.counts() == {"dead": REFUSED + BAD}

    shop.put("server-is-up")
    unasked = shop.standfast("dead", "retry", "--task", "deliver", "--error", "connection refused")
    assert unasked.returncode == 2
    assert f"Retry {REFUSED:,} dead jobs? [y/N]" in unasked.stderr
    assert shop.counts() == {"dead": REFUSED + BAD}

    done = shop.asked("dead", "retry", "--task", "deliver", "--error", "connection refused", "--yes")
    assert done == {"done": REFUSED, "errors": []}
    assert shop.counts() == {"dead": BAD, "ready": REFUSED}
    shop.drain("--quiet")
    assert shop.counts() == {"dead": BAD, "completed": REFUSED}


def test_a_key_that_is_taken_stops_nobody_else(shop):
    """The one whose key another job has stays dead, is named with that job, and the rest goes on."""
    first = shop.tasks.deliver.options(key="mail-1").enqueue(number=1)
    other = shop.tasks.deliver.enqueue(number=2)
    shop.drain("--quiet")
    holder = shop.tasks.deliver.options(key="mail-1", delay=3600).enqueue(number=1)

    answer = shop.standfast("dead", "retry", "--all", "--yes")
    assert answer.returncode == 1
    assert answer.stdout == "1 dead job was requeued.\n"
    assert_one_line(answer.stderr, first.id, holder.id)
    assert (first.status(), other.status(), holder.status()) == ("dead", "ready", "scheduled")
