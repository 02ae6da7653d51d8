"""Users test their jobs with the fixtures of the plugin alone: in a real pytest, in a project of their own."""

import os
import re
import subprocess
import sys

import pytest

JOBS = """
from standfast import Context, Standfast

app = Standfast("sqlite:///production.db")
CHARGED = {}
MAILS = []


@app.task(queue="mail")
async def send_email(to: str, subject: str) -> None:
    MAILS.append(to)


@app.task(max_attempts=3, backoff=60)
def charge(ctx: Context, order: int) -> str:
    CHARGED[ctx.idempotency_key] = order
    ctx.fault_point("charge")
    send_email.enqueue(f"{order}@example.com", subject="Thank you")
    return "charged"
"""

CONFTEST = """
import jobs
import pytest


@pytest.fixture
def standfast_app():
    jobs.CHARGED.clear()
    jobs.MAILS.clear()
    return jobs.app
"""

TESTS = """
import asyncio

from jobs import CHARGED, MAILS, charge, send_email


def test_drain(standfast_kit):
    handle = charge.enqueue(7)
    standfast_kit.drain()
    assert handle.result() == "charged"
    assert MAILS == ["7@example.com"]


def test_starts_empty(standfast_kit):
    assert standfast_kit.enqueued() == []


def test_crash(standfast_kit):
    charge.enqueue(7)
    with standfast_kit.crash_after("charge"):
        standfast_kit.drain()
    assert MAILS == []
    standfast_kit.drain()
    assert list(CHARGED.values()) == [7]
    assert MAILS == ["7@example.com"]


def test_retry(standfast_kit):
    charge.enqueue(7)
    with standfast_kit.fail_at("charge", ConnectionError("down"), times=2):
        runs = standfast_kit.drain_all()
    assert [run.outcome for run in runs] == ["retry", "retry", "complete", "complete"]


def test_inline(standfast_kit):
    with standfast_kit.inline():
        assert charge.enqueue(7).result() == "charged"


def test_async(standfast_kit):
    async def scenario():
        handle = await charge.aenqueue(7)
        await standfast_kit.adrain()
        return await handle.aresult()

    assert asyncio.run(scenario()) == "charged"


def test_wrong_expectation(standfast_kit):
    charge.enqueue(7)
    standfast_kit.drain()
    standfast_kit.assert_enqueued(send_email, to="8@example.com")
"""

AN_EMPTY_APP = """
import pytest
from standfast import Standfast


@pytest.fixture
def standfast_app():
    with Standfast("memory://") as app:
        yield app


def test_declares_its_own(standfast_kit):
    @standfast_kit.app.task
    def double(number: int) -> int:
        return 2 * number

    handle = double.enqueue(21)
    standfast_kit.drain()
    assert handle.result() == 42
"""

NO_APP = """
from jobs import charge


def test_charge(standfast_kit):
    charge.enqueue(7)
"""

THE_MODULE = """
import jobs
import pytest


@pytest.fixture
def standfast_app():
    return jobs
"""

EXAMPLE = """
    @pytest.fixture
    def standfast_app():
        from myproject.jobs import app
        return app
"""

UNGUARDED = """
import asyncio

import jobs
import pytest
from standfast import ConfigurationError, Standfast


@pytest.fixture(scope="session")
def shared():
    with pytest.raises(ConfigurationError):
        jobs.app.prepare()


def test_enqueue():
    with pytest.raises(ConfigurationError) as raised:
        jobs.send_email.enqueue("a@example.com", subject="oh")
    for words in ("production.db", "standfast_kit", "STANDFAST_URL="):
        assert words in str(raised.value)


def test_other_ways(shared):
    import jobs_imported_late

    with pytest.raises(ConfigurationError):
        asyncio.run(jobs.charge.aenqueue(7))
    with pytest.raises(ConfigurationError):
        jobs_imported_late.app.prepare()


def test_with_the_kit_it_works(standfast_kit):
    jobs.send_email.enqueue("a@example.com", subject="oh")
    assert len(standfast_kit.drain()) == 1


def test_an_app_of_the_tests_is_theirs(tmp_path):
    with Standfast(f"sqlite:///{tmp_path}/own.db") as app:
        app.prepare()
    with jobs.make(f"sqlite:///{tmp_path}/made.db") as app:
        app.prepare()
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["made.db", "own.db"]
"""

