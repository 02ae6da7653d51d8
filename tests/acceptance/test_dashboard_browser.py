"""What people do with the dashboard, done in a real browser: they look, find, act, and watch what becomes of it.

After each test no page has said an error, and no request has failed.
"""

import json
import re

import pytest
from browser_looks import badge, brightness, faults_of, forged, mark, sign_in, tab_to, was_not_loaded_again
from browser_stage import SECRET
from playwright.sync_api import expect
from shopfloor import eventually

from standfast.admin.registry import OPERATIONS
from standfast.dashboard.texts import texts_in
from standfast.model.states import State

pytestmark = pytest.mark.timeout(600)
"""The first of them may have to install a browser."""

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
MANY = 500


@pytest.fixture
def page(visit):
    """Give a page of an admin."""
    return visit("admin").page


# -- coming in -------------------------------------------------------------------------------------------------


def test_the_printed_link_works_once(visit, premises):
    first, second, link = visit(), visit(), premises.link()
    first.page.goto(link)
    expect(first.page.locator("#verdict")).to_be_visible()
    second.expect_status(401)
    second.page.goto(link)
    expect(second.page.get_by_role("alert")).to_contain_text("make a new link")
    second.page.goto("/jobs")
    expect(second.page.get_by_role("button", name="Sign in")).to_be_visible()


def test_who_signs_out_is_out(visit):
    visitor = visit()
    sign_in(visitor.page, "viewer")
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.goto("/jobs")
    expect(visitor.page).to_have_url(re.compile("/sign-in"))


# -- finding and acting ----------------------------------------------------------------------------------------


def test_a_failed_mail_is_found_corrected_and_seen_to_complete(visit, premises):
    """Without the page being loaded again, and without its secret being shown."""
    visitor = visit("admin")
    visitor.expect_status(422)
    page = visitor.page
    premises.dead_mail("nowhere-in-town")
    page.goto("/")
    page.get_by_label("Find a job").fill("nowhere-in-town")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=re.compile("^dead")).click()
    page.locator("tbody tr").get_by_role("link", name="send_mail").click()
    expect(badge(page)).to_have_text("dead")
    expect(page.locator("details[open] pre").first).to_contain_text("ValueError: 'nowhere-in-town' is no address")
    assert SECRET not in page.content()

    premises.put("closed")
    page.get_by_role("button", name="Edit and retry").click()
    dialog = page.get_by_role("dialog", name="Try again with other arguments")
    arguments = json.loads(dialog.get_by_label("Arguments").input_value())
    dialog.get_by_label("Arguments").fill("{")
    dialog.get_by_role("button", name="Edit and retry").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no JSON")
    dialog.get_by_label("Arguments").fill(json.dumps({**arguments, "to": "patient@example.com"}))
    dialog.get_by_role("button", name="Edit and retry").click()
    expect(badge(page)).to_have_text("running")
    expect(page.locator(".toast")).to_contain_text("A corrected job was enqueued")
    mark(page)
    (premises.folder / "closed").unlink()
    expect(badge(page)).to_have_text("completed")
    expect(page.locator("main")).to_contain_text(f"sent to patient@example.com, with {len(SECRET)} letters")
    assert was_not_loaded_again(page)


def test_a_paused_queue_changes_the_verdict_and_the_title_of_every_tab(visit, premises):
    visitor = visit("admin")
    premises.discard_dead()
    premises.become(premises.tasks.tidy.enqueue(), State.COMPLETED)
    overview = visitor.page
    overview.goto("/")
    expect(overview).to_have_title("Overview · All well · Standfast")
    mark(overview)

    queue = visitor.new_page()
    queue.goto("/queues/chores")
    queue.get_by_role("button", name="Pause", exact=True).click()
    queue.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(queue.locator("main .badge.warn")).to_have_text("paused")
    waiting = premises.tasks.tidy.enqueue()
    expect(overview).to_have_title("⚠ Attention: 1 finding · Overview · Standfast")
    expect(overview.locator(".verdict")).to_contain_text("Queue 'chores' is paused")

    queue.get_by_role("button", name="Resume").click()
    premises.become(waiting, State.COMPLETED)
    expect(overview).to_have_title("Overview · All well · Standfast")
    assert was_not_loaded_again(overview)


