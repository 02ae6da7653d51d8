"""Signs of life for whoever runs the supervisor, over a real socket."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.errors import ConfigurationError
from standfast.supervisor.systemd import Notifier


class Manager:
    """Hears what is said on a socket as systemd does."""

    def __init__(self, address: str) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind("\0" + address[1:] if address.startswith("@") else address)
        self.line.settimeout(5)
        self.environment = {"NOTIFY_SOCKET": address}

    def hear(self) -> str:
        return self.line.recv(4096).decode()

    def hears_nothing(self) -> bool:
        self.line.setblocking(False)
        try:
            self.line.recv(4096)
        except BlockingIOError:
            return True
        return False


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = f"{tmp_path}/notify" if request.param == "path" else f"@standfast-test-{os.getpid()}-{id(request)}"
    heard = Manager(address)
    yield heard
    heard.line.close()


async def play(notifier: Notifier, seconds: float) -> None:
    task = asyncio.create_task(notifier.run())
    await asyncio.sleep(seconds)
    task.cancel()


def test_ready_is_said_once_with_the_first_ready_child(manager: Manager) -> None:
    ready = iter([0, 0, 1, *[2] * 100])
    notifier = Notifier(manager.environment, lambda: next(ready))
    asyncio.run(play(notifier, 0.5))
    assert manager.hear() == "STATUS=0 workers ready"
    assert manager.hear() == "READY=1\nSTATUS=1 worker ready"
    assert manager.hears_nothing()  # the next look is some seconds away
    notifier.stopping()
    assert manager.hear().startswith("STOPPING=1\n")


def test_readiness_is_said_again_after_a_reload(manager: Manager) -> None:
    notifier = Notifier(manager.environment, lambda: 1)
    asyncio.run(play(notifier, 0.05))
    notifier.reloading()
    asyncio.run(play(notifier, 0.05))
    assert manager.hear() == "READY=1\nSTATUS=1 worker ready"
    assert "RELOADING=1\nMONOTONIC_USEC=" in manager.hear()
    assert manager.hear() == "READY=1\nSTATUS=1 worker ready"


def test_the_watchdog_is_fed_twice_in_its_time(manager: Manager) -> None:
    environment = manager.environment | {"WATCHDOG_USEC": "200000", "WATCHDOG_PID": str(os.getpid())}
    asyncio.run(play(Notifier(environment, lambda: 1), 0.55))
    said = [manager.hear() for _ in range(5)]
    assert said.count("WATCHDOG=1") >= 4


@pytest.mark.parametrize(
    "watched", [{"WATCHDOG_USEC": "200000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {}]
)
def test_who_is_not_watched_feeds_no_watchdog(manager: Manager, watched: dict[str, str]) -> None:
    asyncio.run(play(Notifier(manager.environment | watched, lambda: 1), 0.3))
    assert manager.hear().startswith("READY=1")
    assert manager.hears_nothing()


def test_children_do_not_inherit_the_socket(manager: Manager) -> None:
    environment = manager.environment | {"WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    Notifier(environment, lambda: 1)
    assert environment == {"PATH": "/bin"}


def test_a_manager_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": f"{tmp_path}/nobody"}, lambda: 1)
    asyncio.run(play(notifier, 0.05))
    notifier.stopping()


def test_an_alive_file_that_cannot_be_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"--alive-file .*/file/alive cannot be written"):
        Notifier({}, lambda: 1, tmp_path / "file" / "alive")


def test_the_alive_file_is_there_while_a_child_is_ready(tmp_path: Path) -> None:
    file = tmp_path / "standfast" / "alive"
    asyncio.run(play(Notifier({}, lambda: 0, file), 0.05))
    assert not file.exists()
    notifier = Notifier({}, lambda: 1, file)
    asyncio.run(play(notifier, 0.05))
    assert file.exists()
    notifier.stopping()
    assert not file.exists()
