"""A job that could not start in time expires, or runs all the same and says so."""

from datetime import timedelta

from shopfloor import Shop, eventually


def test_late_jobs(tmp_path):
    """With no worker for too long, one expires without having run and the other runs; both are told of."""
    with Shop(tmp_path) as shop:
        expiring = shop.tasks.pack.options(start_within=0.2, on_late="expire").enqueue(order=1)
        running = shop.tasks.pack.options(start_within=0.2).enqueue(order=2)
        in_time = shop.tasks.pack.options(start_within=300, on_late="expire").enqueue(order=3)
        late = running.job().run_at + timedelta(seconds=0.3)
        eventually(lambda: shop.app.clock.now() > late, "their time has passed")

        worker = shop.drain()

        assert (shop.job(expiring).state, shop.job(expiring).reason) == ("cancelled", "expired")
        assert (shop.job(running).state, shop.job(in_time).state) == ("completed", "completed")
        assert {line["job"] for line in shop.ledger()} == {running.id, in_time.id}
        [never] = shop.history(expiring)
        assert (never.started_at, never.how) == (None, "cancel")
        lines = [line for line in worker.words.splitlines() if " late, and should have started by " in line]
        assert {(expiring.id[-8:] in line, line.rpartition(": ")[2]) for line in lines} == {
            (True, "it expires"),
            (False, "it runs all the same"),
        }
        assert "cancelled: expired" in worker.words
        assert "too late" in shop.why(expiring)
