"""`keepalive`: real hosts that fail so often; what is told, which incident is opened, and how it ends."""

import json
import os
import signal
import socket
import threading

import pytest
from cli_world import answer, assert_refused, bare

from ping_hosts import ping_host

FAILED, USAGE, HOST_DOWN = 1, 2, 4
TOKEN = "a-token-that-nobody-guesses"
QUICK = ("--every", "1ms")


def told(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def changes(result):
    return [(line["change"], line["says"], line["failures"]) for line in told(result)]


def test_changes_are_told_in_a_line_each():
    with ping_host(200, 200, 503, 503, 200) as host:
        result = bare("keepalive", f"{host.url}/ping?key=hunter2", *QUICK, "--count", "5")
        assert result.exit_code == 0
        lines = [line.split(" ", 1)[1] for line in result.stdout.splitlines()]
        assert lines[0].startswith(f"up {host.url}/ping: 200 OK in ")
        assert lines[1] == f"down {host.url}/ping: 503 Service Unavailable (failure 1 of 3)"
        assert lines[2].startswith(f"back {host.url}/ping: 200 OK in ")
        assert len(lines) == 3
        assert len(host.asked) == 5


def test_so_many_failures_in_a_row_are_the_end():
    with ping_host(200, 503, 503, 200, 500, 502, 503, 200) as host:
        result = bare("keepalive", host.url, *QUICK, "--fail-after", "3", "--json")
        assert result.exit_code == HOST_DOWN
        assert changes(result) == [
            ("up", "200 OK", 0),
            ("down", "503 Service Unavailable", 1),
            ("back", "200 OK", 0),
            ("down", "500 Internal Server Error", 1),
            ("given_up", "503 Service Unavailable", 3),
        ]
        assert len(host.asked) == 7


def test_an_incident_is_opened_with_the_failures_as_evidence(standfast):
    with ping_host(500, 502, 503) as host:
        url = f"{host.url}/ping?key=hunter2"
        result = standfast("keepalive", url, *QUICK, "--json")
        assert result.exit_code == HOST_DOWN
        incident_id = told(result)[-1]["incident"]
        shown = answer(standfast("incidents", "show", incident_id, "--json"))
        assert (shown["trouble"], shown["count"], shown["host"]) == ("unreachable", 1, socket.gethostname())
        assert (
            shown["summary"] == f"{host.url}/ping did not answer well: 3 failures in a row, 503 Service Unavailable"
        )
        assert shown["evidence"]["pings"]["text"].splitlines() == [
            "500 Internal Server Error",
            "502 Bad Gateway",
            "503 Service Unavailable",
        ]
        assert "hunter2" not in json.dumps(shown) + result.output
        again = standfast("keepalive", url, *QUICK)
        assert f"incident {incident_id[-8:]}" in again.stdout
        [listed] = answer(standfast("incidents", "list", "--json"))
        assert (listed["id"], listed["count"]) == (incident_id, 2)
        assert "unreachable" in standfast("incidents", "list").stdout


def test_a_store_that_is_not_there_does_not_keep_from_ending(tmp_path):
    with ping_host(503) as host:
        result = bare("keepalive", host.url, "--fail-after", "1", "--url", f"sqlite:///{tmp_path}/none.db")
        assert result.exit_code == HOST_DOWN
        assert "given up" in result.stdout
        assert "standfast: the incident is not in the store: there is no database" in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_without_a_store_none_is_made(tmp_path):
    with ping_host(503) as host:
        result = bare("keepalive", host.url, "--fail-after", "1")
        assert (result.exit_code, result.stderr) == (HOST_DOWN, "")
        assert list(tmp_path.iterdir()) == []


def test_several_hosts_one_of_which_fails():
    with ping_host() as good, ping_host(200, 503) as bad:
        result = bare("keepalive", good.url, bad.url, good.url, *QUICK, "--fail-after", "2", "--json")
        assert result.exit_code == HOST_DOWN
        assert {line["change"] for line in told(result) if line["url"].startswith(good.url)} == {"up"}
        assert len(good.asked) == len(bad.asked) == 3


def test_once():
    with ping_host() as good, ping_host(503) as bad:
        assert bare("keepalive", good.url, "--once").exit_code == 0
        assert bare("keepalive", good.url, bad.url, "--once").exit_code == FAILED


def test_the_token_is_sent_and_never_told(standfast, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    with ping_host(401) as host:
        result = standfast("keepalive", host.url, *QUICK, "--token-file", str(file), "--json")
        assert host.asked == [("/", f"Bearer {TOKEN}")] * 3
        incident = standfast("incidents", "show", told(result)[-1]["incident"], "--json").stdout
        assert TOKEN not in result.output + incident


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "URL"),
        (["shop.example"], "a URL to ping must look like https://shop.example/livez"),
        (["http://u:hunter2@shop.example"], "no user and no password"),
        (["http://h/", "--every", "0"], "longer than nothing"),
        (["http://h/", "--timeout", "0"], "longer than nothing"),
        (["http://h/", "--every", "often"], "is no span"),
        (["http://h/", "--fail-after", "0"], "--fail-after"),
        (["http://h/", "--count", "0"], "--count"),
    ],
)
def test_nonsense_is_wrong_usage(args, words):
    result = bare("keepalive", *args)
    assert_refused(result, USAGE, words)
    assert "hunter2" not in result.stderr


def test_sigterm_ends_it_at_once_and_well():
    """Also in the middle of a pause that lasts for days; and whose handler it was has it again."""
    before = signal.getsignal(signal.SIGTERM)
    with ping_host() as host:
        ending = threading.Thread(target=lambda: host.answered.wait(30) and os.kill(os.getpid(), signal.SIGTERM))
        ending.start()
        result = bare("keepalive", host.url, "--every", "7d")
        ending.join()
        assert (result.exit_code, result.stderr) == (0, "")
    assert signal.getsignal(signal.SIGTERM) is before
