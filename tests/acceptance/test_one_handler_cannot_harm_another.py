"""Whatever one handler does, its neighbours complete and their worker stays up."""

import pytest
from shopfloor import PROVE, Shop, eventually

NEIGHBOURS = 500 if PROVE else 60

TROUBLES = {
    "exception": ("dead", "ValueError: plainly wrong"),
    "system exit": ("dead", "SystemExit: 3"),
    "keyboard interrupt": ("dead", "KeyboardInterrupt"),
    "cancelled error": ("dead", "CancelledError"),
    "foreign cancelled error": ("dead", "CancelledError"),
    "generator exit": ("dead", "GeneratorExit"),
    "stop iteration": ("dead", "StopIteration"),
    "tantrum": ("dead", "Tantrum: for no reason"),
    "mute": ("dead", "Mute: it cannot say what it is"),
    "surrogate": ("dead", "ValueError: bad name caf\\udce9"),
    "recursion": ("dead", "RecursionError: maximum recursion depth exceeded"),
    "unserialisable": ("dead", "ResultEncodingError: the result, of type object"),
    "huge result": ("dead", "ResultEncodingError: the result takes 5,000,002 bytes"),
    "huge error": ("dead", "ValueError: xxxxxxxxxx"),
    "bad outcome": ("dead", "TypeError: "),
    "endless outcome": ("dead", "OverflowError: "),
    "far outcome": ("dead", "at most a hundred years"),
    "odd outcome": ("cancelled", None),
    "logs": ("completed", None),
}


@pytest.mark.parametrize("task", ["trouble_async", "trouble_by_hand"])
def test_one_handler_cannot_harm_another(tmp_path, task):
    """A handler that raises anything, returns nonsense or floods the log ends its own attempt and nothing else."""
    with Shop(tmp_path) as shop:
        worker = shop.worker()
        [child] = worker.children
        troubles = {kind: getattr(shop.tasks, task).enqueue(kind=kind) for kind in TROUBLES}
        neighbours = [
            (shop.tasks.pack if number % 2 else shop.tasks.weigh).enqueue(order=number)
            for number in range(NEIGHBOURS)
        ]

        shop.settled([*troubles.values(), *neighbours])

        for kind, (state, words) in TROUBLES.items():
            job = troubles[kind].job()
            assert job.state == state, (kind, job)
            assert (words or "") in (job.error or ""), (kind, job.error[:200])
            assert len(job.error or "") < 20_000, kind
            assert len(shop.ledger(troubles[kind])) == 1
            [attempt] = shop.attempts(troubles[kind])
            assert attempt.worker == shop.attempts(neighbours[0])[0].worker
        for number, neighbour in enumerate(neighbours):
            assert neighbour.result(timeout=0) == number
            assert len(shop.ledger(neighbour)) == 1
        assert worker.children == [child]
        assert shop.standfast("jobs", "list").returncode == 0
        assert worker.stop() == 0


def test_hanging_handlers_cannot_harm_another(tmp_path):
    """Handlers that never return keep their own places only; a stop gives their jobs back, uncharged."""
    with Shop(tmp_path) as shop:
        worker = shop.worker("--concurrency", "6", "--grace", "0.3")
        hanging = [task.enqueue() for task in (shop.tasks.hang, shop.tasks.hang_by_hand) for _ in range(2)]
        eventually(lambda: len(shop.ledger(what="hangs")) == len(hanging), "all hang")
        neighbours = [shop.tasks.pack.enqueue(order=number) for number in range(NEIGHBOURS)]
        neighbours += [shop.tasks.weigh.enqueue(order=number) for number in range(NEIGHBOURS)]

        shop.settled(neighbours)

        assert {handle.status() for handle in neighbours} == {"completed"}
        for handle in hanging:
            shop.become(handle, "running")
        assert worker.stop() == 0
        assert {(job.state, job.attempt, job.crashes) for job in map(shop.job, hanging)} == {("ready", 0, 0)}


def test_deaf_handlers_cost_their_process_and_nothing_else(tmp_path):
    """A handler that ignores its timeout, thread or coroutine, is charged, and its process is replaced."""
    with Shop(tmp_path / "thread") as threads, Shop(tmp_path / "coroutine") as coroutines:
        stuck = [
            (threads, threads.tasks.dawdle_deaf.enqueue()),
            (coroutines, coroutines.tasks.dawdle_stubborn.enqueue()),
        ]
        for shop, _ in stuck:
            shop.worker("--grace", "0.3")
        for shop, handle in stuck:
            eventually(lambda handle=handle: handle.job().attempt == 1, f"{handle.task} is charged")
            first = shop.history(handle)[0]
            assert (first.how, handle.job().crashes) == ("crashed", 1)
            assert "ignores its timeout of 0.3 s" in first.error
            assert handle.task in first.error
            assert shop.tasks.pack.enqueue(order=1).result(timeout=30) == 1
