"""Settings come from a file, the code, the environment and the command line, and real workers heed all of them."""

import subprocess
import sys

import pytest
from shopfloor import Shop, assert_one_line, environment, run

USAGE = 2


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A shop whose app says lease=10, beat=0.25, grace=5 and store_timeout=5, in the working directory."""
    monkeypatch.chdir(tmp_path)
    with Shop(tmp_path) as shop:
        yield shop


def registered(shop):
    [worker] = shop.asked("workers")
    return worker["lease"], worker["concurrency"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("standfast.toml", "lease = 7\nconcurrency = 3\n"),
        ("pyproject.toml", "[project]\nname = 'shop'\n\n[tool.standfast]\nlease = '7s'\nconcurrency = 3\n"),
    ],
)
def test_configuration_of_a_worker(shop, tmp_path, file, text):
    """The file goes before the default and after the code, then the environment, then the command line."""
    (tmp_path / file).write_text(text)
    worker = shop.worker()
    assert registered(shop) == (10, 3)
    assert worker.stop() == 0
    worker = shop.worker(STANDFAST_LEASE="20s", STANDFAST_CONCURRENCY="4")
    assert registered(shop) == (20, 4)
    assert worker.stop() == 0
    shop.worker("--lease", "30", STANDFAST_LEASE="20s", STANDFAST_CONCURRENCY="4")
    assert registered(shop) == (30, 4)


def test_configuration_of_a_namespace_by_environment(shop, tmp_path, monkeypatch):
    """Who shares an environment shares a namespace; --url changes the URL only, and --namespace goes before all."""
    (tmp_path / "shop.toml").write_text("namespace = 'blue'\n")
    surroundings = {"STANDFAST_CONFIG": str(tmp_path / "shop.toml")}
    code = "import shop; print(shop.pack.enqueue(order=5).id)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(**surroundings), capture_output=True, text=True, check=True
    )
    job_id = done.stdout.strip()
    shop.drain(**surroundings)
    told = run("jobs", "show", job_id, "--url", shop.url, "--json", **surroundings)
    assert '"completed"' in told.stdout, told.stderr
    assert run("jobs", "show", job_id, "--url", shop.url, "--namespace", "green", **surroundings).returncode == 3
    monkeypatch.setenv("STANDFAST_NAMESPACE", "green")
    assert run("jobs", "show", job_id, "--url", shop.url, **surroundings).returncode == 3


def test_configuration_errors_are_told_at_once(shop, tmp_path):
    """Whatever is wrong in a file, in the environment and in the code stands in one line, each with its source."""
    (tmp_path / "standfast.toml").write_text("hang_limit = 0\ngrase = 3\n")
    (tmp_path / "wrong.py").write_text(
        "from standfast import Standfast\napp = Standfast('nowhere', safety_poll=-1)\n"
    )
    wrong = {"STANDFAST_CONCURRENCY": "many", "STANDFAST_LEASSE": "3"}
    expected = (
        "6 problems",
        "hang_limit=0 (from standfast.toml): must be above 0 seconds",
        "unknown setting grase (from standfast.toml); did you mean grace?",
        "url (from the code): the store URL has no scheme",
        "safety_poll=-1 (from the code)",
        "concurrency=many (from STANDFAST_CONCURRENCY)",
        "unknown variable STANDFAST_LEASSE; did you mean STANDFAST_LEASE?",
    )
    for command in (["worker", "wrong:app"], ["doctor", "wrong:app"], ["check", "wrong:app"]):
        ended = run(*command, **wrong)
        assert ended.returncode == USAGE, ended.stderr
        assert_one_line(ended.stderr, *expected)
    assert not shop.database.exists()


def test_configuration_errors_never_repeat_a_password(shop):
    """Wherever the URL of a store stands by mistake, its password stays where it is."""
    url = "postgres://shop:geheim@db/jobs"
    for name in ("STANDFAST_NAMESPACE", "STANDFAST_LEASE", "STANDFAST_CONCURRENCY"):
        ended = run("worker", "shop:app", "--app-dir", str(shop.folder), **{name: url})
        assert ended.returncode == USAGE
        assert_one_line(ended.stderr, name)
        assert "geheim" not in ended.stderr
    told = shop.drain(STANDFAST_DATABASE_URL=url).words  # what is unknown stops no program
    assert "unknown variable STANDFAST_DATABASE_URL" in told
    assert "geheim" not in told
