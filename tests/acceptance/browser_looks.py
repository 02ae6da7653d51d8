"""What tests see of a page, and do on many of them."""

import re

from axe_playwright_python.sync_playwright import Axe
from browser_stage import PASSWORD
from playwright.sync_api import expect

expect.set_options(timeout=30_000)


def sign_in(page, name):
    """Sign in with a password."""
    page.goto("/sign-in")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#verdict")).to_be_visible()


def badge(page):
    """Return where a page says in which state its job is."""
    return page.locator("main .title .badge").first


def mark(page):
    """Leave a mark that is gone as soon as the page is loaded again."""
    page.evaluate("window.marked = true")


def was_not_loaded_again(page):
    return page.evaluate("window.marked === true")


def tab_to(page, wanted):
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not lead to {wanted}")


def brightness(page):
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def faults_of(page, name, path):
    """Return what axe finds; what has no colour is the same in the dark."""
    page.emulate_media(color_scheme="light")
    page.goto(path)
    light = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate("axe.run({runOnly: ['color-contrast'], resultTypes: ['violations']})")["violations"]
    return [
        f"{name}, {look}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for look, violations in (("light", light), ("dark", dark))
        for each in violations
        if each["impact"] in {"serious", "critical"}
    ]


def forged(operation, premises):
    """Return all that a form of this operation needs."""
    known = {"id": premises.reading.id, "name": "nightly", "action": "cancel", "expected": "1", "confirm": "x"}
    more = {"since": "1d", "at": "1h", "until": "1h", "args": "{}", "check": "queue_age"}
    return {name: value for name, value in {**known, **more}.items() if name in operation.asked.__struct_fields__}
