"""A machine that is not this one: a network namespace of the test's own, tied to this machine by a cable.

Whoever may not make one, as others than root, asks from this machine's own address in its network instead: that is
no loopback address either, and a server sees it as the peer's.
"""

import ctypes
import http.client
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
NOWHERE = ("192.0.2.1", 9)
"""An address that is nobody's: no packet goes there, but the kernel says from where it would."""


@dataclass(frozen=True)
class Foreign:
    """Asks from elsewhere. `here` is this machine as one sees it from there, `own` the address of who asks."""

    here: str
    own: str
    _pool: ThreadPoolExecutor

    def ask(self, port, path="/healthz", method="GET", headers=None):
        return self._pool.submit(ask, self.here, port, path, method, headers).result(30)


def ask(host, port, path="/healthz", method="GET", headers=None):
    """Return status, headers and body of the answer to a request that is sent as it is written."""
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.putrequest(method, "/", skip_host=True, skip_accept_encoding=True)
        connection._buffer[0] = f"{method} {path} HTTP/1.1".encode("latin-1")  # http.client would refuse odd ones
        for name, value in {"Host": "localhost", **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@contextmanager
def foreign_machine():
    if os.geteuid() != 0:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, ThreadPoolExecutor(1) as pool:
            asking.connect(NOWHERE)
            own = asking.getsockname()[0]
            assert not own.startswith("127."), "this machine has no address but loopback: run this test as root"
            yield Foreign(own, own, pool)
        return
    with _namespace() as holder:
        here, there = _cable(holder.pid)
        with Path(f"/proc/{holder.pid}/ns/net").open() as net, ThreadPoolExecutor(1, "", _enter, (net,)) as pool:
            yield Foreign(here, there, pool)


@contextmanager
def _namespace():
    """Give a process with a namespace of its own, which goes when it ends: with the test at the latest."""
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdin.write(b"in\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"in\n", "no network namespace can be made here, though this is root"
        yield holder
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait(10)


def _cable(pid):
    """Lay a cable to the namespace of a process; return the addresses of its two ends."""
    number = pid % 16_000
    net = f"198.18.{number // 64}"
    here, there = f"{net}.{number % 64 * 4 + 1}", f"{net}.{number % 64 * 4 + 2}"
    inside = f"nsenter --target {pid} --net ip"
    for command in (
        f"ip link add hf{pid}a type veth peer name hf{pid}b netns {pid}",
        f"ip address add {here}/30 dev hf{pid}a",
        f"ip link set hf{pid}a up",
        f"{inside} address add {there}/30 dev hf{pid}b",
        f"{inside} link set hf{pid}b up",
    ):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (
            f"no cable to a network namespace, though this is root: {command}: {done.stderr}"
        )
    return here, there


def _enter(net):
    """Let this thread be in the namespace from now on."""
    if ctypes.CDLL(None, use_errno=True).setns(net.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
