"""Forms do what they say, once let in; whoever has no script is told on the next page, a script in its answer."""

import httpx
from web_samples import ACTS, FULL, ID, NOW, SampleDesk, sample_app

from standfast.admin.job_search import BulkAsked, BulkDone, JobFailed
from standfast.admin.operation import Role, User
from standfast.dashboard.web.routes import safe_back


def client(desk: SampleDesk) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(sample_app(desk)), base_url="http://desk")


async def test_a_form_is_done_and_said_once():
    desk = SampleDesk(FULL)
    async with client(desk) as browser:
        done = await browser.post("/do/queues.pause", data={"name": "mail", "back": "/queues?x=1", "csrf": "t"})
        assert (done.status_code, done.headers["location"]) == (303, "/queues?x=1")
        assert 'role="status">Queue “mail” is paused</p>' in (await browser.get("/queues")).text
        assert "is paused</p>" not in (await browser.get("/queues")).text
    assert [(name, asked.name) for name, asked in desk.done] == [("queues.pause", "mail")]


async def test_a_script_is_answered_with_what_to_say():
    async with client(SampleDesk(FULL)) as browser:
        response = await browser.post("/do/jobs.cancel", data={"id": ID}, headers={"accept": "application/json"})
    assert response.json() == {"text": "It was asked to stop", "bad": False, "to": "/"}


async def test_a_time_in_what_was_done_is_one_that_pages_tell():
    fields = {"rule": "queue_age", "until": "2h", "back": "/alerts"}
    moment = NOW.isoformat(timespec="seconds")
    async with client(SampleDesk(FULL)) as browser:
        said = await browser.post("/do/alerts.silence", data=fields, headers={"accept": "application/json"})
        assert said.json()["text"] == f"Silenced until {moment}"
        await browser.post("/do/alerts.silence", data=fields)
        assert f'role="status">Silenced until <time datetime="{moment}"' in (await browser.get("/alerts")).text


async def test_what_was_done_is_said_in_the_language_that_the_page_was_asked_for():
    fields = {"name": "mail", "back": "/queues?lang=zh-Hant"}
    async with client(SampleDesk(FULL)) as browser:
        response = await browser.post("/do/queues.pause", data=fields, headers={"accept": "application/json"})
    assert "mail" in response.json()["text"]
    assert "paused" not in response.json()["text"]


async def test_what_somebody_may_not_do_is_refused_and_said():
    desk = SampleDesk(FULL, User("vic"))
    async with client(desk) as browser:
        response = await browser.post("/do/jobs.retry", data={"id": ID}, headers={"accept": "application/json"})
    assert (response.status_code, response.json()["bad"]) == (403, True)
    assert desk.done == []


async def test_arguments_are_written_as_json_and_the_new_job_is_shown():
    desk = SampleDesk(FULL)
    async with client(desk) as browser:
        done = await browser.post("/do/jobs.edit_and_retry", data={"id": ID, "args": '{"to": "b@example.com"}'})
        assert done.headers["location"] == "/jobs/new"
        wrong = await browser.post(
            "/do/jobs.edit_and_retry", data={"id": ID, "args": "{"}, headers={"accept": "application/json"}
        )
    assert wrong.status_code == 422
    assert [asked.args for _, asked in desk.done] == [{"to": "b@example.com"}]


async def test_many_jobs_are_acted_on_as_they_were_counted():
    desk = SampleDesk(FULL)
    fields = {"action": "retry", "expected": "512", "confirm": "c0ffee", "state": ["dead"], "fingerprint": "f00d"}
    async with client(desk) as browser:
        response = await browser.post("/do/jobs.bulk", data=fields, headers={"accept": "application/json"})
    assert response.json()["text"] == "Done with 512 jobs"
    ((_, asked),) = desk.done
    assert (asked.expected, asked.confirm, asked.fingerprint, [each.value for each in asked.state]) == (
        512,
        "c0ffee",
        "f00d",
        ["dead"],
    )


async def test_what_could_not_be_done_to_some_is_said(monkeypatch):
    some = BulkDone(done=3, failed=2, passed_over=0, errors=(JobFailed(id=ID, error="it is running"),))
    monkeypatch.setitem(ACTS, "jobs.bulk", (Role.OPERATOR, BulkAsked, some))
    fields = {"action": "retry", "expected": "5", "confirm": "c0ffee"}
    async with client(SampleDesk(FULL)) as browser:
        response = await browser.post("/do/jobs.bulk", data=fields, headers={"accept": "application/json"})
    assert response.json()["text"] == "3 done, 2 not: it is running"


async def test_what_only_reads_cannot_be_done_nor_what_does_not_exist():
    async with client(SampleDesk(FULL)) as browser:
        for name in ("jobs.show", "jobs.explode", "__init__"):
            response = await browser.post(f"/do/{name}", data={"id": ID}, headers={"accept": "application/json"})
            assert response.status_code == 404
        assert (await browser.get("/do/jobs.retry")).status_code == 405


async def test_a_body_that_is_too_large_or_no_form_is_refused():
    desk = SampleDesk(FULL)
    json = {"accept": "application/json"}
    async with client(desk) as browser:
        large = await browser.post("/do/jobs.retry", data={"id": "x" * 300_000}, headers=json)
        other = await browser.post("/do/jobs.retry", json={"id": ID}, headers=json)
        many = await browser.post(
            "/do/jobs.retry",
            content="a=1&" * 300,
            headers=json | {"content-type": "application/x-www-form-urlencoded"},
        )
    assert [large.status_code, other.status_code, many.status_code] == [413, 415, 413]
    assert desk.done == []


def test_a_form_leads_back_to_our_own_pages_only():
    for path in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\nb"):
        assert safe_back(path) == "/"
    assert safe_back("/jobs?state=dead") == "/jobs?state=dead"


async def test_a_cookie_that_is_not_ours_says_nothing():
    async with client(SampleDesk(FULL)) as browser:
        for value in ("x", "e30=", "=" * 9000):
            browser.cookies.set("standfast_said", value)
            assert (await browser.get("/settings")).status_code == 200


async def test_the_chosen_language_is_kept():
    async with client(SampleDesk(FULL)) as browser:
        assert (await browser.post("/lang", data={"lang": "zh-Hant", "back": "/queues"})).headers[
            "location"
        ] == "/queues"
        assert '<html lang="zh-Hant">' in (await browser.get("/queues")).text
        assert '<html lang="en">' in (await browser.get("/queues?lang=en")).text
        await browser.post("/lang", data={"lang": "../../x"})
        assert '<html lang="zh-Hant">' in (await browser.get("/queues")).text


async def test_cookies_are_for_us_alone():
    app = httpx.ASGITransport(sample_app(SampleDesk(FULL)))
    async with httpx.AsyncClient(transport=app, base_url="https://desk") as browser:
        said = await browser.post("/do/queues.pause", data={"name": "mail"})
        spoken = await browser.post("/lang", data={"lang": "en"})
    for response in (said, spoken):
        words = response.headers["set-cookie"].lower()
        assert all(each in words for each in ("httponly", "samesite=strict", "secure"))


async def test_an_operator_is_not_offered_what_only_admins_do():
    async with client(SampleDesk(FULL, User("op", Role.OPERATOR))) as browser:
        text = (await browser.get(f"/jobs/{ID}")).text
    assert "/do/jobs.retry" in text
    assert "/do/jobs.discard" not in text