def test_a_schedule_is_triggered_and_its_fire_is_seen(page):
    page.goto("/schedules/nightly")
    mark(page)
    page.get_by_role("button", name="Trigger").click()
    page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
    fire = page.locator("tbody tr", has_text="triggered").first
    expect(fire).to_contain_text("fired")
    assert was_not_loaded_again(page)
    fire.get_by_role("link").click()
    expect(badge(page)).to_have_text("completed")


def test_an_alert_is_acknowledged_and_silenced_until_an_end(visit, premises):
    """It is on the overview and in the title as long as it is not silenced; a silence without an end is none."""
    visitor = visit("admin")
    premises.discard_dead()
    overview, page = visitor.page, visitor.new_page()
    overview.goto("/")
    mark(overview)
    premises.alert("post-office")
    expect(overview.get_by_role("heading", name="Firing alerts")).to_be_visible()
    expect(overview.locator(".verdict")).to_contain_text("1 alert is firing")
    page.goto("/alerts")
    mark(page)
    row = page.locator("tbody tr", has_text="post-office")
    row.get_by_role("button", name="Acknowledge").click()
    expect(row).to_contain_text("admin looks after it")
    expect(row.get_by_role("button", name="Unacknowledge")).to_be_focused()
    page.keyboard.press("Enter")
    expect(row).not_to_contain_text("looks after it")
    row.get_by_role("button", name="Acknowledge").click()
    expect(row).to_contain_text("admin looks after it")
    row.get_by_role("button", name="Silence", exact=True).click()
    dialog = page.get_by_role("dialog", name="Silence")
    dialog.get_by_role("button", name="Silence").click()
    expect(dialog.get_by_label("Until")).to_be_focused()
    dialog.get_by_label("Until").fill("2h")
    dialog.get_by_role("button", name="Silence").click()
    expect(row).to_contain_text("silenced")
    expect(page.locator(".toast").last).to_have_text(re.compile(r"Silenced until .*\d\d:\d\d:\d\d \(in 2 hr"))
    expect(overview.get_by_role("heading", name="Firing alerts")).to_have_count(0)
    page.locator("li", has_text="post-office").get_by_role("button", name="End now").click()
    expect(row).not_to_contain_text("silenced")
    premises.alert()
    expect(row).to_have_count(0)
    assert was_not_loaded_again(page)
    assert was_not_loaded_again(overview)


def test_a_rule_is_changed_in_the_words_of_commands(visit):
    """Its form shows what counts as commands take it; what is none is said in it."""
    visitor = visit("admin")
    visitor.expect_status(422)
    page = visitor.page
    page.goto("/alerts/rules")
    row = page.locator("tbody tr", has_text="queue_age")
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Limit")).to_have_value("5m")
    dialog.get_by_label("Limit").fill("soon")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("'soon' is no span")
    dialog.get_by_label("Limit").fill("10m")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("more than 10 min")
    expect(row).to_contain_text("changed")
    row.get_by_role("button", name="Reset").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(row).to_contain_text("more than 5 min")


def test_five_hundred_dead_jobs_are_retried_at_once(page, premises):
    """By filter, with their number and a question first."""
    premises.put("closed")
    mail = premises.tasks.send_mail.options(tags=["campaign"])
    handles = mail.enqueue_many([{"to": f"hasty@{number}.example"} for number in range(MANY)])
    premises.settled(handles)
    page.goto("/jobs?state=dead")
    page.get_by_text("More filters").click()
    page.get_by_label("Tag").fill("campaign")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("button", name="Retry…").click()
    expect(page.locator("main")).to_contain_text("500 jobs are meant.")
    assert {handle.status() for handle in handles[:5]} == {State.DEAD}
    (premises.folder / "closed").unlink()
    page.get_by_role("button", name="Retry 500 jobs").click()
    expect(page).to_have_url(re.compile(r"/jobs\?state=dead"))
    expect(page.locator(".toast")).to_contain_text("Done with 500 jobs")
    eventually(lambda: len(premises.jobs(states=(State.COMPLETED,), tags=("campaign",))) == MANY, "all are sent")