TOLD = """
import jobs


def test_integration():
    assert jobs.send_email.enqueue("a@example.com", subject="oh").job().task == "send_email"
"""

UNUSED = """
import sys


def test_nothing_of_standfast_is_imported():
    assert [name for name in sys.modules if name.split(".")[0] == "standfast"] == []
"""

WORDS = [
    "send_email with to='8@example.com' was not enqueued",
    "jobs of send_email:",
    "  to='7@example.com', subject='Thank you', queue='mail' (completed) <- differs: to",
    "other tasks: charge (1)",
]


@pytest.fixture
def project(tmp_path):
    """Give a way to make a project and run its tests."""

    def run(environment=None, **files):
        (tmp_path / "tmp").mkdir(exist_ok=True)  # or else the whole project would lie in a temporary folder
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STANDFAST", "PYTEST"))}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:randomly", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={**kept, "TMPDIR": str(tmp_path / "tmp"), **(environment or {}), "COLUMNS": "150"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_a_project_tests_its_jobs_with_the_fixtures_alone(project, tmp_path):
    """All that should pass passes, what should fail says why, and the store of the app is never touched."""
    ran = project(jobs=JOBS, conftest=CONFTEST, test_jobs=TESTS)
    verdicts = dict(re.findall(r"::test_(\w+) (PASSED|FAILED|ERROR)", ran.stdout))
    wrong = [name for name, verdict in verdicts.items() if verdict != "PASSED"]
    assert (len(verdicts), wrong) == (7, ["wrong_expectation"]), ran.stdout + ran.stderr
    told = [line.removeprefix("E").strip() for line in ran.stdout.splitlines() if line.startswith("E ")]
    assert told == [f"AssertionError: {WORDS[0]}", *(line.strip() for line in WORDS[1:])]
    assert "standfast_kit.assert_enqueued(send_email" in ran.stdout
    assert "kit.py" not in ran.stdout.partition("FAILURES")[2]
    assert not (tmp_path / "production.db").exists()


def test_a_test_may_bring_an_empty_app_and_declare_its_tasks_itself(project):
    ran = project(test_alone=AN_EMPTY_APP)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_without_an_app_the_kit_says_what_to_write(project, tmp_path):
    """It does not take an empty app: the tasks under test would write to the database of their own."""
    ran = project(jobs=JOBS, test_jobs=NO_APP)
    assert "define a fixture `standfast_app` in conftest.py that returns your app" in ran.stdout, ran.stdout
    assert EXAMPLE in ran.stdout
    assert "1 error in" in ran.stdout
    assert not (tmp_path / "production.db").exists()


def test_a_fixture_that_returns_no_app_is_told_so(project, tmp_path):
    ran = project(jobs=JOBS, conftest=THE_MODULE, test_jobs=NO_APP)
    assert "the fixture `standfast_app` returned the module 'jobs', not an app" in ran.stdout, ran.stdout
    assert EXAMPLE in ran.stdout
    assert not (tmp_path / "production.db").exists()


def test_a_test_without_the_kit_does_not_write_to_the_store_of_the_app(project, tmp_path):
    """It is told what to do, in whatever way it comes to open it; apps of the tests' own are left alone."""
    late = JOBS.replace("production", "late")
    factory = "\n\ndef make(url):\n    return Standfast(url)\n"
    ran = project(jobs=JOBS + factory, jobs_imported_late=late, conftest=CONFTEST, test_jobs=UNGUARDED)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(path.name for path in tmp_path.glob("*.db")) == []


def test_a_test_that_names_a_store_by_the_variable_uses_it(project, tmp_path):
    """So integration tests go on: they say which database is theirs."""
    ran = project({"STANDFAST_URL": f"sqlite:///{tmp_path}/tests.db"}, jobs=JOBS, test_jobs=TOLD)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["tests.db"]


def test_the_plugin_costs_nothing_where_it_is_not_used(project):
    """pytest loads it in every run, and it imports nothing of Standfast until a test asks for a fixture."""
    ran = project(test_unused=UNUSED)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"plugins: .*standfast", ran.stdout), ran.stdout
