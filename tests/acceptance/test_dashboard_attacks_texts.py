"""Attack: texts that mean something to a browser, and secrets that somebody would like to read."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from poison import FIELDS, POISON, SECRET, poison
from siege import PASSWORD, TOKEN, besieged, csrf_of, told

import standfast.dashboard.web
from standfast.admin.registry import OPERATIONS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("siege")


@pytest.fixture(scope="module")
def ids(folder):
    return poison(folder)


@pytest.fixture(scope="module")
def siege(folder, ids):
    assert ids
    with besieged(folder) as siege:
        yield siege
    assert "Traceback" not in told(folder)


class Page(HTMLParser):
    """What a browser makes of a page, as far as it could do harm."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def harm(self):
        """Return what is not of our own making, or could run or load something."""
        for tag, attributes in self.found:
            if tag.startswith("x-") or tag in {"img", "iframe", "object", "embed", "base", "style"}:
                yield tag
            if tag == "script" and not re.fullmatch(r"/static/\w+\.[0-9a-f]{12}\.js", attributes.get("src", "")):
                yield attributes
            for name, value in attributes.items():
                if name.startswith("on") or name == "style":
                    yield name
                if name in {"href", "src", "action", "formaction"} and not re.match(r"/(?!/)|#|$", value or ""):
                    yield value


def pages(ids):
    """Return where what is in the store is seen."""
    named = {"queues": "queue", "schedules": "schedule", "workers": "worker", "tasks": "task"}
    paths = [f"/{kind}/{quote(POISON[field], safe='')}" for kind, field in named.items()]
    paths += [f"/jobs/{ids[name]}" for name in ("dead", "done", "running")]
    paths += [f"/{name}" for name in ("", "jobs", "dead", "locks", "incidents", "audit", "settings", *named)]
    paths += ["/alerts", "/alerts/rules", "/objectives"]
    every = "&".join(f"{name}={quote(POISON[name])}" for name in ("task", "queue", "key", "tag", "error"))
    paths += [f"/incidents/{ids['incident']}", f"/jobs?{every}", f"/jobs/bulk?action=cancel&{every}"]
    paths += [f"/jobs?text={quote(POISON['note'])}&nix={quote(POISON['note'])}", f"/nix/{quote(POISON['task'])}"]
    return [*paths, *(f"/jobs/{quote(POISON['note'])}", "/jobs?limit=<script>", "/jobs?since=<script>")]


def test_what_is_stored_is_text_and_nothing_else(siege, ids):
    """On every page, whole and live, in both languages; and each of the texts is seen somewhere, unharmed."""
    client = siege.signed_in()
    seen = set()
    for path in pages(ids):
        for language in ("en", "zh-Hant"):
            at = f"{path}{'&' if '?' in path else '?'}lang={language}"
            page = Page(client.get(at).text)
            assert list(page.harm()) == [], path
            whole = " ".join(page.texts)
            seen |= {name for name in FIELDS if f"><x-{name} onerror=alert(1)>" in whole}
        frame = Page(client.get("/frame", params={"at": path}).text)
        assert list(frame.harm()) == [], path
    assert seen == set(FIELDS)


def test_what_is_said_once_is_text(siege, ids):
    """What an operation answers, or a cookie that somebody else has set."""
    client = siege.signed_in()
    csrf = csrf_of(client)
    client.post("/do/schedules.resume", data={"name": POISON["schedule"], "csrf": csrf})
    assert list(Page(client.get("/").text).harm()) == []
    client.post("/do/queues.pause", data={"name": POISON["queue"], "csrf": csrf, "back": f"/jobs/{ids['dead']}"})
    page = client.get("/")
    assert "x-queue" in page.text, "it is said what was wrong"
    assert list(Page(page.text).harm()) == []
    assert "49" not in re.findall(r"queue[^<]{0,200}", page.text)[0], "nothing is worked out"


def test_our_script_writes_no_html_of_its_own():
    """Texts become nodes, and what comes from the server is parsed apart; nothing is worked out from a text."""
    static = Path(standfast.dashboard.web.__file__).parent / "static"
    for file in static.glob("*.js"):
        words = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|setTimeout\(['\"]"
        )
        assert re.findall(words, file.read_text()) == [], file.name


def test_files_of_jobs_are_no_programs(siege):
    """Neither for a browser nor for a spreadsheet."""
    client = siege.signed_in()
    for kind, media in (("csv", "text/csv"), ("json", "application/json")):
        for path in ("/jobs/export", "/api/v1/jobs/export"):
            answer = client.get(path, params={"format": kind})
            assert answer.headers["content-type"].startswith(media)
            assert answer.headers["content-disposition"] == f'attachment; filename="jobs.{kind}"'
            assert POISON["task"].replace('"', '""' if kind == "csv" else '\\"') in answer.text


def everything(client, ids):
    """Yield all that can be read by pages and by the API."""
    for path in pages(ids):
        yield client.get(path)
        yield client.get("/frame", params={"at": path})
    named = {
        "jobs": ids["dead"],
        "incidents": ids["incident"],
        "queues": "x",
        "workers": "x",
        "schedules": "nightly",
    }
    for operation in OPERATIONS:
        if not operation.changes:
            kind = operation.name.partition(".")[0]
            value = named.get(kind, "x")
            yield client.get(f"/api/v1{operation.path.format(id=value, name=value)}")
    yield client.get("/api/v1/openapi.json")
    yield client.get("/api/v1/jobs/export", params={"format": "csv"})


def test_secrets_are_nowhere_to_be_read(siege, ids, folder):
    """Not the argument of a job, not in a copy of it, not our token or password; nor by searching."""
    client = siege.signed_in()
    csrf = {"x-csrf-token": csrf_of(client)}
    signal = {"name": "go", "data": {"password": "signal-secret-1"}, "token": "signal-secret-2"}
    assert client.post(f"/api/v1/jobs/{ids['running']}/signal", json=signal, headers=csrf).status_code == 200
    edit = {"args": {POISON["parameter"]: "x", "password": "edit-secret-3"}}
    client.post(f"/api/v1/jobs/{ids['dead']}/edit_and_retry", json=edit, headers=csrf)
    secrets = (SECRET, TOKEN, PASSWORD, "argon2", client.cookies[siege.session])
    texts = [answer.text for answer in everything(client, ids)]
    assert sum(map(len, texts)) > 100_000
    for secret in (*secrets, "signal-secret-2"):
        assert not [text for text in texts if secret in text]
    audit = client.get("/api/v1/audit").text
    assert "jobs.signal" in audit
    assert not [each for each in ("signal-secret-1", "signal-secret-2", "edit-secret-3") if each in audit]
    assert client.get("/api/v1/jobs", params={"text": SECRET}).json()["rows"] == []
    assert client.get("/api/v1/jobs", params={"text": "hunter2"}).json()["rows"] == []
    assert not [secret for secret in secrets if secret in told(folder)]
