"""A payload damaged in the database ends its own job, at once and with a clear word, and no other."""

import pytest
from shopfloor import PROVE, Shop

DAMAGES = {
    "no JSON": b"\x00\xff\xfe damaged",
    "half of it": b'{"v":1,"args":{"ord',
    "empty": b"",
    "no envelope": b"[1,2,3]",
    "no version": b'{"args":{"order":1}}',
    "wrong type": b'{"v":1,"args":{"order":"seven"}}',
    "missing argument": b'{"v":1,"args":{}}',
    "extra argument": b'{"v":1,"args":{"order":1,"colour":"red"}}',
    "invalid UTF-8": b'{"v":1,"args":{"order":"caf\xe9"}}',
    "a text, not a blob": "not even bytes",
    "a text that is no UTF-8": b"caf\xe9",
    "a number, not a blob": 42,
}

TOLD = list(DAMAGES) if PROVE else ["no JSON", "wrong type", "a number, not a blob"]


@pytest.mark.parametrize("task", ["pack", "weigh"])
def test_corrupted_payload(tmp_path, task):
    """A payload corrupted by hand ends dead at its first claim, named in its error; other jobs do not notice."""
    with Shop(tmp_path) as shop:
        tasks = getattr(shop.tasks, task)
        damaged = {name: tasks.enqueue(order=1) for name in DAMAGES}
        sound = tasks.enqueue_many({"order": number} for number in range(20))
        for name, handle in damaged.items():
            shop.sql("UPDATE standfast_job SET payload = ? WHERE id = ?", DAMAGES[name], handle.id)
        text = damaged["a text that is no UTF-8"].id
        shop.sql("UPDATE standfast_job SET payload = CAST(payload AS TEXT) WHERE id = ?", text)

        shop.drain()

        assert [handle.result(timeout=0) for handle in sound] == list(range(20))
        for name, handle in damaged.items():
            job = handle.job()
            assert (job.state, job.attempt, job.fence) == ("dead", 1, 1), (name, job)
            assert "payload" in job.error, (name, job.error)
            assert task in job.error, (name, job.error)
            assert shop.ledger(handle) == []
            [attempt] = shop.history(handle)
            assert (attempt.how, attempt.error) == ("die", job.error)
        for name in TOLD if task == "pack" else ():
            handle = damaged[name]
            told = shop.standfast("jobs", "show", handle.id)
            assert told.returncode == 0, (name, told.stderr)
            assert "payload" in told.stdout
            assert shop.asked("jobs", "show", handle.id)["error"] == handle.job().error
            assert "dead" in shop.why(handle)
            assert "payload" in shop.why(handle)
        assert len(shop.asked("dead", "list")) == len(DAMAGES)
        assert shop.standfast("jobs", "list").returncode == 0


ROWS = {
    "a limit beyond the calendar": "start_by = 9000000000000000000",
    "a time beyond the calendar": "run_at = -9000000000000000000",
    "metadata that are no JSON": "metadata = '{\"half'",
    "a word that nobody knows": "on_late = 'whatever'",
    "a time that is none": "run_at = 'soon'",
    "a task that is no UTF-8": "task = CAST(x'ff' AS TEXT)",
}
READABLE = {"a limit beyond the calendar", "a time beyond the calendar"}


def test_corrupted_row(tmp_path):
    """A row that cannot be read ends dead with an incident; the drain runs all others, and comes to its end."""
    with Shop(tmp_path) as shop:
        damaged = {name: shop.tasks.pack.options(start_within=3600).enqueue(order=1) for name in ROWS}
        sound = shop.tasks.pack.enqueue_many({"order": number} for number in range(20))
        for name, handle in damaged.items():
            shop.sql(f"UPDATE standfast_job SET {ROWS[name]} WHERE id = ?", handle.id)
        assert shop.standfast("jobs", "list").returncode == 0

        shop.drain()

        assert [handle.result(timeout=0) for handle in sound] == list(range(20))
        for name, handle in damaged.items():
            job = handle.job()
            if name in READABLE:
                assert job.state == "completed", (name, job)
                continue
            assert (job.state, job.attempt, job.fence) == ("dead", 1, 1), (name, job)
            assert "cannot be read" in job.error, (name, job.error)
            assert "cannot be read" in shop.why(handle)
            assert shop.standfast("jobs", "show", handle.id).returncode == 0
        assert shop.standfast("jobs", "list").returncode == 0
        incidents = shop.asked("incidents", "list")
        assert ["cannot be read" in incident["summary"] for incident in incidents] == [True]
