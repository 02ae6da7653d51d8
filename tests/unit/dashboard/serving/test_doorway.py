"""The doorway: every answer has our headers, people come and go, and all of it works under any path."""

import re
from urllib.parse import quote

import pytest
from serving_stage import HOME, TOKEN, House, csrf_in, place_of

from standfast.dashboard import Dashboard, Role
from standfast.dashboard.access.caller import HEADERS, STATIC_HEADERS
from standfast.dashboard.access.users import add_user


@pytest.fixture
def house(stage):
    return House(stage, token=TOKEN)


def headers_of(answer, wanted=HEADERS):
    return {name: answer.headers.get(name) for name in wanted}


def test_every_answer_has_our_headers(house):
    """Also what is refused, what is not there, what leads elsewhere, and what went wrong."""
    stranger, ada = house.browser(), house.browser()
    ada.post("/sign-in", {"token": TOKEN})
    pages = [
        stranger.get("/sign-in"),
        stranger.get("/jobs"),
        stranger.get("/api/v1/jobs"),
        stranger.get("/", host="evil.example"),
        stranger.post("/do/jobs.retry"),
        ada.get("/"),
        ada.get("/nothing-here"),
        ada.get("/api/v1/jobs"),
        ada.get("/api/v1/openapi.json"),
        ada.head("/jobs"),
        ada.post("/sign-out"),
    ]
    assert [each.status_code for each in pages] == [200, 303, 401, 421, 401, 200, 404, 200, 200, 200, 403]
    for each in pages:
        assert headers_of(each) == dict(HEADERS), each.url
    (style,) = re.findall(r'"(/static/dashboard[^"]+\.css)"', stranger.get("/sign-in").text)
    assert headers_of(stranger.get(style), STATIC_HEADERS) == dict(STATIC_HEADERS)


def test_somebody_signs_in_and_out_and_the_audit_knows(house):
    ada = house.browser()
    assert place_of(ada.get("/jobs?state=dead")) == "/sign-in?next=%2Fjobs%3Fstate%3Ddead"
    assert 'value="/jobs?state=dead"' in ada.get("/sign-in?next=%2Fjobs%3Fstate%3Ddead").text
    assert place_of(ada.post("/sign-in", {"token": TOKEN, "next": "/jobs?state=dead"})) == "/jobs?state=dead"
    page = ada.get("/jobs?state=dead")
    assert page.status_code == 200
    assert place_of(ada.get("/sign-out")) == "/"
    assert ada.post("/sign-out").status_code == 403
    assert place_of(ada.post("/sign-out", {"csrf": csrf_in(page)})) == "/sign-in"
    assert place_of(ada.get("/")) == "/sign-in"
    assert [(who, what) for who, what, _, _ in house.audit()] == [
        ("token", "access.sign_out"),
        ("token", "access.sign_in"),
    ]
    assert house.audit()[-1][2] == {"how": "token", "from": "127.0.0.1"}


def test_who_mistypes_keeps_where_they_were_going(stage, tmp_path):
    """And their name; they are told what was wrong, and of no link."""
    add_user(tmp_path / "users", "ada", Role.ADMIN, "correct horse battery")
    browser = House(stage, users=tmp_path / "users", token=TOKEN).browser()
    typed = {"name": "ada<b>", "password": "wrong wrong wrong", "next": "/jobs?state=dead"}
    page = browser.post("/sign-in", typed)
    assert (page.status_code, "Name or password are not right." in page.text) == (401, True)
    assert 'name="next" value="/jobs?state=dead"' in page.text
    assert 'name="name" value="ada&lt;b&gt;"' in page.text
    assert "wrong wrong" not in page.text
    page = browser.post("/sign-in", {"token": "t" * 31, "next": "//elsewhere"})
    assert "This is not the token." in page.text
    assert "elsewhere" not in page.text
    assert "make a new link" in browser.get("/sign-in?once=wrong").text


