"""The Django app as Django sees it, in processes of their own: a process knows one set of settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
MANAGE = TESTS / "django_shop" / "manage.py"


@pytest.fixture
def manage(tmp_path):
    """Give a way to run `manage.py`, from a folder that is not the project's."""

    def run(*words, **environment):
        given = {
            **os.environ,
            "SHOP_URL": f"sqlite:///{tmp_path}/shop.db",
            "SHOP_ELSEWHERE": f"sqlite:///{tmp_path}/elsewhere.db",
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
            **environment,
        }
        command = [sys.executable, MANAGE, *words]
        return subprocess.run(
            command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )

    return run


def test_what_needs_no_worker(manage):
    """Settings, their checks, the command, and connections: tests of Django's kind."""
    manage("migrate", "--run-syncdb", "-v0")
    assert manage("standfast", "migrate").returncode == 0
    tested = manage("test", "djshop.alone")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_worker_works_for_the_project_wherever_it_is_started(manage):
    """Its processes have a Django that is set up, by the settings that were named."""
    enqueued = manage("shell", "-c", "from djshop.shop_tasks import mail; mail.enqueue('ada')")
    assert enqueued.returncode == 0, enqueued.stderr
    worked = manage(
        "standfast", "worker", "--drain", "--settings", "djshop.settings", DJANGO_SETTINGS_MODULE="none"
    )
    assert worked.returncode == 0, worked.stderr
    listed = manage("standfast", "jobs", "list", "--json")
    [job] = json.loads(listed.stdout)
    assert (job["task"], job["state"], job["result"]["value"]) == ("django.default", "completed", "ada")


def test_mistakes_are_told_in_one_line(manage):
    """By the command, and by Django's checks."""
    wrong = json.dumps({"APP": "djshop.gone:app"})
    ended = manage("standfast", "jobs", "list", SHOP_STANDFAST=wrong)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "there is no module 'djshop.gone'" in ended.stderr
    checked = manage("check", SHOP_STANDFAST=json.dumps({"APP": "djshop.jobs:app", "EMBEDED": True}))
    assert checked.returncode == 1
    assert "(standfast.E002) STANDFAST has no key 'EMBEDED'" in checked.stderr
    assert "HINT: did you mean 'EMBEDDED'?" in checked.stderr


FIRST_REQUEST = """
import django, time
from django.core.signals import request_started
django.setup()
from standfast.hosts.django.embedded import embedded_host
host = embedded_host()
print(host.state)
for _ in range(2):
    request_started.send(sender=None)
while host.state == "new":
    time.sleep(0.01)
host.ready(60)
print(host.state)
"""


def test_the_first_request_starts_the_worker_where_nobody_knows_whether_a_process_serves(tmp_path):
    """As in a server that is started in code: who gets requests serves them."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "SHOP_URL": f"sqlite:///{tmp_path}/shop.db",
        "SHOP_ELSEWHERE": f"sqlite:///{tmp_path}/elsewhere.db",
        "SHOP_STANDFAST": json.dumps({"APP": "djshop.jobs:app", "EMBEDDED": True}),
        "DJANGO_SETTINGS_MODULE": "djshop.settings",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(MANAGE.parent)]),
    }
    served = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST], env=given, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert served.stdout.split() == ["new", "working"], served.stderr


def test_a_management_command_starts_no_worker(manage):
    """Even where the settings want one inside the processes that serve."""
    wants = json.dumps({"APP": "djshop.jobs:app", "EMBEDDED": True})
    code = "import sys, threading; print(threading.active_count(), 'djshop.jobs' in sys.modules)"
    looked = manage("shell", "--no-imports", "-c", code, SHOP_STANDFAST=wants)
    assert looked.stdout.split() == ["1", "False"], looked.stderr
