"""The dashboard in a Django site under gunicorn: its staff come in as they are, and act in any of its processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fleet import PATIENCE, wait_until
from host_stage import OURS

from servers.process import free_port

HERE = Path(__file__).parent


@pytest.fixture
def site(tmp_path):
    """Give the address of a site that two processes of gunicorn serve, and a job that waits."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    given = {**kept, "SITE_FOLDER": str(tmp_path)}
    prepare = [sys.executable, "-c", "import dashboard_django; print(dashboard_django.prepare())"]
    job = subprocess.run(prepare, cwd=HERE, env=given, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    where = ("--chdir", str(HERE), "--bind", f"127.0.0.1:{port}", "--no-control-socket", "--workers", "2")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "dashboard_django:web", *where, "--preload"],
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: process.poll() is not None or answers(port), what="the first answer")
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield f"http://127.0.0.1:{port}", job
    finally:
        process.terminate()
        process.wait(PATIENCE)
    assert "Traceback" not in (tmp_path / "log").read_text()


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ops/jobs/sign-in").is_success
    except httpx.TransportError:
        return False


def test_staff_come_in_see_and_act(site):
    """Superusers are admins, other staff operators, and nobody else comes in; files, frames and forms work."""
    home, job = site
    with httpx.Client(base_url=home, headers={"accept": "text/html"}) as browser:
        stranger = browser.get("/ops/jobs/queues")
        assert stranger.headers["location"] == "/ops/jobs/sign-in?next=%2Fops%2Fjobs%2Fqueues"
        browser.get("/enter/eve")
        assert browser.get("/ops/jobs/queues").status_code == 303
        browser.get("/enter/sam")
        page = browser.get(f"/ops/jobs/jobs/{job}")
        assert page.status_code == 200, page.text
        for file in set(re.findall(r'"(/ops/jobs/static/[^"]+)"', page.text)):
            assert browser.get(file).is_success
        assert browser.get("/ops/jobs/frame?at=/queues").is_success
        assert browser.get("/ops/jobs/live?at=/queues", timeout=PATIENCE).status_code == 501
        form = {"id": job, "csrf": csrf_in(page)}
        for _ in range(8):  # whichever process answers knows the token
            assert browser.post("/ops/jobs/do/jobs.discard", data=form, headers={"origin": home}).status_code != 401
        assert state(browser, job) == "ready"
        assert browser.post("/ops/jobs/do/jobs.cancel", data=form).status_code == 403  # without an origin
        done = browser.post("/ops/jobs/do/jobs.cancel", data=form, headers={"origin": home})
        assert done.status_code == 303, done.text
        assert {state(browser, job) for _ in range(8)} == {"cancelled"}, "whichever process answers"
        file = browser.get("/ops/jobs/jobs/export")
        assert ([row["id"] for row in file.json()], "content-length" in file.headers) == ([job], False)
        browser.get("/enter/root")
        audit = browser.get("/ops/jobs/api/v1/audit?what=jobs.cancel").json()["entries"]
        assert [(each["who"], each["error"]) for each in audit] == [("sam", None)]


def state(browser, job):
    return browser.get(f"/ops/jobs/api/v1/jobs/{job}").json()["state"]


def csrf_in(page):
    return page.text.partition('name="csrf" value="')[2].partition('"')[0]
