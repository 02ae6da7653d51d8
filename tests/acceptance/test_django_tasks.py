"""Django's TASKS on Standfast, and transactions that take jobs along: what Django expects, with a real worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROJECT = TESTS / "django_shop"
PATIENCE = 110


@pytest.fixture(params=["sqlite", "postgres"])
def environment(request, tmp_path):
    """Give the environment of a project, whose jobs are in its own database."""
    sqlite = f"sqlite:///{tmp_path}/shop.db"
    url = sqlite if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {
        **os.environ,
        "SHOP_URL": url,
        "SHOP_ELSEWHERE": f"sqlite:///{tmp_path}/elsewhere.db",
        "PYTHONPATH": path,
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }


def manage(*words, environment, cwd):
    ended = subprocess.run(
        [sys.executable, PROJECT / "manage.py", *words],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


def test_what_django_expects_of_a_backend(environment, tmp_path):
    """Results, errors, contexts, signals, views and transactions; the worker is `manage.py standfast worker`."""
    manage("migrate", "--run-syncdb", "-v0", environment=environment, cwd=tmp_path)
    manage("standfast", "migrate", environment=environment, cwd=tmp_path)
    log = tmp_path / "worker.log"
    with log.open("wb") as told:
        worker = subprocess.Popen(
            [sys.executable, PROJECT / "manage.py", "standfast", "worker", "--concurrency", "1"],
            env=environment,
            cwd=tmp_path,
            stdout=told,
            stderr=told,
        )
    try:
        tested = manage("test", "djshop.expectations", "--failfast", environment=environment, cwd=tmp_path)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0, log.read_text()
    assert "OK" in tested.stderr
    assert "skipped" not in tested.stderr
