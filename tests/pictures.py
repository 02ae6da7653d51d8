"""`make pictures`: takes a picture of every page of the dashboard, of the example shop at work, for docs/.

The shop runs for real, for as long as --seconds says. Its hour before, which nobody would like to wait for, is made
up: only the charts show it. Each page is taken three times: light, dark, and on a phone.
"""

import argparse
import asyncio
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "acceptance")]

from browser import open_browser  # noqa: E402 - found by the line before

from figures_stage import Stage  # noqa: E402 - likewise
from standfast.model.states import Move  # noqa: E402 - likewise
from standfast.settings import read_settings  # noqa: E402 - likewise
from standfast.stores.url import open_backend  # noqa: E402 - likewise
from standfast.testing import FakeClock  # noqa: E402 - likewise

PICTURES = ROOT / "docs" / "images" / "dashboard"
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True},
}
TALLEST = {"light": 1600, "dark": 1600, "phone": 2000}
"""Pixels after which a page is cut off: lists go on, and look alike."""

PATIENCE = 90_000
"""Milliseconds within which anything happens: a job of the shop begins once a minute."""

MOST_BYTES = 150_000
USUAL = {
    "pack_order": ("orders", 55, 0.45),
    "send_mail": ("mail", 50, 0.31),
    "serve_customers": ("default", 30, 0.01),
    "count_stock": ("default", 20, 0.004),
    "index_pages": ("reports", 1, 24.0),
}
"""The queue of each task, how often it runs in a minute, and for how many seconds."""

CLUMSY = 0.15
LINK = re.compile(r"(http://\S+)/sign-in\?once=\S+")
SHORTENED = """roots => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const root of roots) texts.currentNode.nodeValue = texts.currentNode.nodeValue.replaceAll(root, "");
  }
}"""
"""Where the repository, the shop and Python lie is nobody's business."""


def main() -> None:
    """Let the shop live, and take pictures of it."""
    parser = argparse.ArgumentParser(prog="pictures", description="Pictures of the dashboard, for docs/.")
    parser.add_argument("--seconds", type=float, default=90.0, help="for how long the shop lives before")
    parser.add_argument("--only", nargs="*", metavar="PAGE", help="only these, such as alerts; all unless given")
    options = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shop-", ignore_cleanup_errors=True) as folder:
        os.environ["STANDFAST_URL"] = f"sqlite:///{folder}/shop.db"
        os.environ["XDG_STATE_HOME"] = folder
        make_up_an_hour()
        with shop_at_work(Path(folder) / "words") as link, open_browser() as browser:
            time.sleep(options.seconds)
            Photographer(browser, link).take_all(options.only)


def make_up_an_hour() -> None:
    """Count jobs that nobody ran, in each minute of the last hour, as a worker would have counted them."""
    now, dice = datetime.now(UTC), random.Random(7)
    clock = FakeClock(now - timedelta(hours=1))
    backend = open_backend(read_settings({}).settings, clock)
    stage = Stage(backend, clock)
    for minute in range(61):
        begun = 1 if minute < 60 else now.second / 60
        busy = 1 + 0.5 * math.sin(minute / 9) + dice.uniform(-0.15, 0.15)
        for task, (queue, often, seconds) in USUAL.items():
            for _ in range(round(often * busy * begun)):
                move = Move.RETRY if task == "pack_order" and dice.random() < CLUMSY else Move.COMPLETE
                took, late = seconds * dice.lognormvariate(0, 0.4), 0.004 * dice.lognormvariate(0, 0.7)
                stage.count(move, task=task, queue=queue, seconds=took, late=late)
        asyncio.run(stage.publish())
        clock.advance(60)
    backend.close()


@contextmanager
def shop_at_work(words: Path) -> Iterator[str]:
    """Run the shop with its dashboard; give the link to that."""
    command = [str(Path(sys.executable).with_name("standfast")), "up", "shop:app", "--app-dir", "examples"]
    with words.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--dashboard-port", "0"], stdout=file, stderr=file, cwd=ROOT, start_new_session=True
        )
    try:
        while not (link := LINK.search(words.read_text())):
            assert process.poll() is None, words.read_text()
            time.sleep(0.1)
        yield link[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def with_few_colours(picture: Image.Image) -> Image.Image:
    """Return a picture with 256 colours: the most frequent as they are, so that no ground changes, and others."""
    most = sorted(picture.getcolors(1 << 24) or [], reverse=True)[:160]
    others = picture.quantize(96, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for _, colour in most for part in colour), *others[: 96 * 3]])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


