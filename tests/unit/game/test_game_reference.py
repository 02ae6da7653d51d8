"""The reference strategies play by the rules: a table of their own, each call written down."""

import threading
import time
from collections import Counter

import pytest

from game.contender import Due
from game.counted.journal import Journal, read_calls
from game.ledger import Ledger, read_runs
from game.reference.strategies import STRATEGIES
from game.reference.table import COMPLETED, CREATED, LOCKED, Table, read_table

PATIENCE = 30.0


@pytest.fixture
def place(tmp_path):
    return tmp_path


@pytest.fixture
def open_table(place):
    tables = []

    def opener():
        tables.append(Table(place / "table.db", Journal(place / "calls")))
        return tables[-1]

    yield opener
    for table in tables:
        table.close()


class TestTable:
    def test_who_comes_second_does_not_get_the_lock(self, open_table, place):
        first, second = open_table(), open_table()
        first.create([Due(1, time.time() - 1)])
        assert (first.lock(1), second.lock(1)) == (True, False)
        assert second.look(1) == LOCKED
        assert [(call.verb, call.stale) for call in read_calls(place / "calls")] == [
            ("lock", 0),
            ("lock", 1),
            ("look", 0),
        ]

    def test_a_list_looks_ahead_and_leaves_locked_jobs_out(self, open_table, place):
        table, now = open_table(), time.time()
        table.create([Due(1, now + 9), Due(2, now - 1), Due(3, now + 11), Due(4, now - 2)])
        assert [job.id for job in table.list_ready()] == [4, 2]
        assert [job.id for job in table.list_ready(10.0)] == [4, 2, 1]
        table.lock(4)
        assert [job.id for job in table.list_ready(10.0)] == [2, 1]
        assert [call.jobs for call in read_calls(place / "calls") if call.verb == "list"] == [2, 3, 2]

    def test_its_jobs_in_the_end(self, open_table, place):
        table = open_table()
        table.create([Due(1, 100.0), Due(2, 200.0)])
        table.lock(1)
        table.complete(1)
        done, left = read_table(place / "table.db")
        assert (done.number, done.run_at, done.completed) == (1, 100.0, True)
        assert abs(done.stored_at - time.time()) < PATIENCE
        assert (left.completed, left.stored_at) == (False, None)
        assert (table.look(2), table.look(1)) == (CREATED, COMPLETED)


@pytest.mark.parametrize("name", STRATEGIES)
def test_several_instances_run_each_job_once_and_none_early(name, open_table, place):
    now = time.time()
    due = [Due(number, now + (number % 3) / 2) for number in range(12)]
    open_table().create(due)
    stop = threading.Event()
    instances = [
        threading.Thread(
            target=STRATEGIES[name](
                open_table, Ledger(place / "ledger", f"{number}.1"), stop, period=0.5, number=number, instances=2
            ).play
        )
        for number in (1, 2)
    ]
    for instance in instances:
        instance.start()
    give_up_at = time.monotonic() + PATIENCE
    while not all(job.completed for job in read_table(place / "table.db")):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    stop.set()
    for instance in instances:
        instance.join(PATIENCE)
    runs = read_runs(place / "ledger")
    assert Counter(run.job for run in runs) == Counter(range(12))
    assert all(due[run.job].run_at <= run.start <= run.end - 0.083 for run in runs)
    verbs = Counter(call.verb for call in read_calls(place / "calls"))
    assert verbs["complete"] == 12
    assert verbs["lock"] >= 12
    assert (verbs["look"] >= 12) == (name == "lookahead")


def test_a_separate_instance_looks_in_its_turn_and_locks_all_that_it_finds(open_table, place):
    """The second of two looks at its start and then once in two periods: the other one looks between."""
    began = time.time()
    open_table().create([Due(number, began + 1.0 + number / 20) for number in range(12)])
    stop = threading.Event()
    second = STRATEGIES["separate"](
        open_table, Ledger(place / "ledger", "2.1"), stop, period=0.5, number=2, instances=2
    )
    playing = threading.Thread(target=second.play)
    playing.start()
    give_up_at = time.monotonic() + PATIENCE
    while not all(job.completed for job in read_table(place / "table.db")):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
    stop.set()
    playing.join(PATIENCE)
    calls = Counter(call.verb for call in read_calls(place / "calls"))
    assert (calls["lock"], calls["complete"], calls["look"]) == (12, 12, 0)
    assert calls["list"] <= 2 + (time.time() - began) / (2 * 0.5)
    assert Counter(run.job for run in read_runs(place / "ledger")) == Counter(range(12))


class TestLedger:
    def test_a_run_that_did_not_end(self, place):
        ledger = Ledger(place / "ledger", "2.1")
        ledger.start(7, 1)
        [run] = read_runs(place / "ledger")
        assert (run.job, run.fence, run.instance, run.end) == (7, 1, "2.1", None)

    def test_a_line_that_has_only_begun_is_left_alone(self, place):
        ledger = Ledger(place / "ledger", "2.1")
        ledger.start(7, 1)
        ledger.end(7, 1)
        whole = read_runs(place / "ledger")
        with (place / "ledger").open("ab") as file:
            file.write(b'{"what":"start","job":8')
        assert read_runs(place / "ledger") == whole

    def test_a_claim_that_runs_twice_is_two_runs(self, place):
        ledger = Ledger(place / "ledger", "2.1")
        ledger.start(7, 1)
        ledger.start(7, 1)
        assert len(read_runs(place / "ledger")) == 2
