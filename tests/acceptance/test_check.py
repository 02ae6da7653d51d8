"""A deployment is checked by canaries through every queue of real workers, and doctor sees what is wrong."""

import json
import tempfile
from pathlib import Path

from shopfloor import PROVE, Shop, run
from test_bad_database import AS_ANYONE, change_modes, enqueue

FAILED, STORE = 1, 3
QUEUES = [f"queue-{number}" for number in range(50 if PROVE else 5)]


def checked(shop, *options):
    """Run the check; return its exit code, and for each queue None or why it is not through."""
    ended = shop.standfast("check", "--json", *options)
    report = json.loads(ended.stdout)
    assert report["ok"] == (ended.returncode == 0)
    return ended.returncode, {each["queue"]: each["why"] for each in report["queues"]}


def test_check_through_every_queue(tmp_path):
    """Every queue that holds jobs and every one that a worker names gets its canary through; the app's too."""
    with Shop(tmp_path) as shop:
        for queue in QUEUES:
            shop.tasks.pack.options(queue=queue).enqueue(order=1)
        shop.worker()
        shop.worker("--queues", "named")
        assert checked(shop, "--wait", "30") == (0, dict.fromkeys(sorted([*QUEUES, "named"])))
        ended = shop.standfast("check", "shop:app", "--app-dir", str(tmp_path), "--wait", "30")
        assert ended.returncode == 0, ended.stderr
        assert "default" in ended.stdout
        assert f"{len(QUEUES) + 2} of {len(QUEUES) + 2} queues through." in ended.stdout
        assert all(line["what"] == "packed" for line in shop.ledger())


def test_check_finds_an_unserved_queue(tmp_path):
    """A queue that has work and no worker is named, with the command that starts one; its canary never runs."""
    with Shop(tmp_path) as shop:
        waiting = shop.tasks.pack.options(queue="reports").enqueue(order=1)
        shop.worker("--queues", "mail")
        code, whys = checked(shop, "--wait", "2")
        assert code == FAILED
        assert whys["mail"] is None
        assert "no running worker serves queue 'reports'" in whys["reports"]
        assert "--queues reports" in whys["reports"]
        shop.drain("--queues", "reports")
        assert waiting.result(timeout=0) == 1
        left = [job for job in shop.asked("jobs", "list", "--queue", "reports") if job["id"] != waiting.id]
        assert [(job["task"], job["state"], job["fence"]) for job in left] == [("standfast.canary", "cancelled", 0)]


def test_check_finds_a_paused_queue(tmp_path):
    """The queue that was left paused is told; resumed, it passes."""
    with Shop(tmp_path) as shop:
        shop.worker()
        assert shop.standfast("queues", "pause", "mail").returncode == 0
        code, whys = checked(shop, "--queue", "default", "--queue", "mail", "--wait", "2")
        assert code == FAILED
        assert whys["default"] is None
        assert "standfast queues resume mail" in whys["mail"]
        assert shop.standfast("queues", "resume", "mail").returncode == 0
        assert checked(shop, "--queue", "mail", "--wait", "30") == (0, {"mail": None})


def test_check_tells_of_busy_workers(tmp_path):
    """Where all places are taken, that is the reason; when one is free again, the next canary is through."""
    with Shop(tmp_path) as shop:
        shop.worker("--concurrency", "1")
        handle = shop.tasks.guard.enqueue(until="end")
        shop.become(handle, "running")
        code, whys = checked(shop, "--wait", "1")
        assert code == FAILED
        assert "busy (1 of 1 places taken)" in whys["default"]
        shop.put("end")
        assert handle.result(timeout=30) == "end"
        assert checked(shop, "--wait", "30")[0] == 0


def test_check_without_any_worker(tmp_path):
    """It waits for workers to come up, and says so if none does."""
    with Shop(tmp_path) as shop:
        ended = shop.standfast("check", "--wait", "1")
        assert ended.returncode == STORE
        assert "there is no database" in ended.stderr
        assert not shop.database.exists()
        shop.tasks.pack.enqueue(order=1)
        code, whys = checked(shop, "--wait", "1")
        assert code == FAILED
        assert "no worker is running" in whys["default"]
        shop.start()
        assert checked(shop, "--wait", "30") == (0, {"default": None})


def test_check_while_the_first_worker_starts(tmp_path):
    """Started together with the first worker ever, it waits for the store and then for the worker."""
    with Shop(tmp_path) as shop:
        shop.start()
        assert checked(shop, "--wait", "30") == (0, {"default": None})


def test_doctor_of_a_fleet_at_work(tmp_path):
    """Beside live workers all is well, and doctor gets in nobody's way."""
    with Shop(tmp_path) as shop:
        shop.worker()
        handles = shop.tasks.pack.enqueue_many([{"order": number} for number in range(100)])
        for _ in range(3):
            report = shop.asked("doctor")
            assert {each["level"] for each in report["checks"]} <= {"ok", "warning"}
        assert "1 worker live" in json.dumps(report)
        shop.settled(handles)


def test_doctor_sees_what_may_not_be_written(tmp_path):
    """Files and folders that this user may not write are named, and nothing is changed."""
    with Shop(tmp_path / "shop") as shop, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/jobs.db"
        assert enqueue(shop, url) == ""
        change_modes(folder, 0o555, 0o444)
        try:
            ended = run("doctor", "--url", url, "--json", through=AS_ANYONE)
        finally:
            change_modes(folder, 0o755, 0o644)
        found = {each["check"]: each for each in json.loads(ended.stdout)["checks"]}
        assert found["permissions"]["level"] == "problem"
        assert f"{folder}, " in found["permissions"]["says"]
        assert "jobs.db" in found["permissions"]["says"]
        assert ended.returncode in {FAILED, STORE}
        assert (
            run("doctor", "--url", url, through=AS_ANYONE).returncode == FAILED
        )  # its job is due, and no worker is there