class Photographer:
    """Somebody who is signed in, acts a little so that there is something to see, and takes pictures."""

    def __init__(self, browser: Browser, link: str) -> None:
        self._browser = browser
        self._base = link.partition("/sign-in")[0]
        context = browser.new_context(base_url=self._base)
        self._page = context.new_page()
        self._page.set_default_timeout(PATIENCE)
        self._page.goto(link)
        self._page.locator("#verdict").wait_for()
        self._badge = context.storage_state()
        self._size = 0

    def take_all(self, only: Collection[str] | None = None) -> None:
        """Take a picture of each page in each look, or only of some."""
        paths = {name: path for name, path in self._act().items() if only is None or name in only}
        for look, options in LOOKS.items():
            context = self._browser.new_context(base_url=self._base, storage_state=self._badge, **options)
            page = context.new_page()
            if only is None or "job-running" in only:
                self._take(page, self._running(), f"job-running-{look}", TALLEST[look])
            for name, path in paths.items():
                self._take(page, path, f"{name}-{look}", TALLEST[look])
            context.close()
            if only is None or "sign-in" in only:
                stranger = self._browser.new_context(base_url=self._base, **options)
                self._take(stranger.new_page(), "/sign-in", f"sign-in-{look}", WIDE["height"])
                stranger.close()
        sys.stdout.write(f"{len(list(PICTURES.glob('*.png')))} pictures, {self._size // 1000} KB\n")

    def _act(self) -> dict[str, str]:
        """Do what people do; return the paths of pages."""
        page = self._page
        self._press("/queues/reports", "Pause", asked=True)
        self._press("/queues/reports", "Resume", asked=False)
        worker = self._first("/workers", "main a.main")
        self._press(worker, "Live stacks", asked=True)
        dead = self._first("/jobs?state=dead&task=send_mail", "tbody a.main")
        self._press(dead, "Retry", asked=False)
        dead = self._first("/jobs?state=dead&task=send_mail", "tbody a.main")
        page.goto("/alerts")
        page.get_by_role("button", name="Acknowledge").first.click()
        self._silence("schedule_late", "30m")
        page.goto("/incidents")
        page.locator("tbody a.main").first.wait_for()
        return {
            "overview": "/",
            "jobs": "/jobs",
            "job-dead": dead,
            "bulk": "/jobs/bulk?action=retry&state=dead",
            "dead": "/dead",
            "queues": "/queues",
            "queue": "/queues/mail",
            "schedules": "/schedules",
            "schedule": "/schedules/serve_customers",
            "workers": "/workers",
            "worker": worker,
            "tasks": "/tasks",
            "task": "/tasks/pack_order",
            "locks": "/locks",
            "alerts": "/alerts",
            "rules": "/alerts/rules",
            "objectives": "/objectives",
            "incidents": "/incidents",
            "incident": self._first("/incidents", "tbody a.main"),
            "audit": "/audit",
            "settings": "/settings",
        }

    def _silence(self, rule: str, until: str) -> None:
        self._page.goto("/alerts/rules")
        row = self._page.locator("tbody tr", has=self._page.get_by_text(rule, exact=True))
        row.get_by_role("button", name="Silence", exact=True).click()
        dialog = self._page.get_by_role("dialog")
        dialog.get_by_label("Until").fill(until)
        dialog.get_by_label("Why").fill("moving to the new machine")
        dialog.get_by_role("button", name="Silence").click()
        self._page.locator(".toast").wait_for()

    def _running(self) -> str:
        """Return the path of a job that has begun just now, and takes its time."""
        self._press("/schedules/index", "Trigger", asked=True)
        self._page.goto("/jobs?state=running&task=index_pages")
        self._page.locator("tbody progress").first.wait_for()
        return self._first("/jobs?state=running&task=index_pages", "tbody a.main")

    def _first(self, path: str, link: str) -> str:
        self._page.goto(path)
        found = self._page.locator(link).first.get_attribute("href")
        assert found is not None
        return found

    def _press(self, path: str, name: str, *, asked: bool) -> None:
        self._page.goto(path)
        self._page.get_by_role("button", name=name, exact=True).click()
        if asked:
            self._page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()
        self._page.locator(".toast").wait_for()

    def _take(self, page: Page, path: str, name: str, tallest: int) -> None:
        page.route("**/live*", lambda route: route.abort())
        page.goto(path)
        page.evaluate(
            SHORTENED, [f"{place}/" for place in (ROOT, os.environ["XDG_STATE_HOME"], sys.prefix, sys.base_prefix)]
        )
        size = page.viewport_size
        assert size is not None
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), tallest)})
        taken = Image.open(BytesIO(page.screenshot(animations="disabled")))
        page.set_viewport_size(size)
        file = PICTURES / f"{name}.png"
        with_few_colours(taken.convert("RGB")).save(file, optimize=True)
        assert file.stat().st_size <= MOST_BYTES, f"{file} has {file.stat().st_size:,} bytes"
        self._size += file.stat().st_size


if __name__ == "__main__":
    main()
