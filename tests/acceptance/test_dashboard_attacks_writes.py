"""Attack: to do what one may not. Whoever asks, by page or by API, nothing changes that is not theirs to change."""

import sqlite3
from contextlib import closing

import pytest
from siege import besieged, csrf_of, told
from targets import ACTS, api_body, api_path, targets

from standfast.admin.operation import Role


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("siege")


@pytest.fixture(scope="module")
def asked(folder):
    return targets(folder)


@pytest.fixture(scope="module")
def siege(folder, asked):
    assert asked
    with besieged(folder) as siege:
        yield siege
    assert "Traceback" not in told(folder)


def rows(folder):
    """Return all that the store holds, but for who did what."""
    with closing(sqlite3.connect(folder / "jobs.db")) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: file.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
    assert sum(map(len, found.values())) > 20
    return {name: [row for row in table if "audit" not in row] for name, table in found.items()}


def as_fields(asked):
    return {name: '{"to":"x"}' if isinstance(value, dict) else str(value) for name, value in asked.items()}


def by_form(client, operation, asked, csrf, **headers):
    return client.post(f"/do/{operation.name}", data={**as_fields(asked), "csrf": csrf}, headers=headers)


def by_api(client, operation, asked, **headers):
    return client.post(api_path(operation, asked), json=api_body(operation, asked), headers=headers)


def refused(client, csrf, operation, asked):
    """Tell whether all ways to do it are refused: as a script, as a plain form, and as a program does it."""
    script = by_form(client, operation, asked, csrf, accept="application/json")
    plain = by_form(client, operation, asked, csrf)
    api = by_api(client, operation, asked, **{"x-csrf-token": csrf})
    assert script.status_code == api.status_code == 403, (operation.name, script.text, api.text)
    assert script.json()["bad"] is True
    assert (plain.status_code, plain.headers["location"]) == (303, "/")
    assert api.json()["error"]["code"] == "not_allowed"


def test_a_viewer_and_an_operator_do_only_what_they_may(siege, folder, asked):
    before = rows(folder)
    viewer, operator = siege.signed_in("vera"), siege.signed_in("otto")
    for client, role in ((viewer, Role.VIEWER), (operator, Role.OPERATOR)):
        csrf = csrf_of(client)
        above = [operation for operation in ACTS if operation.role > role]
        assert above
        for operation in above:
            refused(client, csrf, operation, asked[operation.name])
    discard = {**asked["jobs.bulk"], "action": "discard"}
    assert operator.post("/api/v1/jobs/bulk", json=discard, headers={"x-csrf-token": csrf}).status_code == 403
    assert rows(folder) == before


def test_a_grant_lets_exactly_one_operation_through(siege, folder, asked):
    """Here to pause a queue; it is written down who did it, and that the others were refused."""
    client = siege.signed_in("grant")
    csrf, before = csrf_of(client), rows(folder)
    for operation in ACTS:
        if operation.name != "queues.pause":
            refused(client, csrf, operation, asked[operation.name])
    assert rows(folder) == before
    [pause] = [operation for operation in ACTS if operation.name == "queues.pause"]
    assert by_form(client, pause, asked[pause.name], csrf, accept="application/json").status_code == 200
    assert by_api(client, pause, asked[pause.name], **{"x-csrf-token": csrf}).status_code == 200
    entries = client.get("/api/v1/audit", params={"who": "grant"}).json()["entries"]
    assert [(each["what"], each["error"], each["by"]) for each in entries[:2]] == [
        ("queues.pause", None, "api"),
        ("queues.pause", None, "page"),
    ]
    refusals = [each["what"] for each in entries[2:] if each["what"] != "access.sign_in"]
    assert all(each["error"] for each in entries[2:] if each["what"] != "access.sign_in")
    assert sorted(refusals) == sorted(each.name for each in ACTS if each is not pause), "each is told once"


def test_a_dashboard_that_only_shows_refuses_everybody(folder, asked):
    before = rows(folder)
    with besieged(folder, "--read-only") as siege:
        admin, program = siege.signed_in("ada"), siege.program()
        csrf = csrf_of(admin)
        for operation in ACTS:
            refused(admin, csrf, operation, asked[operation.name])
            assert by_api(program, operation, asked[operation.name]).status_code == 403
        assert not any(f"/do/{operation.name}" in admin.get("/queues/mail").text for operation in ACTS)
    assert rows(folder) == before


def test_an_admin_could_do_all_of_it(folder, asked, tmp_path):
    """Else the tests above would show nothing."""
    del folder, asked
    asked = targets(tmp_path)
    with besieged(tmp_path) as siege:
        program = siege.program()
        answers = {each.name: by_api(program, each, asked[each.name]) for each in ACTS}
    assert {name: answer.text for name, answer in answers.items() if answer.status_code != 200} == {}
