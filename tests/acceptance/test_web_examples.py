"""The example web apps, as a reader would start them: a job is enqueued, its progress is seen, its result comes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fleet import PATIENCE, wait_until
from host_stage import OURS

from servers.process import free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "web"
FRAMEWORKS = ("fastapi", "flask", "django")
TOKEN = "of-a-test-and-long-enough"
LONGEST_EXAMPLE = 120


@pytest.fixture
def shop(framework, tmp_path):
    """Give the page of an example that runs in an empty folder, and stop it by Ctrl-C."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / f"{framework}_shop.py")],
            cwd=tmp_path,
            env={**kept, "PORT": str(port), "HEALTH_TOKEN": TOKEN, "DASHBOARD_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            wait_until(lambda: process.poll() is not None or answers(client), what="the first answer")
            assert process.poll() is None, log.read_text()
            yield client
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE)
    assert "Traceback" not in log.read_text()


def answers(client):
    try:
        return client.get("/").is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_example_enqueues_shows_progress_and_a_result(shop):
    """As its page does: an order, looks at its progress, and the result; a scheduled job runs besides."""
    page = shop.get("/").text
    for name in re.findall(r'(?:src|href)="([\w.]+)"', page):
        assert shop.get(f"/{name}").is_success
    assert not re.search(r"https?://", page)

    headers = {"X-CSRFToken": shop.cookies.get("csrftoken", "")}
    ordered = shop.post("/months/2026-10/report", headers=headers)
    assert ordered.status_code == 202, ordered.text
    seen = []

    def over():
        seen.append(shop.get(f"/jobs/{ordered.json()['id']}").json())
        return seen[-1]["state"] == "completed"

    wait_until(over, what="the report")
    assert seen[-1]["result"] == "1,260 orders in 2026-10"
    done = [look["done"] for look in seen]
    assert done == sorted(done)
    assert [share for share in done if 0 < share < 30], "no progress was seen"
    wait_until(lambda: any("on the shelves" in (job["result"] or "") for job in shop.get("/stock").json()))
    assert shop.get("/jobs/nothing").status_code == 404


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_example_tells_its_health_and_shows_its_dashboard_to_who_has_the_token(shop):
    """Nobody else learns anything."""
    with_token = {"Authorization": f"Bearer {TOKEN}"}
    wait_until(lambda: shop.get("/health/readyz", headers=with_token).is_success, what="readiness")
    assert shop.get("/health/readyz").status_code == 401
    assert shop.get("/dashboard/api/v1/overview").status_code == 401
    assert shop.get("/dashboard/api/v1/workers", headers=with_token).json()["workers"]
    signed = shop.post("/dashboard/sign-in", data={"token": TOKEN}, headers={"Origin": str(shop.base_url)})
    assert (signed.status_code, signed.headers["location"]) == (303, "/dashboard/")
    tasks = shop.get("/dashboard/tasks").text
    assert "monthly_report" in tasks
    for file in re.findall(r'"(/dashboard/static/[^"]+)"', tasks):
        assert shop.get(file).is_success


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_short(file):
    """People read and copy them."""
    assert len(file.read_text().splitlines()) < LONGEST_EXAMPLE
