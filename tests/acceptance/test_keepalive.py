"""`standfast keepalive` as a process: it says that a host went, and ends so that whoever started it hears of it."""

import json
import signal
import subprocess

from shopfloor import PATIENCE, STANDFAST, Shop, environment

from ping_hosts import ping_host

HOST_DOWN = 4


def keepalive(*options):
    command = [STANDFAST, "keepalive", *options, "--json"]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_host_that_goes_is_given_up_with_an_incident(tmp_path):
    """It was up; then nobody listens any more. The exit code is 4, and the store tells of it."""
    with Shop(tmp_path) as shop:
        shop.app.prepare()
        with ping_host() as host:
            process = keepalive(host.url, "--every", "50ms", "--fail-after", "3", "--url", shop.url)
            up = json.loads(process.stdout.readline())
        out, err = process.communicate(timeout=PATIENCE)
        down, given_up = map(json.loads, out.splitlines())
        assert (process.returncode, err) == (HOST_DOWN, "")
        assert [line["change"] for line in (up, down, given_up)] == ["up", "down", "given_up"]
        assert given_up["says"] == "connection refused"
        [incident] = shop.asked("incidents", "list")
        assert (incident["id"], incident["trouble"]) == (given_up["incident"], "unreachable")


def test_sigterm_ends_it_well():
    """As a service manager does it, in the middle of a long pause."""
    with ping_host() as host:
        process = keepalive(host.url, "--every", "1d")
        assert json.loads(process.stdout.readline())["change"] == "up"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE) == ("", "")
        assert process.returncode == 0
