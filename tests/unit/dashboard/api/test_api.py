"""The JSON API: what operations answer, what is wrong in one form, and a document that says all of it."""

import json

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from standfast.admin.operation import Role
from standfast.admin.registry import OPERATIONS
from standfast.dashboard.api import LONGEST_BODY, PREFIX, routes
from standfast.errors import StoreUnavailableError


@pytest.fixture
def role():
    return [Role.ADMIN]


class Client:
    """Asks the API on the loop of a stage."""

    def __init__(self, stage, app):
        self._stage = stage
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver")

    def get(self, path, **more):
        return self._stage.wait(self._client.get(path, **more))

    def post(self, path, **more):
        return self._stage.wait(self._client.post(path, **more))

    def delete(self, path):
        return self._stage.wait(self._client.delete(path))


@pytest.fixture
def client(stage, role):
    return Client(stage, Starlette(routes=routes(lambda _request: stage.desk(role[0]))))


def get(client, path, **query):
    return client.get(f"{PREFIX}{path}", params=query)


def post(client, path, body=None, **more):
    return client.post(f"{PREFIX}{path}", json=body, **more) if body is not None else client.post(f"{PREFIX}{path}")


def error(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()["error"]
    assert set(told) == {"code", "message", "status"}
    assert told["status"] == status
    return told


def test_reads_take_their_fields_from_the_url(stage, client):
    """A field that takes several may be given several times; empty ones say nothing."""
    dead, done = stage.dead(), stage.completed()
    answer = client.get(f"{PREFIX}/jobs?state=dead&state=completed&limit=1&task=")
    assert [row["id"] for row in answer.json()["rows"]] == [done]
    following = get(client, "/jobs", state="dead", before=answer.json()["next"])
    assert [row["id"] for row in following.json()["rows"]] == [dead]
    assert get(client, f"/jobs/{dead}").json()["state"] == "dead"
    assert answer.headers["cache-control"] == "no-store"


def test_acts_take_json(stage, client):
    """What the path names comes from there."""
    job = stage.dead()
    answer = post(client, f"/jobs/{job}/edit_and_retry", {"args": {"to": "bob"}})
    assert (answer.status_code, answer.json()["id"]) == (200, job)
    assert post(client, "/queues/mail/pause").json()["name"] == "mail"
    assert post(client, "/locks/a/b/release").status_code == 404
    assert "rule 'a/b'" in error(post(client, "/rules/a%2Fb/off"), 404)["message"]


def test_what_is_wrong_is_told_in_one_form(stage, client):
    """By its code, in words, with the status of the answer."""
    job = stage.completed()
    assert error(get(client, "/jobs", nope="1"), 422)["message"] == "there is no field nope here"
    assert "limit" in error(get(client, "/jobs", limit="many"), 422)["message"]
    assert error(client.get(f"{PREFIX}/jobs?task=a&task=b"), 422)["message"] == "task: given more than once"
    assert error(get(client, "/jobs/nix"), 404)["code"] == "job_not_found"
    assert error(post(client, f"/jobs/{job}/retry"), 409)["code"] == "job_state"
    assert error(get(client, "/nix"), 404)["code"] == "not_there"
    assert error(post(client, f"/jobs/{job}/retry", {"x": 1}), 422)["message"] == "there is no field x here"
    assert error(post(client, f"/jobs/{job}/retry", {"id": "y"}), 422)["message"] == "id: the path says that"
    assert "JSON object" in error(post(client, f"/jobs/{job}/retry", [1]), 422)["message"]
    wrong = client.delete(f"{PREFIX}/jobs")
    assert (error(wrong, 405)["code"], wrong.headers["allow"]) == ("method_not_allowed", "GET, HEAD")
    assert client.get(f"{PREFIX}/jobs/{job}/retry").headers["allow"] == "POST"
    assert error(client.post(f"{PREFIX}/queues/mail/pause?name=x"), 422)
    assert "null" in error(get(client, "/jobs/count", action="null"), 422)["message"]
    assert get(client, "/jobs", task="null").json()["rows"] == []
    assert client.delete(f"{PREFIX}/jobs/bulk").headers["allow"] == "POST"


def test_bodies_that_nobody_should_send_are_refused(stage, client):
    """Too long, too deep, no JSON, not called JSON."""
    path = f"{PREFIX}/jobs/{stage.dead()}/edit_and_retry"
    as_json = {"content-type": "application/json"}
    error(client.post(path, content=b"x" * (LONGEST_BODY + 1), headers=as_json), 413)
    error(client.post(path, content=b"args=1", headers={"content-type": "application/x-www-form-urlencoded"}), 415)
    for body in (b"{", b"\xff\xfe", b'{"args":' * 70 + b"1" + b"}" * 70, b"[" * 100_000):
        error(client.post(path, content=body, headers=as_json), 422)
    deep = b'{"args":{"x":' + b"[" * 60 + b"]" * 60 + b"}}"
    assert client.post(path, content=deep, headers=as_json).status_code == 200


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.changes], ids=lambda each: each.name)
def test_a_viewer_changes_nothing(client, role, operation):
    """Every act is refused, whatever is asked."""
    role[0] = Role.VIEWER
    body = {
        "jobs.bulk": {"action": "retry", "expected": 0, "confirm": "x"},
        "jobs.reschedule": {"at": "1h"},
        "jobs.signal": {"name": "x"},
        "jobs.edit_and_retry": {"args": {}},
        "schedules.backfill": {"since": "1h"},
        "alerts.silence": {"until": "1h"},
        "rules.add": {"name": "x", "check": "queue_age", "above": 1},
    }.get(operation.name, {})
    path = operation.path.replace("{id}", "x").replace("{name}", "x")
    assert error(client.post(f"{PREFIX}{path}", json=body), 403)["code"] == "not_allowed"


def test_a_store_that_is_gone_is_told(stage, client, monkeypatch):
    """As 503, for whoever asks again."""

    def gone():
        raise StoreUnavailableError("the store is gone")

    monkeypatch.setattr(stage.backend.verbs, "queues", gone, raising=False)
    assert error(get(client, "/queues"), 503)["code"] == "store_unavailable"


def test_an_export_is_a_file(stage, client):
    """With a name, and how many jobs there are in it."""
    job = stage.dead()
    answer = get(client, "/jobs/export", format="csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert job in answer.text
    assert [row["id"] for row in get(client, "/jobs/export").json()] == [job]


def test_the_document_describes_every_operation(client):
    """Each with its path, its fields, its answer and whatever else may be answered; all that it names is there."""
    told = get(client, "/openapi.json").json()
    assert told["openapi"] == "3.1.0"
    for operation in OPERATIONS:
        found = told["paths"][operation.path]["post" if operation.changes else "get"]
        assert found["operationId"] == operation.name
        assert {"200", "401", "403", "404", "422", "429", "503"} <= set(found["responses"])
        fields = {parameter["name"] for parameter in found["parameters"]}
        if operation.changes:
            fields |= set(found["requestBody"]["content"]["application/json"]["schema"]["properties"])
        assert fields == {field.name for field in msgspec.structs.fields(operation.asked)}
    text = json.dumps(told)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(told["components"]["schemas"])