def test_a_picture_of_a_worker_is_taken_and_read(page, premises):
    worker = premises.app.call(premises.app.verbs.workers())[0].info.id
    page.goto(f"/workers/{worker}")
    page.get_by_role("button", name="Live stacks").click()
    page.get_by_role("dialog").get_by_role("button", name="Live stacks").click()
    eventually(lambda: premises.asked("incidents", "list"), "an incident")
    page.goto("/incidents")
    page.locator("tbody").get_by_role("link").first.click()
    expect(page.locator("main")).to_contain_text("read_book")
    expect(page.locator("details[open] pre").first).to_contain_text("most recent call first")


# -- who may only look -----------------------------------------------------------------------------------------


def test_a_viewer_finds_no_button_and_every_forged_form_is_refused(visit, premises):
    visitor = visit("viewer")
    visitor.page.goto("/queues")
    expect(visitor.page.locator("tbody tr").first).to_be_visible()
    assert visitor.page.locator("main button").count() == 0
    for path in premises.all_paths().values():
        text = visitor.context.request.get(path).text()
        assert 'id="main"' in text
        assert "/do/" not in text, path
        assert "popovertarget" not in text, path
    proof = visitor.page.locator("input[name=csrf]").first.input_value()
    before = premises.counts()
    for operation in [each for each in OPERATIONS if each.changes]:
        answer = visitor.context.request.post(
            f"{premises.base}/do/{operation.name}",
            form={"csrf": proof, "back": "/", **forged(operation, premises)},
            headers={"Origin": premises.base, "Sec-Fetch-Site": "same-origin", "Accept": "application/json"},
        )
        assert answer.status == 403, f"{operation.name}: {answer.status} {answer.text()}"
    assert premises.counts() == before


# -- watching --------------------------------------------------------------------------------------------------


def test_progress_moves_by_itself_and_stops_while_updates_are_paused(visit, premises):
    visitor = visit("admin")
    book = premises.tasks.read_book.enqueue("novel", pages=4)
    paused, live = visitor.page, visitor.new_page()
    for page in (paused, live):
        page.goto(f"/jobs/{book.id}")
        expect(page.locator("main .progress").first).to_contain_text("1 of 4")
        mark(page)
    premises.put("novel-1")
    expect(paused.locator("main .progress").first).to_contain_text("2 of 4 (50%)")
    paused.get_by_role("button", name="Pause live updates").click()
    premises.put("novel-2")
    expect(live.locator("main .progress").first).to_contain_text("3 of 4")
    expect(paused.locator("main .progress").first).to_contain_text("2 of 4")
    paused.get_by_role("button", name="Pause live updates").click()
    expect(paused.locator("main .progress").first).to_contain_text("3 of 4")
    premises.put("novel-3")
    premises.put("novel-4")
    expect(badge(paused)).to_have_text("completed")
    assert was_not_loaded_again(paused)
    assert was_not_loaded_again(live)


def test_what_somebody_types_is_kept_while_the_page_changes(page, premises):
    page.goto(f"/jobs/{premises.dead_mail().id}")
    page.get_by_role("button", name="Edit and retry").click()
    typed = page.get_by_role("dialog").get_by_label("Arguments")
    typed.fill('{"to": "half an addr')
    page.locator("#nav .bad").evaluate("each => { each.textContent = 'old' }")
    premises.dead_mail()
    expect(page.locator("#nav .bad")).to_have_text(re.compile(r"\d"))
    expect(typed).to_be_focused()
    expect(typed).to_have_value('{"to": "half an addr')


def test_what_is_not_there_stays_not_there(visit, premises):
    """While the rest of the page goes on."""
    visitor = visit("admin")
    visitor.expect_status(404)
    page = visitor.page
    for path in ("/alerts/nosuch", "/%3Fnosuch"):
        premises.dead_mail()
        page.goto(path)
        page.locator("#nav .bad").evaluate("each => { each.textContent = 'old' }")
        premises.dead_mail()
        expect(page.locator("#nav .bad")).to_have_text(re.compile(r"\d"))
        expect(page.get_by_role("heading", name="Not there")).to_be_visible()


# -- every way to look at it -----------------------------------------------------------------------------------


