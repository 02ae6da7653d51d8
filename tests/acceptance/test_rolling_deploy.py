"""A job whose task no running worker knows waits, uncharged, and runs once a worker that knows it is there."""

import pytest
from shopfloor import HERE, PROVE, Shop, eventually, import_anew

NEWER = '''

@app.task
async def gift_wrap(ctx: Context, order: int) -> str:
    """Only the new release has it."""
    note(ctx, "wrapped")
    return f"wrapped {order}"
'''

OLD, NEW = "shop:app", "shop_new:app"


class Deploy(Shop):
    """A shop with an old and a new release of its app."""

    def __init__(self, folder):
        super().__init__(folder)
        source = (HERE / "shop_app.py").read_text()
        changed = source.replace("@app.task\nasync def pack", "@app.task(version=2)\nasync def pack")
        taking, returning = "pack(ctx: Context, order: int)", "-> int"
        changed = changed.replace(f"{taking} {returning}", f"{taking[:-1]} | str) {returning} | str")
        assert changed != source
        file = folder / "shop_new.py"
        file.write_text(changed + NEWER)
        self.new = import_anew(file)

    def __exit__(self, *args):
        super().__exit__(*args)
        self.new.app.close()

    def blocked(self, handles):
        eventually(lambda: all(handle.status() == "blocked" for handle in handles), f"all blocked: {self.counts()}")

    def assert_ran_once(self, handles):
        """Each ran once and nothing was charged, whatever the old workers did meanwhile."""
        for handle in handles:
            job = self.become(handle, "completed")
            assert (job.attempt, job.crashes) == (0, 0)
            assert len(self.ledger(handle)) == 1
            *before, last = self.history(handle)
            assert {attempt.how for attempt in before} <= {"block", "release"}
            assert all(attempt.started_at is None for attempt in before)
            assert last.how == "complete"


def test_unknown_task(tmp_path):
    """A job that no worker knows becomes blocked(no_worker), nothing is charged, and `why` says what to do."""
    with Deploy(tmp_path) as shop:
        handle = shop.new.gift_wrap.enqueue(order=1)
        known = shop.tasks.pack.enqueue(order=1)
        worker = shop.worker(target=OLD)

        job = shop.become(handle, "blocked")

        assert (job.reason, job.attempt, job.crashes) == ("no_worker", 0, 0)
        assert "No running worker knows task 'gift_wrap'" in shop.why(handle)
        assert "Deploy or start a worker" in shop.why(handle)
        assert shop.asked("jobs", "show", handle.id)["reason"] == "no_worker"
        assert known.result(timeout=30) == 1
        assert worker.process.poll() is None
        assert shop.ledger(handle) == []
        assert handle.cancel() == "cancelled"


@pytest.mark.parametrize("old_workers", [1, 3] if PROVE else [1])
def test_rolling_deploy_new_code_enqueues_first(tmp_path, old_workers):
    """New code enqueues while old workers run: its jobs run once the new worker starts, the old ones staying."""
    with Deploy(tmp_path) as shop:
        for _ in range(old_workers):
            shop.worker(target=OLD)
        jobs = [shop.new.gift_wrap.enqueue(order=number) for number in range(10)]
        jobs += [shop.new.pack.enqueue(order=f"A-{number}") for number in range(10)]
        shop.blocked(jobs)
        assert "payload version 2" in shop.why(jobs[-1])

        shop.worker(target=NEW)

        more = [shop.new.gift_wrap.enqueue(order=number) for number in range(10)]
        shop.assert_ran_once(jobs + more)


def test_rolling_deploy_new_worker_first(tmp_path):
    """The new worker is there first and the old ones leave later: every job runs, old and new, none is charged."""
    with Deploy(tmp_path) as shop:
        old = [shop.worker(target=OLD), shop.worker(target=OLD)]
        shop.worker(target=NEW)
        jobs = []
        for number in range(20):
            jobs += [
                shop.new.gift_wrap.enqueue(order=number),
                shop.new.pack.enqueue(order=f"A-{number}"),
                shop.tasks.pack.enqueue(order=number),
            ]
            if number == 10:
                assert old.pop().stop() == 0
        shop.assert_ran_once(jobs)
        assert old.pop().stop() == 0
        late = shop.new.gift_wrap.enqueue(order=99)
        shop.assert_ran_once([late])
        assert late.result(timeout=0) == "wrapped 99"


def test_rolling_deploy_delayed_and_paused(tmp_path):
    """What waits for a deploy keeps its time and its queue: it runs neither early nor while its queue is paused."""
    with Deploy(tmp_path) as shop:
        shop.worker(target=OLD)
        delayed = shop.new.gift_wrap.options(delay=4).enqueue(order=1)
        paused = shop.new.gift_wrap.options(queue="gifts").enqueue(order=2)
        shop.blocked([paused])
        shop.app.call(shop.app.verbs.pause("gifts"))

        shop.worker(target=NEW)

        shop.assert_ran_once([delayed])
        assert shop.ledger(delayed)[0]["at"] >= delayed.job().run_at.timestamp()
        assert shop.ledger(paused) == []
        assert shop.standfast("queues", "resume", "gifts").returncode == 0
        shop.assert_ran_once([paused])
