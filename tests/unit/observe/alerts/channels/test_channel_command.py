"""Commands: no shell, JSON on standard input, a bounded time, and what went wrong is told."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from alert_notices import notice
from standfast import CommandChannel
from standfast.errors import DeliveryError
from standfast.observe.alerts.delivery import send
from standfast.observe.alerts.senders import Programs


def python(code, *arguments, **how):
    return CommandChannel(name="tell", command=(sys.executable, "-c", code, *map(str, arguments)), **how)


def test_it_reads_the_notice(tmp_path):
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    send(notice(), python(code, tmp_path / "it; rm *"))
    assert json.loads((tmp_path / "it; rm *").read_text())["id"] == "n1"


def test_each_is_a_line(tmp_path):
    """So a program that only appends makes a file of lines."""
    for _ in range(2):
        send(notice(), CommandChannel(name="tell", command=("tee", "-a", str(tmp_path / "told"))))
    assert [json.loads(line)["id"] for line in (tmp_path / "told").read_text().splitlines()] == ["n1", "n1"]


def test_a_long_one_is_read_to_its_end(tmp_path):
    """More than a pipe holds, read late."""
    long = notice(labels={"app": "x" * 300_000})
    code = "import sys, time; time.sleep(0.1); open(sys.argv[1], 'w').write(sys.stdin.read())"
    send(long, python(code, tmp_path / "got"))
    assert json.loads((tmp_path / "got").read_text())["labels"] == long.labels


def test_one_that_reads_nothing_is_fine():
    send(notice(labels={"app": "x" * 300_000}), python("pass"))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no route')", "ended with exit code 1: no route"),
        ("import sys; sys.exit(3)", "ended with exit code 3$"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9"),
        ("import sys; print('x' * 100_000 + 'the end', file=sys.stderr); sys.exit(1)", "xxxthe end$"),
    ],
)
def test_what_went_wrong_is_told(code, told):
    with pytest.raises(DeliveryError, match=told) as failed:
        send(notice(), python(code))
    assert failed.value.retry
    assert len(str(failed.value)) < 1000


def test_what_it_says_is_told_without_secrets(monkeypatch):
    monkeypatch.setenv("SMS_TOKEN", "hush-hush")
    code = "import os, sys; sys.exit('password=abcd1234 ' + os.environ['SMS_TOKEN'])"
    with pytest.raises(DeliveryError) as failed:
        send(notice(), python(code))
    assert "hush" not in str(failed.value)
    assert "abcd1234" not in str(failed.value)


def test_one_that_does_not_end_is_killed_with_all_that_it_started(tmp_path):
    code = (
        "import subprocess, sys, os, time\n"
        "other = subprocess.Popen(['sleep', '600'])\n"
        "open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} {other.pid}')\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(DeliveryError, match="not done within 1 s, and was killed"):
        send(notice(), python(code, tmp_path / "pids", timeout=1))
    pids = (tmp_path / "pids").read_text().split()
    give_up_at = time.monotonic() + 10
    while any(map(_lives, pids)):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_whoever_stops_ends_the_programs_and_starts_no_more(tmp_path):
    """Those that are not done would otherwise go on beside what others start for the same notice."""
    programs, failures, started = Programs(), [], tmp_path / "started"
    os.mkfifo(started)
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"

    def sending():
        try:
            send(notice(), python(code, started), programs=programs)
        except DeliveryError as error:
            failures.append(error)

    thread = threading.Thread(target=sending)
    thread.start()
    pid = started.read_text()
    programs.kill()
    thread.join(20)
    assert not _lives(pid)
    with pytest.raises(DeliveryError, match="cannot be started: its sender stops") as refused:
        send(notice(), python(code, started), programs=programs)
    assert "not done when its sender stopped" in str(failures[0])
    assert refused.value.retry
    assert failures[0].retry


def test_what_one_that_fails_has_started_is_killed_too(tmp_path):
    """Else each try would leave some more."""
    with pytest.raises(DeliveryError, match="exit code 1"):
        send(
            notice(),
            CommandChannel(name="tell", command=("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; exit 1")),
        )
    give_up_at = time.monotonic() + 10
    while _lives((tmp_path / "pid").read_text()):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_what_it_leaves_behind_is_not_waited_for():
    """A helper that keeps standard error open is no reason to wait."""
    code = "import subprocess; subprocess.Popen(['sleep', '5'], start_new_session=True)"
    began_at = time.monotonic()
    send(notice(), python(code, timeout=60))
    assert time.monotonic() - began_at < 5


def test_one_that_is_not_there():
    with pytest.raises(DeliveryError, match="cannot be started: No such file"):
        send(notice(), CommandChannel(name="tell", command=("/no/such/program",)))


def _lives(pid):
    try:
        os.kill(int(pid), 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
