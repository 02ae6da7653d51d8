"""What a handler held when its worker died is in no evidence: not in the export, the folder, the store, the log."""

import json
import zipfile
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from shopfloor import STANDFAST, Worker, environment, import_anew, run

from standfast.model.records import Kind

TOKEN = "tok/5Kq+9xYz ☂ 'quoted'"
"""An argument that is marked as secret."""

PASSWORD = "hunter2/Correct+Horse=Battery Staple"
"""What nobody has marked: a handler reads it from the environment and keeps it in a local."""

APP = """
import os
import threading
from base64 import b64encode
from typing import Annotated

from standfast import Context, Standfast, Secret

app = Standfast(os.environ["SHOP_URL"])

def lose(token, password):
    url = f"https://shop:{password}@bank.example/?token={token}"
    raise RuntimeError(f"nobody hears this, of {len(url)} characters")

@app.task(max_attempts=1)
async def crash(ctx: Context, token: Annotated[str, Secret]) -> None:
    password = os.environ["SHOP_PASSWORD"]
    header = {"Authorization": "Basic " + b64encode(f"shop:{password}".encode()).decode()}
    ctx.log.warning("paying with %s", token)
    os._exit(len(header) + 8)

@app.task(max_attempts=1)
def crash_in_a_thread_of_ours(ctx: Context, token: Annotated[str, Secret]) -> None:
    password = os.environ["SHOP_PASSWORD"]
    ctx.log.warning("paying with %s", token)
    os._exit(8 + bool(password))

@app.task(max_attempts=1)
def raise_in_a_thread_of_its_own(ctx: Context, token: Annotated[str, Secret]) -> None:
    ctx.log.warning("paying with %s", token)
    thread = threading.Thread(target=lose, args=(token, os.environ["SHOP_PASSWORD"]))
    thread.start()
    thread.join()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path, monkeypatch):
    """Give the app, its URL, and a state folder of its own."""
    url = f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    for name, value in {
        "SHOP_URL": url,
        "SHOP_PASSWORD": PASSWORD,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "shop.py").write_text(APP)
    made = import_anew(tmp_path / "shop.py")
    made.LOG_FORMAT = "human" if request.param == "sqlite" else "json"
    yield made
    made.app.close()


def test_no_secret_of_a_handler_is_in_the_evidence_of_its_end(shop, tmp_path):
    """Two handlers end their process, another raises where nobody listens; all of them hold two secrets."""
    log = ""
    for task in (shop.raise_in_a_thread_of_its_own, shop.crash, shop.crash_in_a_thread_of_ours):
        task.enqueue(token=TOKEN)
        log += drained(tmp_path, "--log-level", "debug", "--log-format", shop.LOG_FORMAT)

    listed = asked(shop, "list")
    assert {job["task"] for incident in listed for job in incident["jobs"]} >= {
        "crash",
        "crash_in_a_thread_of_ours",
    }
    told = run("incidents", "export", "--all", "--to", str(tmp_path / "all.zip"), "--url", shop.app.settings.url)
    assert told.returncode == 0, told.stderr

    places = {"the log": log.encode(), "the list": json.dumps(listed).encode()}
    places |= {f"show {each['id']}": json.dumps(asked(shop, "show", each["id"])).encode() for each in listed}
    places |= archived(tmp_path / "all.zip") | written(tmp_path / "state") | recorded(shop.app)
    assert len([place for place in places if place.startswith("zip ") and place.endswith(".txt")]) >= len(listed)
    assert len([place for place in places if place.startswith("folder ")]) >= 2 * len(listed)
    assert len([place for place in places if place.startswith("record ")]) == 2 * len(listed)
    assert "paying with ••••" in log, "a handler has logged its secret"
    for place, content in places.items():
        assert [form for form in forms(TOKEN) | forms(PASSWORD) if form in content] == [], place


def drained(folder, *options):
    """Run a worker until nothing is left to do, and return what it said."""
    command = [STANDFAST, "worker", "shop:app", "--app-dir", str(folder), "--drain", *options]
    worker = Worker(command, folder / "worker.log", environment(TMPDIR=str(folder)))
    try:
        assert worker.wait() == 0, worker.words
    finally:
        worker.kill()
    return worker.words


def asked(shop, *words):
    """Ask the command line about incidents, as from any machine."""
    told = run("incidents", *words, "--url", shop.app.settings.url, "--json")
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def archived(file):
    """Return what is in an archive, and the archive as it is."""
    with zipfile.ZipFile(file) as archive:
        inside = {f"zip {name}": name.encode() + archive.read(name) for name in archive.namelist()}
    return {**inside, "the archive": file.read_bytes()}


def written(folder):
    """Return all files below a folder."""
    return {f"folder {file}": file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def recorded(app):
    """Return what the store holds of incidents."""
    records = [record for kind in (Kind.INCIDENT, Kind.EVIDENCE) for record in app.call(app.verbs.records(kind))]
    return {f"record {record.kind} {record.name}": record.body for record in records}


def forms(secret):
    """Return the ways to write a secret that give it away, in base64 wherever in a longer text it began."""
    raw = secret.encode()
    encoded = {raw, repr(secret)[1:-1].encode(), json.dumps(secret)[1:-1].encode()}
    encoded |= {
        quote(secret).encode(),
        quote(secret, safe="").encode(),
        quote_plus(secret).encode(),
        raw.hex().encode(),
    }
    for shift in range(3):
        inner = raw[(3 - shift) % 3 :]
        whole = inner[: len(inner) // 3 * 3]
        encoded |= {b64encode(whole), urlsafe_b64encode(whole)}
    return encoded
