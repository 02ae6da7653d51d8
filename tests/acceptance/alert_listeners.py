"""Those whom alerts reach: a real mail server, a webhook that checks signatures itself, a service that is pinged.

All listen on free ports of this machine, in threads of the test's process, and keep what came with its time.
"""

import hashlib
import hmac
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from alert_receivers import Listener, MailServer, Reply, listening, mail_server

TITLE = "{kind} {rule} {id}"
"""The template of the subjects of mails."""

SECRET = "whsec-7Qm4-never-shown"
WRONG_BY = 60.0
"""Seconds by which the time in a signature may be wrong."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that came: its subject is the kind of a notice, the rule and the id, as TITLE has it."""

    at: float
    kind: str
    delivery: str
    text: str


def mails_in(server: MailServer) -> list[Mail]:
    """Return the mails that came so far."""
    parted = [(letter, letter.subject.split()) for letter in server.letters.got]
    return [Mail(letter.at, words[0], words[2], letter.text) for letter, words in parted]


@dataclass(frozen=True, slots=True)
class Post:
    """What came to a webhook: the time, which delivery it is, the notice, and how it was answered."""

    at: float
    delivery: str
    notice: dict[str, Any]
    status: int

    @property
    def kind(self) -> str:
        return str(self.notice["kind"])


class Webhook(Listener):
    """One who takes signed posts. What has no valid signature is refused, and kept in `forged`.

    `refuse` is how many are yet to be refused; `kill` whether the next who sends is killed: "asking" before it has
    its answer, "answered" at the moment at which it was sent.
    """

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.forged: list[str] = []
        self.killed: list[int] = []
        self.refuse = 0
        self.kill: str | None = None
        super().__init__()

    @property
    def url(self) -> str:
        """Where it is: nobody else is to know the path."""
        return f"{super().url}/hook/of/the/shop"

    def take(self, request: BaseHTTPRequestHandler, body: bytes) -> Reply:
        """Take a post, refuse it, or kill who sent it."""
        delivery = request.headers.get("X-Standfast-Delivery", "")
        signature = request.headers.get("X-Standfast-Signature", "")
        if not is_signed(signature, body):
            self.forged.append(signature)
            return Reply(HTTPStatus.FORBIDDEN)
        status = HTTPStatus.NO_CONTENT
        if self.refuse:
            self.refuse -= 1
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        self.posts.append(Post(time.time(), delivery, json.loads(body), status))
        kill, self.kill = self.kill, None
        if kill is None:
            return Reply(status)
        senders = holders_of(request.client_address[1])  # who has its answer may let go of the connection at once
        if kill == "asking":
            self._kill(senders)
            return Reply(status)
        return Reply(status, after=lambda: self._kill(senders))

    def accepted(self, kind: str) -> list[Post]:
        """Return what was accepted of a kind, each delivery once: it may come again if its sender was killed."""
        return list({post.delivery: post for post in reversed(self.posts) if _counts(post, kind)}.values())

    def times(self, kind: str) -> int:
        """Return how many posts of a kind were accepted, those that came again included."""
        return sum(_counts(post, kind) for post in self.posts)

    def _kill(self, senders: Sequence[int]) -> None:
        for pid in senders:
            os.kill(pid, signal.SIGKILL)
            self.killed.append(pid)


def _counts(post: Post, kind: str) -> bool:
    return post.kind == kind and post.status < HTTPStatus.BAD_REQUEST


def is_signed(header: str, body: bytes, secret: str = SECRET) -> bool:
    """Tell whether a header is `t=SECONDS,v1=HEX`, of now, and over this body: written from the docs alone."""
    said = dict(part.partition("=")[::2] for part in header.split(","))
    if said.keys() != {"t", "v1"} or abs(time.time() - float(said["t"])) > WRONG_BY:
        return False
    expected = hmac.new(secret.encode(), said["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, said["v1"])


def holders_of(port: int) -> list[int]:
    """Return the processes whose end of a connection has this port of the loopback."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    wanted = {f"socket:[{row[9]}]" for row in rows if row[1] == f"0100007F:{port:04X}"}
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if wanted & set(_open_in(folder))]


def _open_in(folder: Path) -> Iterator[str]:
    with suppress(OSError):  # it has ended, or is not ours
        for each in (folder / "fd").iterdir():
            with suppress(OSError):
                yield str(each.readlink())


class Pings(Listener):
    """A service that is told that all is well."""

    def __init__(self) -> None:
        self.at: list[float] = []
        super().__init__()

    def take(self, request: BaseHTTPRequestHandler, body: bytes) -> Reply:  # noqa: ARG002
        """Take a ping."""
        self.at.append(time.time())
        return Reply(HTTPStatus.OK)


@contextmanager
def all_listening() -> Iterator[tuple[MailServer, Webhook, Pings]]:
    """Let all of them listen."""
    with mail_server() as mail, listening(Webhook()) as webhook, listening(Pings()) as pings:
        yield mail, webhook, pings
