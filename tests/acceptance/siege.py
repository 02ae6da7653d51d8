"""A dashboard under attack: a real process over a store full of hostile texts, and those who come to it.

Every client comes from an address of its own in 127.0.0.0/8, so that no test uses up the patience that the
dashboard has with the address of another.
"""

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
from argon2 import PasswordHasher

from standfast.admin.operation import Role
from standfast.dashboard.access.caller import cookie_name
from standfast.dashboard.access.sessions import SESSION_COOKIE
from standfast.dashboard.access.users import add_user

STANDFAST = str(Path(sys.executable).with_name("standfast"))
TOKEN = "the-token-of-the-dashboard-7f3a"
PASSWORD = "correct horse battery"
USERS = {"ada": Role.ADMIN, "otto": Role.OPERATOR, "vera": Role.VIEWER, "gus": Role.VIEWER}
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Hashes that are no protection, and compared at once."""

NO_TLS = ssl.create_default_context()
"""Made once: it takes longer than a request."""

_addresses = count(1)


def new_address() -> str:
    """Return an address of this machine from which nobody came before."""
    number = next(_addresses)
    return f"127.{1 + os.getpid() % 200}.{number // 250}.{1 + number % 250}"


class Siege:
    """A dashboard that runs, and ways to come to it."""

    def __init__(self, process: subprocess.Popen, url: str, prefix: str = "") -> None:
        self.process = process
        self.url = url
        self.prefix = prefix
        self.port = int(re.search(r":(\d+)", url)[1])
        self.session = cookie_name(SESSION_COOKIE, str(self.port), "")
        self.origin = f"http://127.0.0.1:{self.port}"
        self._clients: list[httpx.Client] = []

    def client(self, **more) -> httpx.Client:
        """Return a browser on a machine of its own, in which nobody is signed in."""
        number = next(_addresses)
        transport = httpx.HTTPTransport(
            local_address=f"127.{1 + os.getpid() % 200}.{number // 250}.{1 + number % 250}"
        )
        self._clients.append(httpx.Client(base_url=self.url, transport=transport, timeout=20, **more))
        return self._clients[-1]

    def leave(self) -> None:
        """Close all browsers."""
        for client in self._clients:
            client.close()

    def signed_in(self, name: str = "ada", **more) -> httpx.Client:
        """Return a browser in which somebody has signed in."""
        client = self.client(**more)
        client.headers["origin"] = self.origin
        answer = client.post("/sign-in", data={"name": name, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return client

    def program(self, token: str = TOKEN) -> httpx.Client:
        """Return a program that has the token."""
        return self.client(headers={"authorization": f"Bearer {token}"})

    def raw(self, *lines: str | bytes, body: bytes = b"") -> bytes:
        """Send a request as it stands here, and return all that is answered."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as wire:
            head = b"\r\n".join(each if isinstance(each, bytes) else each.encode() for each in lines)
            wire.sendall(head + b"\r\n\r\n" + body)
            wire.settimeout(10)
            found = b""
            while part := wire.recv(65536):
                found += part
            return found


def csrf_of(client: httpx.Client, path: str = "/") -> str:
    """Return the token of the forms of a page."""
    return re.search(r'name="csrf" value="([^"]+)"', client.get(path).text)[1]


@contextmanager
def besieged(folder: Path, *words: str, prefix: str = "", url: str | None = None, is_known: bool = True):
    """Run a dashboard over the store in this folder, for those in files of users and tokens, or by link."""
    users, token = folder / "users", folder / "token"
    if not users.exists():
        for name, role in USERS.items():
            add_user(users, name, role, PASSWORD, hasher=QUICK)
        add_user(users, "grant", Role.VIEWER, PASSWORD, grants=["queues.pause"], hasher=QUICK)
        token.write_text(TOKEN)
        token.chmod(0o600)
    command = [STANDFAST, "dashboard", "--url", url or f"sqlite:///{folder / 'jobs.db'}", "--port", "0"]
    command += ["--users", str(users), "--token-file", str(token), *words] if is_known else words
    log = (folder / "dashboard.log").open("ab")
    with log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder) as process:
        try:
            at = re.search(r"http://\S+?(?=/$)", process.stdout.readline())
            assert at, (folder / "dashboard.log").read_text()
            siege = Siege(process, at[0], prefix)
            yield siege
            siege.leave()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def told(folder: Path) -> str:
    """Return what the dashboards over this folder have written for people."""
    return (folder / "dashboard.log").read_text()
