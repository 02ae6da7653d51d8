"""A real process with a host, in a folder of its own; whatever a test started, it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0


def eventually(condition, what="", within=PATIENCE):
    """Wait until the condition holds, and return what it returned."""
    give_up_at = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"not within {within:g} s: {what or condition}"
        time.sleep(0.02)
    return found


def is_gone(pid):
    """Tell whether a process is gone, or only its parent has not taken note of it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class HostScript:
    """`host_script.py` at work."""

    def __init__(self, folder, *, grace=10.0, script="host_script.py", **more):
        self.folder = folder
        env = {
            **{name: value for name, value in os.environ.items() if name != "STANDFAST_URL"},
            "HOST_TEST_FOLDER": str(folder),
            **{name.upper(): str(value) for name, value in more.items()},
        }
        self.errors = folder / f"words-{os.urandom(3).hex()}"
        with self.errors.open("wb") as words:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / script), str(grace)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env=env,
                text=True,
                cwd=folder,
            )
        self.beaters = []

    def say(self, word):
        """Tell it to do something."""
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def hear(self):
        """Return its answer."""
        line = self.process.stdout.readline()
        assert line, self.words
        return json.loads(line)

    def ask(self, word):
        """Tell it to do something, and return its answer."""
        self.say(word)
        return self.hear()

    def start(self):
        """Start the host, and wait until it works; return the number of its beater."""
        answer = self.ask("start")
        assert answer["ready"], self.words
        self.beaters.append(answer["beater"])
        return answer["beater"]

    @property
    def pid(self):
        return self.process.pid

    @property
    def words(self):
        return self.errors.read_text(errors="replace")

    def kill(self, number=signal.SIGKILL):
        """Send it a signal."""
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(PATIENCE)

    def close(self):
        """End it, and what it has started."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()
        for pid in self.beaters:
            eventually(lambda pid=pid: is_gone(pid), "the end of the beater")
