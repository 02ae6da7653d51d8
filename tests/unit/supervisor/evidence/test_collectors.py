"""Collectors of evidence: bounded, never failing aloud, and without secrets."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.loop import VirtualLoop
from standfast.supervisor.incidents.snapshot import (
    command_line,
    find_py_spy,
    gather,
    machine,
    own_limits,
    process_facts,
    py_spy,
    surroundings,
    versions,
)


def test_one_that_hangs_or_fails_says_so_in_its_part() -> None:
    """The others are there, and all of it takes no longer than it may."""

    async def fail() -> str:
        raise RuntimeError("no luck")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        found = await gather(
            {
                "late": asyncio.sleep(60, "x"),
                "bad": fail(),
                "good": asyncio.sleep(1, "y"),
                "": asyncio.sleep(0, ""),
            },
            within=2,
        )
        assert found == {
            "late": "(not known: there was no answer in time)",
            "bad": "(not known: RuntimeError: no luck)",
            "good": "y",
        }
        assert loop.time() == 2

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story())


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            ["standfast", "worker", "a:b", "--url", "postgresql://me:pw@h/db"],
            "standfast worker a:b --url postgresql://",
        ),
        (["standfast", "--url=redis://:pw@h/0", "--drain"], "standfast --url=redis h:6379/0 --drain"),
        (["standfast", "--url", "nonsense"], "standfast --url "),
        (["standfast", "worker", "a:b"], "standfast worker a:b"),
    ],
)
def test_a_command_line_without_passwords(words: list[str], shown: str) -> None:
    """Of a URL only what people may see."""
    line = command_line(words)
    assert line.startswith(shown)
    assert "pw" not in line


def test_the_machine_and_what_is_installed() -> None:
    """Versions of Python, ours and of packages; load and memory; limits."""
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions()
    assert "msgspec: " in versions()
    assert "processors: " in machine()
    assert "RLIMIT_NOFILE: " in own_limits()


def test_surroundings_keep_secrets(monkeypatch) -> None:
    """A variable that nobody knows to be harmless is named, and its value is nowhere."""
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("STANDFAST_URL", "postgresql://me:hunter2-hunter2@h/db")
    parts = asyncio.run(surroundings(lambda: "well"))
    assert "SHOP_TOKEN=" in parts["environment"]
    assert "hunter2" not in str(parts)
    assert parts["supervisor"] == "well"


class TestOutside:
    """A living process, seen from outside."""

    def test_what_proc_tells(self) -> None:
        """State, limits, and each thread."""
        facts = process_facts(os.getpid())
        assert "State:" in facts
        assert "threads:\n" in facts

    def test_a_process_that_is_no_more(self) -> None:
        """Nothing is known of it, and nothing fails."""
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        assert process_facts(ended.pid) == ""

    def test_without_py_spy(self, monkeypatch) -> None:
        """It is never required."""
        monkeypatch.setenv("PATH", "")
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        assert find_py_spy() is None
        assert asyncio.run(py_spy(os.getpid())) == ""

    def test_py_spy_is_asked_for_native_frames(self, tmp_path: Path, monkeypatch) -> None:
        """It is found beside the interpreter, too; what it says on either stream is kept."""
        spy = tmp_path / "py-spy"
        spy.write_text('#!/bin/sh\necho "asked: $@"; echo "no permission" >&2; exit 1\n')
        spy.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        assert asyncio.run(py_spy(42)) == "asked: dump --native --pid 42\nno permission\n"

    def test_a_py_spy_that_hangs_is_ended(self, tmp_path: Path) -> None:
        """Within its time, with a word in its part, and without a process left behind."""
        spy, mark = tmp_path / "py-spy", tmp_path / "pid"
        spy.write_text(f"#!/bin/sh\necho $$ > {mark}\nexec sleep 600\n")
        spy.chmod(0o755)

        async def story() -> dict[str, str]:
            return await gather({"native": py_spy(1, str(spy))}, within=0.5)

        assert asyncio.run(story()) == {"native": "(not known: there was no answer in time)"}
        with pytest.raises(ProcessLookupError):
            os.kill(int(mark.read_text()), 0)
