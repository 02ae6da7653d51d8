"""What a real worker writes: few lines about many jobs, whose counts add up; in JSON nothing but JSON."""

import json
import re
from collections import Counter

import pytest
from shopfloor import PROVE, Shop, eventually

JOBS = 20_000 if PROVE else 2_000
FEW = 100


@pytest.fixture
def shop(tmp_path):
    with Shop(tmp_path, source="logs_app.py") as made:
        yield made


def lines_of(worker):
    return worker.words.splitlines()


def objects_of(worker):
    return [json.loads(line) for line in lines_of(worker)]


def told_and_folded(lines, symbol):
    """Return how many lines tell one event each, and how many more the folded ones count."""
    ours = [line for line in lines if f" {symbol} refuse" in line]
    folded = [
        int(match[1].replace(",", "")) for line in ours if (match := re.search(r": ([\d,]+) more like", line))
    ]
    return len(ours) - len(folded), sum(folded)


def test_two_thousand_failing_jobs_are_few_lines_and_none_is_missing(shop):
    """Each job fails once and dies once: told and folded lines together count every one of them."""
    shop.tasks.refuse.enqueue_many([{"number": number} for number in range(JOBS)])
    worker = shop.drain()
    lines = lines_of(worker)
    assert shop.counts() == {"dead": JOBS}
    assert len(lines) < FEW, f"{len(lines)} lines"
    for symbol in ("↻", "✘"):
        told, folded = told_and_folded(lines, symbol)
        assert told >= 3
        assert told + folded == JOBS
    assert "Traceback" not in worker.words


def test_the_counts_add_up_in_json_too_and_over_several_processes(shop):
    """Every line is one object, of the supervisor and of each child."""
    shop.tasks.refuse.enqueue_many([{"number": number} for number in range(JOBS)])
    shop.tasks.work.enqueue_many([{"number": number} for number in range(JOBS)])
    worker = shop.drain("--log-format", "json", "--processes", "2")
    objects = objects_of(worker)
    assert len(objects) < FEW
    assert all({"time", "level", "event", "message", "pid"} <= each.keys() for each in objects)
    told = Counter(each["event"] for each in objects)
    folded = Counter()
    for each in objects:
        if each["event"] == "folded":
            folded[each["kind"]] += each["count"]
    assert told["job_died"] + folded["job_died"] == JOBS
    assert told["job_retrying"] + folded["job_retrying"] == JOBS
    summed_up = sum(each["completed"] for each in objects if each["event"] == "summary")
    assert told["job_completed"] + summed_up == JOBS
    first = next(each for each in objects if each["event"] == "job_died")
    assert (first["level"], first["task"], first["error_type"]) == ("error", "refuse", "ConnectionError")
    assert "no answer to" in first["traceback"]


def test_by_default_a_success_is_seen_and_many_are_summed_up(shop):
    """The first completion has a line at once, while the worker goes on; the others are counted when it ends."""
    worker = shop.worker()
    shop.tasks.work.enqueue(number=1)
    eventually(lambda: re.search(r"✔ work \w{8} completed in .* \(the next ones are counted; -v", worker.words))
    shop.tasks.work.enqueue_many([{"number": number} for number in range(50)])
    eventually(lambda: shop.counts() == {"completed": 51})
    assert worker.stop() == 0
    summed_up = re.findall(r"✔ (\d+) more completed in .* \(work \1\)$", worker.words, re.MULTILINE)
    assert sum(map(int, summed_up)) == 50
    assert "started" not in worker.words


def test_verbose_tells_every_step_and_the_frames_of_a_failure(shop):
    shop.tasks.refuse.enqueue_many([{"number": number} for number in range(20)])
    worker = shop.drain("-v")
    assert worker.words.count(" started") == 40
    assert worker.words.count("dead after 2 attempts") == 20
    assert worker.words.count('shop.py", line') == 40
    assert "more like" not in worker.words


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("info", {"ready", "work", "failed", "dead", "stopped"}),
        ("warning", {"failed", "dead"}),
        ("error", {"dead"}),
    ],
)
def test_a_level_leaves_out_what_matters_less(shop, level, seen):
    shop.tasks.refuse.enqueue(number=1)
    shop.tasks.work.enqueue(number=1)
    told = shop.drain("--log-level", level).words
    marks = {"ready": " ready: ", "work": "✔ work", "failed": "↻ refuse", "dead": "✘ refuse", "stopped": " stopped"}
    assert {name for name, mark in marks.items() if mark in told} == seen


def test_quiet_says_nothing_of_jobs_and_workers(shop):
    shop.tasks.refuse.enqueue(number=1)
    assert shop.drain("--quiet").words == ""


def test_a_queue_that_no_task_uses_is_worth_a_warning(shop):
    """It is served all the same: options(queue=...) may bring jobs there."""
    job = shop.tasks.work.options(queue="reprots").enqueue(number=1)
    told = shop.drain("--queues", "default,reprots", "--log-level", "warning").words
    assert re.fullmatch(
        r"\S+ ⚠ no task of the app is declared for queue 'reprots', named in --queues; it has tasks for .*\n", told
    )
    assert job.status() == "completed"
    assert shop.drain("--queues", "default", "--log-level", "warning").words == ""


def test_an_objective_about_what_is_not_there_is_worth_a_warning(shop, tmp_path, monkeypatch):
    """It may be about another app's, and is taken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text("[objectives.done]\ntask = 'wrok'\ntarget = 0.9\n")
    told = shop.drain("--log-level", "warning").words
    assert told.endswith(
        " objective 'done' is about task 'wrok', which the app does not have; did you mean work?\n"
    )


def test_what_handlers_log_stands_among_the_events(shop):
    """Records of the app and of the job are one line each, named by their logger or their job."""
    job = shop.tasks.speak.enqueue(words="hello")
    told = shop.drain().words
    assert f" · speak {job.id[-8:]}: job says hello\n" in told
    assert f" · speak {job.id[-8:]} shop.mail: app says hello\n" in told
    assert "debug says" not in told
    assert f" ✘ speak {job.id[-8:]} shop.mail: it failed\n" in told
    assert "ValueError: invalid literal" in told


def test_in_json_everything_is_json(shop):
    """Records, their extra fields and warnings have the same form as events, whatever the app has set up itself."""
    job = shop.tasks.speak.enqueue(words="hello")
    objects = objects_of(shop.drain("--log-format", "json", "--log-level", "debug", LOGS_APP_CONSOLE="1"))
    logged = {each["message"].splitlines()[0]: each for each in objects if each["event"] == "log"}
    said = logged["job says hello"]
    assert (said["job_id"], said["task"], said["attempt"], said["order"]) == (job.id, "speak", 1, 42)
    assert said["logger"] == "standfast.job"
    assert "worker" in said
    assert logged["app says"]["message"] == "app says\nhello"
    assert "ValueError" in logged["it failed"]["traceback"]
    assert any("warning says hello" in each["message"] for each in objects)


def test_an_app_that_has_its_own_console_keeps_it(shop):
    """Its records are told once, by itself."""
    shop.tasks.speak.enqueue(words="hello")
    told = shop.drain(LOGS_APP_CONSOLE="1").words
    assert told.count("job says hello") == 1
    assert "MINE job says hello\n" in told