def test_where_there_is_no_page_one_says_so_and_leads_home(house):
    browser = house.browser()
    browser.post("/sign-in", {"token": TOKEN})
    page = browser.get("/nowhere?lang=zh-Hant")
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert 'lang="zh-Hant"' in page.text
    assert '<a class="button" href="/">' in page.text
    assert browser.get("/api/v1/nowhere").json()["error"]["code"] == "not_there"


@pytest.mark.parametrize("path", ["/alerts/nosuch", "/%3Fnosuch", "/alerts%3Fnosuch"])
def test_a_page_that_is_not_there_is_watched_where_it_is(house, path):
    """And not as a page that there is."""
    browser = house.browser()
    browser.post("/sign-in", {"token": TOKEN})
    assert f'data-at="{path}"' in browser.get(path).text
    assert "there is no such page" in browser.get(f"/frame?at={quote(path, safe='')}").text


@pytest.mark.parametrize("elsewhere", ["https://evil.example", "//evil.example", "/\\evil", "/../x", "x"])
def test_nobody_is_led_elsewhere(house, elsewhere):
    assert place_of(house.browser().post("/sign-in", {"token": TOKEN, "next": elsewhere})) == "/"


def test_a_link_works_once_and_another_is_printed_where_only_its_owner_sees_it(house):
    browser, link = house.browser(), house.dashboard.new_link()
    assert 'content="0;url=/"' in browser.get(link).text
    assert browser.get("/").status_code == 200
    late = house.browser()
    used = late.get(link)
    assert used.status_code == 401
    assert 'action="/sign-in/link"' in used.text
    asked = late.post("/sign-in/link")
    assert place_of(asked) == "/sign-in?printed=1"
    (printed,) = house.printed
    page = late.get("/sign-in?printed=1")
    assert "A new link was printed" in page.text
    assert not [each for each in (page, asked) if printed.partition("=")[2] in f"{each.text}{each.headers}"]
    late.get(printed)
    assert late.get("/").status_code == 200


def test_a_link_leads_where_somebody_was_going(house):
    """The button that prints one knows it from the address; what leads elsewhere does not count."""
    browser = house.browser()
    before = browser.get(place_of(browser.get("/alerts?before=x")))
    assert 'action="/sign-in/link"><input type="hidden" name="next" value="/alerts?before=x">' in before.text
    asked = place_of(browser.post("/sign-in/link", {"next": "/alerts?before=x"}))
    assert asked == "/sign-in?printed=1&next=%2Falerts%3Fbefore%3Dx"
    assert 'name="next" value="/alerts?before=x"' in browser.get(asked).text
    [printed] = house.printed
    assert 'content="0;url=/alerts?before=x"' in browser.get(printed).text
    assert place_of(browser.post("/sign-in/link", {"next": "//evil.example"})) == "/sign-in?printed=1"
    assert "next" not in house.printed[1]
    assert 'content="0;url=/"' in browser.get(f"{house.printed[1]}&next=//evil.example").text


