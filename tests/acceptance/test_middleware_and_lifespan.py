"""What an app puts around its jobs and its workers runs in real processes, in order, and cannot harm them."""

import pytest
from shopfloor import Shop, assert_one_line

SETUP = ["pool opened", "cache warmed"]
TEARDOWN = ["cache dropped", "pool closed"]


def noted(shop):
    return [line["what"] for line in shop.ledger()]


def test_around_every_job_and_around_every_worker(tmp_path):
    """Set up before the first job and torn down, in reverse, after the last; middleware around each handler."""
    with Shop(tmp_path, "hooks_app.py") as shop:
        handles = [shop.tasks.pack.enqueue(), shop.tasks.weigh.enqueue()]
        shop.drain("--concurrency", "1")
        assert [handle.result(timeout=1) for handle in handles] == [
            "tenant of pack, pool open",
            "tenant of weigh, pool open",
        ]
        assert noted(shop) == [*SETUP, "begins", "packs", "ends", "begins", "weighs", "ends", *TEARDOWN]


def test_a_signal_tears_down_too(tmp_path):
    """A graceful stop of each of two processes ends with its teardown."""
    with Shop(tmp_path, "hooks_app.py") as shop:
        worker = shop.worker("--processes", "2")
        assert shop.tasks.pack.enqueue().result(timeout=30) == "tenant of pack, pool open"
        assert worker.stop() == 0
        by_process = {pid: [] for pid in {line["pid"] for line in shop.ledger()}}
        for line in shop.ledger():
            by_process[line["pid"]].append(line["what"])
        assert {len(by_process)} <= {1, 2}
        for lines in by_process.values():
            assert lines[:2] == SETUP
            assert lines[-2:] == TEARDOWN or lines == SETUP  # one that was about to start is just ended


def test_a_setup_that_fails_is_a_clear_line(tmp_path):
    """Reported as an import that fails is; what was set up before is torn down."""
    with Shop(tmp_path, "hooks_app.py") as shop:
        worker = shop.start(WRONG="setup")
        assert worker.wait() == 2
        assert_one_line(worker.words, "lifespan cache failed: ConnectionError: the cache is cold", "shop.py, line ")
        assert noted(shop) == [*SETUP, "pool closed"]


@pytest.mark.parametrize(
    ("wrong", "words"), [("teardown", "the cache is stuck"), ("endless", "it did not end within 5 s")]
)
def test_a_teardown_that_fails_is_told_and_harms_nobody(tmp_path, wrong, words):
    """The worker ends as it should, in bounded time, and the other lifespans are torn down."""
    with Shop(tmp_path, "hooks_app.py") as shop:
        handle = shop.tasks.pack.enqueue()
        worker = shop.drain(WRONG=wrong)
        assert handle.status() == "completed"
        assert "lifespan cache could not be torn down" in worker.words
        assert words in worker.words
        assert "crashed" not in worker.words
        assert noted(shop)[-2:] == TEARDOWN


def test_a_suspect_has_them_in_its_own_process(tmp_path):
    """Those that ran when a process died run again alone, with everything set up and torn down around each."""
    with Shop(tmp_path, "hooks_app.py") as shop:
        handles = [shop.tasks.crash.enqueue() for _ in range(2)]
        shop.drain("--concurrency", "2")
        assert [handle.result(timeout=1) for handle in handles] == ["alone", "alone"]
        crashed = shop.ledger(what="crashes")[0]["pid"]
        lone = {line["pid"] for line in shop.ledger(what="ends")} - {crashed}
        assert len(lone) == 2
        for pid in lone:
            lines = [line["what"] for line in shop.ledger() if line["pid"] == pid]
            assert lines == [*SETUP, "begins", "ends", *TEARDOWN]
