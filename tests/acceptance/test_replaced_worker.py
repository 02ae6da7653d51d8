"""A worker process that cannot go on is replaced at once; the jobs beside the trouble do not pay for it."""

import re

import pytest
from fleet import sizes
from shopfloor import Shop, eventually

from standfast.model.states import State
from standfast.observe.incidents import list_incidents
from standfast.stores.verb import run_procedure

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path, monkeypatch):
    """Give a shop on one store after the other."""
    if request.param == "postgres":
        monkeypatch.setenv("STRAY_URL", request.getfixturevalue("postgres_url"))
    with Shop(tmp_path / "shop", "stray_app.py") as opened:
        yield opened


@pytest.mark.parametrize("shop", sizes(short=["postgres"], full=["sqlite", "postgres"]), indirect=True)
def test_a_worker_whose_own_loop_keeps_failing_is_replaced_and_nobody_pays(shop):
    """Another child is there while the old one drains; what ran completes there, on its first attempt."""
    worker = shop.worker()
    [child] = worker.children
    handle = shop.tasks.sabotage.enqueue()

    eventually(lambda: len(worker.children) == 2 or worker.children not in ([child], []), "another child")

    beside = shop.tasks.nothing.enqueue()
    shop.settled([handle, beside])
    eventually(lambda: child not in worker.children, "the end of the old child")
    for job in (handle.job(), beside.job()):
        assert (job.state, job.attempt, job.crashes, job.fence) == (State.COMPLETED, 0, 0, 1)
    backend = shop.app.backend

    def told():
        return [
            each for each in run_procedure(backend.run, list_incidents(backend.verbs)) if "reporter" in each.summary
        ]

    eventually(lambda: sum(each.count for each in told()) >= 5, "all failures counted")
    assert {each.summary for each in told()} == {
        "RuntimeError: sabotage in the reporter, a loop of the worker's own"
    }
    assert "this worker has itself replaced: its reporter failed: RuntimeError: sabotage" in worker.words
    assert worker.stop() == 0


@pytest.mark.parametrize("shop", sizes(short=["sqlite"], full=["sqlite", "postgres"]), indirect=True)
def test_a_handler_that_cannot_be_stopped_has_its_process_replaced_at_once(shop):
    """It alone is charged, in one sentence that says where; who runs beside it completes in the old process."""
    worker = shop.worker()
    [child] = worker.children
    stuck, beside = shop.tasks.ignore_timeout.enqueue(), shop.tasks.nap.enqueue(seconds=4)

    eventually(lambda: len(worker.children) == 2, "another child beside the old one")

    shop.settled([stuck, beside])
    assert (stuck.status(), beside.status()) == (State.COMPLETED, State.COMPLETED)
    assert (beside.job().attempt, beside.job().crashes, beside.job().fence) == (0, 0, 1)
    first = shop.history(stuck)[0]
    assert first.how == "crashed"
    sentence = r"it ignores its timeout of 0\.5 s, at \S*shop\.py:\d+ in ignore_timeout \(incident \w{8}\)"
    assert re.fullmatch(sentence, first.error)
    eventually(lambda: child not in worker.children, "the end of the old child")