def test_links_are_asked_for_by_our_own_page_and_not_too_often(house):
    browser = house.browser()
    assert browser.get("/sign-in/link").status_code == 401
    assert browser.post("/sign-in/link", origin="https://evil.example").status_code == 403
    assert browser.post("/sign-in/link", **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert house.printed == []
    assert [browser.post("/sign-in/link").status_code for _ in range(4)] == [303, 303, 303, 429]
    assert len(house.printed) == 3


def test_without_links_none_is_offered_or_printed(stage):
    house = House(stage, token=TOKEN)
    house.dashboard = Dashboard(stage, token=TOKEN)
    browser = house.browser()
    assert "/sign-in/link" not in browser.get("/sign-in").text
    assert browser.post("/sign-in/link").status_code == 401


def test_refusals_are_folded_in_the_audit(house):
    """The first, the tenth, the hundredth: a trail tells of guessing, and is not filled by it."""
    browser = house.browser()
    for _ in range(60):
        browser.get("/api/v1/jobs", authorization="Bearer wrong-wrong-wrong-wrong")
    browser.get("/sign-in?once=wrong")
    told = house.audit()
    assert [(who, what, asked["times"]) for who, what, asked, _ in told] == [
        ("(unknown)", "access.sign_in", "10"),
        ("(unknown)", "access.sign_in", "1"),
    ]
    assert "wrong-wrong" not in repr(told)


def test_programs_are_told_in_json_why_they_are_refused(house):
    for path, status, code in [("/api/v1/jobs", 401, "sign_in"), ("/x/api/v1/jobs", 401, "sign_in")]:
        mount = "/x" if path.startswith("/x") else None
        answer = house.browser(mount).get(path)
        assert answer.status_code == status
        assert answer.json()["error"] == {"code": code, "message": "sign in first", "status": status}
    elsewhere = house.browser("/x").get("/x/api/v1/jobs", host="evil.example")
    assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (421, "host")


def test_what_is_no_request_is_refused(house, stage):
    sent = []

    async def send(message):
        sent.append(message)

    stage.wait(house.dashboard.asgi({"type": "websocket", "path": "/live"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("options", "mount", "headers", "base", "sent"),
    [
        ({}, None, {}, "", ""),
        ({"prefix": "/jobs"}, None, {}, "/jobs", "/jobs"),
        ({"trusted_proxies": ["127.0.0.1/32"]}, None, {"x-forwarded-prefix": "/queues"}, "/queues", ""),
        ({}, "/deep/jobs", {}, "/deep/jobs", "/deep/jobs"),
        ({"trusted_proxies": ["127.0.0.1/32"]}, None, {"x-forwarded-prefix": "/ops"}, "/ops", ""),
        ({"trusted_proxies": ["127.0.0.1/32"]}, "/m", {"x-forwarded-prefix": "/ops"}, "/ops/m", "/m"),
        ({}, None, {"x-forwarded-prefix": "/evil"}, "", ""),
    ],
)
def test_it_is_at_home_under_any_path(stage, *, options, mount, headers, base, sent):
    """Of its own, of a mount, of a proxy that is trusted and cuts it off; links, files and cookies go there."""
    browser = House(stage, token=TOKEN, **options).browser(mount, **headers)
    page = browser.get(f"{sent}/sign-in").text
    assert f'action="{base}/sign-in"' in page
    for file in re.findall(r'"([^"]*/static/[^"]+)"', page):
        assert file.startswith(f"{base}/static/")
        assert browser.get(sent + file.removeprefix(base)).status_code == 200
    signed = browser.post(f"{sent}/sign-in", {"token": TOKEN})
    assert place_of(signed) == f"{base}/"
    assert f"Path={base or '/'};" in signed.headers["set-cookie"]
    seen = browser.get(f"{sent}/queues", cookie=signed.headers["set-cookie"].partition(";")[0])
    assert seen.status_code == 200
    links = re.findall(r'(?:href|action|src)="(/[^"]*)"', seen.text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(f"{base}/")] == []
    assert "<h1>Queues</h1>" in seen.text


def test_with_a_prefix_nothing_is_elsewhere(stage):
    """A proxy that cuts it off has to say so: /jobs could be a page of ours, and could be where we are."""
    browser = House(stage, token=TOKEN, prefix="/jobs").browser()
    assert [browser.get(path).status_code for path in ("/", "/sign-in", "/jobsx")] == [404] * 3
    assert place_of(browser.get("/jobs")) == place_of(browser.get("/jobs/")) == "/jobs/sign-in"


def test_home_is_where_the_origin_is(house):
    """The origin of writes is held against the name by which they came."""
    browser = house.browser()
    assert browser.post("/sign-in", {"token": TOKEN}, origin="http://127.0.0.1:1").status_code == 403
    assert browser.post("/sign-in", {"token": TOKEN}, origin=HOME).status_code == 303


def test_a_file_that_is_not_there_is_not_there_for_strangers_too(house):
    """The page that says so is for who was let in."""
    answer = house.browser().get("/static/none/none.css")
    assert (answer.status_code, answer.text) == (404, "not there\n")
