"""A real Chromium, and pages that remember what went wrong in them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, Request, Response, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROKEN_OFF = "ERR_ABORTED"
"""What becomes of a stream of live updates, or of an icon, when somebody goes on to another page."""

PATIENCE = 30_000
"""Milliseconds after which something is taken not to happen."""


def chromium() -> str | None:
    """Return where a Chromium is: on the path, or installed now. None means the one that Playwright has."""
    if (found := _on_path()) is not None:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        _tried("apt-get", "update")
        _tried("apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-noto-cjk")
        if (found := _on_path()) is not None:
            return found
    told = _tried(sys.executable, "-m", "playwright", "install", "chromium")
    assert told.returncode == 0, (
        f"no Chromium: install one of {', '.join(NAMES)}, or `python -m playwright install chromium`, which said:\n"
        f"{told.stdout}{told.stderr}"
    )
    return None


def _on_path() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _tried(*command: str) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=quiet)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a Chromium without a window. Its sandbox does not work for root, who tests in a container."""
    options = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=options)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody with a browser of their own: what goes wrong in any of its pages is kept.

    They like no motion, which costs tests more than all the rest.
    """

    def __init__(self, browser: Browser, base: str, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(base_url=base, reduced_motion="reduce", **options)
        self.context.set_default_timeout(PATIENCE)
        self.faults: list[str] = []
        self._expected: set[int] = set()
        self.context.on("console", self._heard)
        self.context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        self.context.on("requestfailed", self._failed)
        self.context.on("response", self._answered)
        self.page = self.new_page()

    def new_page(self) -> Page:
        return self.context.new_page()

    def expect_status(self, status: int) -> None:
        """Let an answer with this status be no fault: it is what the test is about."""
        self._expected.add(status)

    def _heard(self, message: Any) -> None:
        expected = any(f"status of {status} " in message.text for status in self._expected)
        if message.type in {"error", "warning"} and not expected:
            self.faults.append(f"{message.type}: {message.text}")

    def _failed(self, request: Request) -> None:
        if BROKEN_OFF not in (request.failure or ""):
            self.faults.append(f"failed: {request.method} {request.url} {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.faults.append(f"{response.status}: {response.request.method} {response.url}")

    def leave(self) -> None:
        with suppress(Error):
            self.context.close()
