"""`standfast worker --drain` ends with 0 when nothing is left to do, and not before."""

import time

from shopfloor import Shop, eventually


def test_drain_does_all_there_is(tmp_path):
    """A drain runs what is ready and what awaits its retry, and leaves far, paused and unknown jobs alone."""
    with Shop(tmp_path) as shop:
        ready = [shop.tasks.pack.enqueue(order=number) for number in range(100)]
        retried = [shop.tasks.say.enqueue(how=how) for how in ("retry", "snooze")]
        failing = shop.tasks.sort_out.enqueue(error="retried")
        far = shop.tasks.pack.options(delay=3600).enqueue(order=1)
        paused = shop.tasks.pack.options(queue="mail").enqueue(order=1)
        shop.app.call(shop.app.verbs.pause("mail"))
        unknown = shop.tasks.pack.enqueue(order=1)
        shop.sql("UPDATE standfast_job SET task = 'unknown' WHERE id = ?", unknown.id)

        worker = shop.drain()

        assert [handle.result(timeout=0) for handle in ready] == list(range(100))
        assert {handle.status() for handle in retried} == {"completed"}
        assert (failing.status(), far.status(), paused.status()) == ("dead", "scheduled", "ready")
        assert unknown.status() == "blocked"
        assert "Traceback" not in worker.words
        assert shop.app.call(shop.app.verbs.workers()) == ()


def test_drain_of_nothing(tmp_path):
    """A drain of an empty store, even of one that is not there yet, ends at once with 0."""
    with Shop(tmp_path) as shop:
        assert not shop.database.exists()
        shop.drain()
        shop.drain("--processes", "2")
        assert shop.counts() == {}


def test_drain_waits_for_what_runs(tmp_path):
    """A drain waits for its own running jobs, and for those that another worker has in its hands."""
    with Shop(tmp_path) as shop:
        other = shop.worker("--queues", "mail")
        theirs = shop.tasks.guard.options(queue="mail").enqueue(until="theirs")
        shop.become(theirs, "running")
        ours = shop.tasks.guard_by_hand.enqueue(until="ours")
        drain = shop.start("--drain").ready()
        shop.become(ours, "running")
        shop.put("ours")
        assert ours.result(timeout=30) == "ours"
        still = time.monotonic() + 1.0
        eventually(lambda: time.monotonic() > still or drain.process.poll() is not None, "a while")
        assert drain.process.poll() is None
        shop.put("theirs")
        assert drain.wait() == 0
        assert theirs.result(timeout=0) == "theirs"
        assert other.stop() == 0


def test_drain_waits_for_the_claims_of_the_dead(tmp_path):
    """A drain does not end before the jobs of a worker that vanished were recovered and done."""
    with Shop(tmp_path) as shop:
        lost = [shop.tasks.guard.enqueue(until="end"), shop.tasks.guard_by_hand.enqueue(until="end")]
        held = shop.tasks.pack.options(delay=5).enqueue(order=1)
        worker = shop.worker("--lease", "2")
        for handle in lost:
            shop.become(handle, "running")
        shop.become(held, "held")
        worker.kill()
        shop.put("end")

        shop.drain("--lease", "2")

        assert [handle.result(timeout=0) for handle in lost] == ["end", "end"]
        assert held.result(timeout=0) == 1
        assert shop.history(lost[0])[0].how in {"suspected", "vanished"}
        assert held.job().attempt == 0
