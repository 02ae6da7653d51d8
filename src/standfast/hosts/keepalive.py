"""Keeps hosts alive: each is pinged now and again, what changes is told, and too many failures in a row end it.

    unknown ─► up ◄─► down ─(so many failures in a row)─► given up

A ping is a GET of a URL. The token goes into a header, and to no other host than the one named: a redirect elsewhere is
not followed. What is told of a URL never has its query in it.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Self
from urllib.parse import SplitResult, urljoin

from standfast.errors import ConfigurationError
from standfast.model.validation import http_url, port_of
from standfast.observe.http_client import NoAnswerError, send_request

MOST_KEPT = 20  # failures of which the words are kept, as evidence
_LEEWAY = 1.0  # seconds that a ping may take longer than its timeout: to look up a name has a limit of its own
MOST_REDIRECTS = 5
_EXAMPLE = "https://shop.example/livez"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Pinged:
    """What became of a ping: the status of the answer, or what went wrong; and how many seconds it took."""

    ok: bool
    says: str
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """What is pinged."""

    url: SplitResult

    @classmethod
    def of(cls, text: str) -> Self:
        """Return what a URL means. Raises ConfigurationError, which does not repeat a password."""
        return cls(http_url(text, "a URL to ping", "give a token with --token-file instead", _EXAMPLE))

    @property
    def name(self) -> str:
        """What to call it in front of people."""
        return f"{self.url.scheme}://{self.url.netloc}{self.url.path}"

    @property
    def port(self) -> int:
        """Its port."""
        return port_of(self.url)

    def leads_on(self, to: "Target") -> bool:
        """Tell whether a redirect may be followed: on the same host, and never from https to http."""
        same = self.url.hostname == to.url.hostname
        plain = (self.url.scheme, self.port) == (to.url.scheme, to.port)
        secured = (self.url.scheme, self.port, to.url.scheme, to.port) == ("http", 80, "https", 443)
        return same and (plain or secured)


def ping(target: Target, timeout: float, token: str | None = None) -> Pinged:
    """Get a URL. All of it, redirects too, has `timeout` seconds."""
    began_at = time.monotonic()
    headers = {"User-Agent": "standfast-keepalive", "Accept": "*/*"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    ok, says = False, f"more than {MOST_REDIRECTS} redirects"
    for _ in range(MOST_REDIRECTS + 1):
        try:
            answer = send_request(target.url, timeout, headers=headers, began_at=began_at)
        except NoAnswerError as error:
            says = str(error)
            break
        if answer.status not in _REDIRECTS or answer.location is None:
            ok, says = answer.status < HTTPStatus.BAD_REQUEST, answer.says
            break
        try:
            there = Target.of(urljoin(target.url.geturl(), answer.location))
        except (ConfigurationError, ValueError):
            says = f"{answer.status}, a redirect that cannot be followed"
            break
        if not target.leads_on(there):
            says = f"{answer.status}, a redirect to another host: give the URL that it leads to"
            break
        target = there
    return Pinged(ok, says, time.monotonic() - began_at)


class Change(StrEnum):
    """What may be told of a host."""

    UP = "up"  # it answers, and is heard of for the first time
    DOWN = "down"  # it does not
    BACK = "back"  # it answers again
    GIVEN_UP = "given_up"  # it has not answered so many times in a row


@dataclass(slots=True)
class Kept:
    """A host that is kept alive: how often in a row it failed, and the words of the last failures."""

    target: Target
    is_up: bool | None = None
    failures: int = 0
    reasons: list[str] = field(default_factory=list)

    def take(self, pinged: Pinged, fail_after: int) -> Change | None:
        """Note what became of a ping; return what there is to tell."""
        was_up, self.is_up = self.is_up, pinged.ok
        if pinged.ok:
            self.failures = 0
            self.reasons.clear()
            return None if was_up else Change.UP if was_up is None else Change.BACK
        self.failures += 1
        self.reasons = [*self.reasons, pinged.says][-MOST_KEPT:]
        if self.failures >= fail_after:
            return Change.GIVEN_UP
        return Change.DOWN if self.failures == 1 else None


Tell = Callable[[Kept, Change, Pinged], None]


class KeepAlive:
    """Pings hosts, all at once, until it is told to stop or one of them is given up."""

    def __init__(
        self, targets: Sequence[Target], ping: Callable[[Target], Pinged], *, fail_after: int, longest: float
    ) -> None:
        self.kept = [Kept(target) for target in targets]
        self._ping = ping
        self._fail_after = fail_after
        self._longest = longest + _LEEWAY
        self._answers: dict[int, queue.SimpleQueue[Pinged]] = {}

    def round(self, tell: Tell) -> bool:
        """Ping each once; tell what has changed, and return whether all may go on."""
        for number, kept in enumerate(self.kept):
            if number not in self._answers:
                self._answers[number] = queue.SimpleQueue()
                threading.Thread(target=self._go, args=(kept.target, self._answers[number]), daemon=True).start()
        ends_at = time.monotonic() + self._longest
        changes = [self._taken(number, kept, ends_at, tell) for number, kept in enumerate(self.kept)]
        return Change.GIVEN_UP not in changes

    def _go(self, target: Target, answer: "queue.SimpleQueue[Pinged]") -> None:
        try:
            answer.put(self._ping(target))
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits is to be told
            answer.put(Pinged(ok=False, says=f"internal error: {type(error).__name__}"))

    def _taken(self, number: int, kept: Kept, ends_at: float, tell: Tell) -> Change | None:
        """Wait for one ping; one that hangs is a failure, and is not begun again before it has ended."""
        try:
            pinged = self._answers[number].get(timeout=max(0.0, ends_at - time.monotonic()))
            del self._answers[number]
        except queue.Empty:
            pinged = Pinged(ok=False, says=f"no end after {self._longest:g} s", took=self._longest)
        change = kept.take(pinged, self._fail_after)
        if change is not None:
            tell(kept, change, pinged)
        return change