def test_on_a_phone_nothing_is_wider_than_the_screen(visit, premises):
    page = visit("admin", **PHONE).page
    for path in premises.all_paths().values():
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{path} is {wide} wide"
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Queues").tap()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_on_a_narrow_phone_nothing_of_an_objective_is_cut_off_and_all_buttons_are_in_one_line(visit):
    page = visit("admin", viewport={"width": 360, "height": 780}).page
    page.goto("/objectives")
    page.get_by_role("button", name="Pause live updates").click()
    page.locator(".objective td.figure").first.evaluate("each => { each.textContent = '1,283.68×' }")
    cut = page.locator(".objective .scroll").evaluate("each => each.scrollWidth - each.clientWidth")
    assert cut == 0
    middles = page.locator("#verdict, .top button").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect()).map(box => Math.round((box.top + box.bottom) / 2))"
    )
    assert len(middles) == 5
    assert max(middles) - min(middles) <= 1


def test_on_a_broad_screen_pages_and_what_is_above_them_are_in_the_middle(visit):
    page = visit("admin", viewport={"width": 2560, "height": 900}).page
    page.goto("/alerts")
    left = page.evaluate("document.querySelector('main h1').getBoundingClientRect().left")
    right = page.evaluate("document.querySelector('main .card').getBoundingClientRect().right")
    assert left - page.locator(".side").bounding_box()["width"] == pytest.approx(2560 - right, abs=20)
    assert page.locator("#find").bounding_box()["x"] == pytest.approx(left, abs=1)
    out = page.get_by_role("button", name="Sign out").bounding_box()
    assert out["x"] + out["width"] == pytest.approx(right, abs=1)


def test_every_page_speaks_chinese(visit, premises):
    """What is said in English anywhere in the catalogue is on no page, where Chinese has other words for it."""
    page = visit("admin").page
    page.goto("/")
    page.get_by_role("button", name="繁體中文").click()
    chinese = dict(texts_in("zh-Hant"))
    english = {text for key, text in texts_in("en") if chinese[key] != text}
    for path in premises.all_paths().values():
        page.goto(path)
        assert page.locator("html").get_attribute("lang") == "zh-Hant"
        said = page.locator("h1, h2, h3, th, dt, label, button, nav a, .badge, .tile .name, summary, .empty p")
        words = {line.strip() for text in said.all_inner_texts() for line in text.splitlines()}
        assert words & english == set(), path


def test_dark_where_the_machine_is_dark_and_as_somebody_chose(visit):
    page = visit("admin", color_scheme="dark").page
    page.goto("/")
    assert brightness(page) < 40
    page.get_by_role("button", name="Light or dark").click()
    assert brightness(page) > 200
    page.goto("/jobs")
    assert brightness(page) > 200


def test_everything_is_reached_by_keyboard(page, premises):
    mail = premises.dead_mail("nobody-by-keyboard")
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type(mail.id)
    page.keyboard.press("Enter")
    expect(badge(page)).to_have_text("dead")
    tab_to(page, page.get_by_role("button", name="Discard"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Discard")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Discard")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(badge(page)).to_have_text("cancelled")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    chores = page.locator("tbody tr", has_text="chores")
    tab_to(page, chores.get_by_role("button", name="Pause", exact=True))
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(chores.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Enter")
    expect(chores.get_by_role("button", name="Pause", exact=True)).to_be_focused()


def test_all_of_it_works_without_a_script(visit, premises):
    premises.dead_mail("nowhere-without-script")
    page = visit("admin", java_script_enabled=False).page
    page.goto("/jobs")
    page.get_by_label("Search").fill("nowhere-without-script")
    page.get_by_role("button", name="Filter").click()
    page.locator("tbody").get_by_role("link", name="send_mail").click()
    page.get_by_role("button", name="Edit and retry").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Arguments").fill('{"to": "ada@example.com"}')
    dialog.get_by_role("button", name="Edit and retry").click()
    expect(page.locator("main .note.good").first).to_contain_text("A corrected job was enqueued")
    eventually(lambda: page.reload() and badge(page).inner_text() == "completed", "the corrected mail is sent")


def test_axe_finds_no_serious_fault(visit, premises):
    """On any page, in light and in dark."""
    signed_in, stranger = visit("admin"), visit()
    signed_in.expect_status(404)
    paths = {**premises.all_paths(), "an error": "/jobs/0190b0c0-0000-7000-8000-000000000000"}
    found = [fault for name, path in paths.items() for fault in faults_of(signed_in.page, name, path)]
    assert found + faults_of(stranger.page, "sign-in", "/sign-in") == []
