"""Every page, of an empty store and of a full one, in both languages: it is whole, and nothing in it is code."""

import re
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import msgspec
import pytest
from web_samples import EMPTY, FULL, ID, NASTY, PATHS, SampleDesk, sample_app

from standfast.admin.operation import Role, User
from standfast.cli.alerts import NO_RULES, NO_WORKER
from standfast.dashboard.texts import LANGUAGES, texts_in
from standfast.dashboard.web.render import sign_in_page
from standfast.errors import StoreError
from standfast.model.alerts import NoticeKind

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Reader(HTMLParser):
    """Reads a page: its tags in order, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} is closed where it is not open"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


async def get(path: str, desk: SampleDesk, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(sample_app(desk))
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
        return await client.get(path, headers={key.replace("_", "-"): value for key, value in headers.items()})


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("answers", [EMPTY, FULL], ids=["empty", "full"])
async def test_every_page_is_whole_and_safe(answers, language):
    for path in PATHS:
        response = await get(path, SampleDesk(answers), accept_language=language)
        if answers is EMPTY and path == "/tasks/shop.send_email":
            assert response.status_code == 404
            continue
        assert response.status_code == 200, path
        page = Reader(response.text)
        assert page.open == [], path
        assert NASTY not in response.text
        assert [each for each in page.all("script") if "src" not in each] == []
        assert all("style" not in attributes for _, attributes in page.tags), path
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes), path
        assert page.all("html") == [{"lang": language}]
        assert len(page.all("main")) == len(page.all("h1")) == 1, path
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids)), path
        assert all(each.get("action") for each in page.all("form") if each.get("method") == "post")
        targets = [each["popovertarget"] for each in page.all("button") if "popovertarget" in each]
        assert set(targets) <= set(ids)


async def test_tables_have_captions_and_heads_have_a_direction():
    for path in PATHS:
        page = Reader((await get(path, SampleDesk(FULL))).text)
        assert len(page.all("caption")) == len(page.all("table")), path
        assert all("scope" in each for each in page.all("th")), path


async def test_nothing_comes_from_elsewhere():
    for path in PATHS:
        page = Reader((await get(path, SampleDesk(FULL))).text)
        addresses = [
            attributes[name] or ""
            for _, attributes in page.tags
            for name in ("src", "href", "action")
            if name in attributes
        ]
        assert all(each.startswith(("/", "#")) and not each.startswith("//") for each in addresses), path


async def test_a_viewer_is_offered_nothing_to_do():
    for path in PATHS:
        text = (await get(path, SampleDesk(FULL, User("vic", Role.VIEWER)))).text
        assert "/do/" not in text, path
        assert 'href="/jobs/bulk?' not in text, path


async def test_somebody_with_a_grant_is_offered_just_that():
    desk = SampleDesk(FULL, User("vic", Role.VIEWER, frozenset({"queues.resume"})))
    text = (await get("/queues", desk)).text
    assert set(re.findall(r"/do/([\w.]+)", text)) == {"queues.resume"}


async def test_a_rule_that_goes_by_timeouts_says_so():
    """It has a limit, though no number of its own."""
    text = (await get("/alerts/rules", SampleDesk(FULL))).text
    assert text.count("more than the timeout of its task") == 1


async def test_a_rule_that_was_added_is_marked_and_can_be_removed():
    """Others cannot: an app declares them."""
    text = (await get("/alerts/rules", SampleDesk(FULL))).text
    [row] = [each for each in text.split("<tr ") if "/do/rules.remove" in each]
    assert '<span class="badge plain running">added</span>' in row
    assert text.count(">added</span>") == 1


async def test_a_rule_about_a_share_says_of_how_many():
    """One failure of one attempt breaks nothing."""
    text = (await get("/alerts/rules", SampleDesk(FULL))).text
    assert text.count("of 10 at least") == 1


async def test_alerts_say_what_people_have_not_heard():
    """What has not arrived, each with the way to its job; and what nobody was told yet, unless nobody is to be."""
    text = (await get("/alerts", SampleDesk(FULL))).text
    late, lost = "has not arrived yet by boss", "did not arrive by &lt;script"
    assert text.count(late) == text.count(lost) == len(NoticeKind)
    assert f'<a class="bad-text" href="/jobs/{ID}">did not arrive by' in text
    assert text.count("not told yet") == 4
    assert (await get("/", SampleDesk(FULL))).text.count("not told yet") == 1


async def test_alerts_say_why_people_have_not_heard():
    """And from when they are told; what held it and is over says no more."""
    text = (await get("/alerts", SampleDesk(FULL))).text
    assert len(re.findall(r"after its cool-down, from <time", text)) == 1
    assert len(re.findall(r"after the quiet hours, from <time", text)) == 1
    assert text.count("told with the next look") == 2


async def test_alerts_say_that_nobody_looks():
    """Else people would take it for good news that nothing fires. And why, in the words of the command line."""
    untold = {**EMPTY, "alerts.list": msgspec.structs.replace(EMPTY["alerts.list"], living=True)}
    looked, alone, silent = [(await get("/alerts", SampleDesk(said))).text for said in (FULL, EMPTY, untold)]
    assert "nobody looks for trouble" not in looked
    assert NO_WORKER in alone
    assert NO_RULES in silent
    assert NO_WORKER not in silent


async def test_filters_live_in_the_address():
    desk = SampleDesk(FULL)
    text = (
        await get(f"/jobs?state=dead&state=ready&task=a%20b&tag=x&since=2h&lang=en&key=&before={ID}", desk)
    ).text
    asked = dict(desk.asked)["jobs.list"]
    assert (asked.task, asked.tag, asked.since, asked.key, asked.before) == ("a b", ("x",), "2h", None, ID)
    assert [state.value for state in asked.state] == ["dead", "ready"]
    assert 'name="task" list="known-tasks" value="a b"' in text
    assert "/jobs/export?format=csv&amp;state=dead&amp;state=ready&amp;task=a+b&amp;tag=x&amp;since=2h" in text


async def test_what_cannot_be_meant_is_said_and_not_asked():
    desk = SampleDesk(FULL)
    response = await get("/jobs?state=nonsense", desk)
    assert response.status_code == 422
    assert "state must be one of scheduled, ready, blocked" in response.text
    assert "jobs.list" not in dict(desk.asked)
    assert "limit must be a whole number from 1 to 200" in (await get("/jobs?limit=zzz", desk)).text
    assert "limit 必須是 1 到 200 之間的整數" in (await get("/jobs?limit=900&lang=zh-Hant", desk)).text


async def test_many_jobs_are_offered_what_can_be_done_to_them():
    """By the states that are asked for, and by who asks."""
    admin, operator = User("ada", Role.ADMIN), User("bo", Role.OPERATOR)
    for query, who, actions in (
        ("", admin, ["retry", "cancel", "reschedule", "discard"]),
        ("?state=dead", admin, ["retry", "discard"]),
        ("?fingerprint=f00d", operator, ["retry"]),
        ("?state=running&state=completed", admin, ["cancel"]),
        ("?state=completed", admin, []),
    ):
        text = (await get(f"/jobs{query}", SampleDesk(FULL, who))).text
        assert re.findall(r'name="action" value="(\w+)"', text) == actions, query
        assert ('class="bulk"' in text) == bool(actions)


async def test_a_queue_is_paused_after_a_question_in_lists_too():
    """Each dialog is of its own queue or schedule, and what takes the place of a button has its spot."""
    text = (await get("/queues", SampleDesk(FULL))).text
    spots = re.findall(r'popovertarget="(ask-queues-pause-[^"]+)" data-spot="(queues.go/[^"]+)"', text)
    assert ("ask-queues-pause-mail", "queues.go/mail") in spots
    assert len(spots) == len(set(spots)) == text.count("/do/queues.pause")
    assert 'data-spot="queues.go/images"' in text.partition("/do/queues.resume")[2]
    text = (await get("/schedules", SampleDesk(FULL))).text
    assert 'popovertarget="ask-schedules-pause-nightly"' in text
    assert 'popovertarget="ask-schedules-trigger-nightly"' in text


async def test_a_schedule_is_shown_by_its_own_clock_and_edited_from_what_it_is():
    text = (await get("/schedules/nightly", SampleDesk(FULL))).text
    assert re.search(
        r'data-zone="Asia/Taipei" title="[-\d]+ [:\d]+ UTC">2026-11-\d\d \d\d:\d\d:\d\d Asia/Taipei<', text
    )
    assert "<dt>Created</dt>" in text
    assert "<dt>Enqueued</dt>" not in text
    assert re.search(r'name="cron" class="mono" value="0 2 \* \* \*"', text)
    assert ">Save</button>" in text
    every = {"rule": "every", "interval": 2.5}
    seen = msgspec.structs.replace(FULL["schedules.show"], rule=every)
    text = (await get("/schedules/nightly", SampleDesk(FULL | {"schedules.show": seen}))).text
    assert re.search(r'name="cron" class="mono" value=""', text)
    assert 'name="every" type="number" value="2.5"' in text


async def test_settings_have_their_units():
    text = (await get("/settings", SampleDesk(FULL))).text
    assert '<span title="2592000.0 seconds">30 d</span>' in text
    assert '<span title="1000000000 bytes">1 GB</span>' in text
    assert '<span title="200 megabytes">200 MB</span>' in text


async def test_the_audit_tells_times_and_hides_what_only_confirms():
    text = (await get("/audit", SampleDesk(FULL))).text
    assert "c0ffee" not in text
    assert '<time datetime="2026-11-16T10:00:00+00:00" data-form="clock">' in text


async def test_names_with_slashes_and_dots_lead_to_their_pages():
    desk = SampleDesk(FULL)
    for name in ("a/b", "..", "x?y#z", "100%"):
        await get(f"/queues/{quote(name, safe='')}".replace("/..", "/%2E%2E"), desk)
    assert [asked.name for name, asked in desk.asked if name == "queues.show"] == ["a/b", "..", "x?y#z", "100%"]


async def test_a_store_that_does_not_answer_has_a_page_too():
    answers = FULL | {"overview.show": StoreError("no answer"), "queues.list": StoreError("no answer <b>")}
    response = await get("/queues", SampleDesk(answers))
    assert response.status_code == 503
    assert "no answer &lt;b&gt;" in response.text


async def test_the_title_tells_the_verdict():
    title = re.search("<title>(.*)</title>", (await get("/jobs", SampleDesk(FULL))).text)
    assert title
    assert title[1] == "⚠ Attention: 3 findings · Jobs · Standfast"


async def test_pages_know_where_they_are_mounted():
    transport = httpx.ASGITransport(sample_app(SampleDesk(FULL)), root_path="/ops/jobs")
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
        page = Reader((await client.get("/ops/jobs/queues")).text)
    assert page.all("body")[0]["data-at"] == "/queues"
    assert all(each["href"].startswith(("/ops/jobs/", "#")) for each in page.all("a"))
    assert all(each["src"].startswith("/ops/jobs/static/") for each in page.all("script"))


async def test_of_a_long_history_what_lies_between_is_counted():
    """One line for all of them, with no claim to open and no worker to go to."""
    text = (await get(f"/jobs/{ID}", SampleDesk(FULL))).text
    assert text.count("… 2,900 more: 2,880 put off, 20 failed") == 1
    assert 'id="attempt-3"' in text
    assert 'id="attempt-4"' not in text


async def test_what_is_typed_into_the_search_leads_to_the_job():
    for typed, to in (
        (ID.upper(), f"/jobs/{ID}"),
        ("3c2d1e0f", "/jobs/3c2d1e0f"),
        ("no such", "/jobs?text=no+such"),
    ):
        response = await get(f"/find?text={quote(typed)}", SampleDesk(FULL))
        assert (response.status_code, response.headers["location"]) == (303, to)


async def test_jobs_are_written_out_as_a_file():
    response = await get("/jobs/export?format=csv&state=dead", SampleDesk(FULL))
    assert response.text == "id\n1\n"
    assert response.headers["content-disposition"] == 'attachment; filename="jobs.csv"'


async def test_files_are_kept_for_ever_and_no_path_leads_out():
    text = (await get("/", SampleDesk(FULL))).text
    files = re.findall(r'"(/static/[^"]+)"', text)
    assert len(files) == 4
    for file in files:
        response = await get(file, SampleDesk(FULL))
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
    for path in ("/static/dashboard.css", "/static/..%2Fsite.py", "/static/%2Fetc%2Fpasswd"):
        assert (await get(path, SampleDesk(FULL))).status_code == 404


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sign_in_page_has_the_ways_that_there_are(language):
    texts = texts_in(language)
    both = sign_in_page(texts, "/x", users=True, token=True, next='/"><script>', problem=NASTY)
    assert Reader(both).open == []
    assert "<script>" not in both.partition("</head>")[2]
    assert both.count('action="/x/sign-in"') == 2
    assert texts.say("sign_in.host") in sign_in_page(texts, users=False)
    linked = sign_in_page(texts, "/x", users=False, link=True)
    assert texts.say("sign_in.link") in linked
    assert 'action="/x/sign-in/link"' in linked
    assert texts.say("sign_in.printed") not in linked
    assert texts.say("sign_in.printed") in sign_in_page(texts, users=False, link=True, printed=True)


async def test_a_worker_tells_what_became_of_orders():
    """Who asked for something that was refused reads why; what another release orders is not told."""
    text = (await get("/workers/web-1", SampleDesk(FULL))).text
    notes = re.findall(r'<p class="note( bad)?" role="status">([^<]*)</p>', text)
    assert [bool(bad) for bad, _ in notes] == [True, False, False]
    assert notes[0][1].startswith("Drain: refused. ")
    assert notes[1:] == [
        ("", "Recycle: its supervisor is about it"),
        ("", "Live stacks: ordered, and waits for its supervisor to hear of it"),
    ]


async def test_a_rule_is_shown_in_its_form_as_commands_take_it():
    text = (await get("/alerts/rules", SampleDesk(FULL))).text
    for name, value in (("above", "5m"), ("above", "50%"), ("over", "5m"), ("hold", "30s"), ("cool_down", "5m")):
        assert f'name="{name}" maxlength="64" autocomplete="off" value="{value}"' in text, name


@pytest.mark.parametrize(
    ("left", "words"),
    [(-7.3684, "overdrawn by 736.8%"), (-1e-4, "overdrawn by &lt;0.1%"), (0, "the budget is spent"), (0.5, "50%")],
)
async def test_an_objective_says_what_is_left_of_its_budget_or_by_how_much_it_is_overdrawn(left, words):
    seen = FULL["objectives.list"]
    one = msgspec.structs.replace(seen.objectives[0], budget_left=left)
    answers = {**FULL, "objectives.list": msgspec.structs.replace(seen, objectives=(one,))}
    text = (await get("/objectives", SampleDesk(answers))).text
    assert f">{words}</span>" in text
    assert f"<title>Budget left: {words}</title>" in text
