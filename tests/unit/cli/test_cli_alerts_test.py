"""`standfast alerts test`: a test goes through the channels, and whether it went is told."""

import importlib
import json
import sys

import pytest

from alert_receivers import hook

APP = """
from standfast import CommandChannel, Standfast, WebhookChannel
app = Standfast()
app.alerts(channels=[
    WebhookChannel(name="ops", url="{url}/hush", secret="a-secret-of-the-receiver"),
    CommandChannel(name="sms", command=("{python}", "-c", "{code}")),
])
"""


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """Declare an app in a module of its own."""
    monkeypatch.chdir(tmp_path)
    made = []

    def declare(url, code):
        name = f"told{len(made)}_{tmp_path.name}".replace("-", "_")
        made.append(name)
        (tmp_path / f"{name}.py").write_text(APP.format(url=url, code=code, python=sys.executable))
        importlib.invalidate_caches()
        return f"{name}:app"

    yield declare
    for name in made:
        sys.modules.pop(name, None)


def test_each_channel_is_tried(standfast, declared):
    with hook(204) as receiver:
        target = declared(receiver.url, "pass")
        answer = standfast("alerts", "test", target)
        assert answer.exit_code == 0, answer.output
        assert answer.output.count("sent") == 2
        assert json.loads(standfast("alerts", "test", "sms", target, "--json").output) == [
            {"channel": "sms", "kind": "command", "ok": True, "why": None}
        ]
        [got] = receiver.got
    assert (got["signed"], got["said"]["kind"]) == (True, "test")
    assert got["said"]["title"] == f"test in {target}: this is how an alert arrives"


def test_what_failed_is_told_and_the_exit_code_says_so(standfast, declared):
    with hook(500) as receiver:
        target = declared(receiver.url, "raise SystemExit('no route')")
        answer = standfast("alerts", "test", target)
        assert answer.exit_code == 1
        assert "the receiver answered 500" in answer.output
        assert "no route" in answer.output
        assert "hush" not in answer.output
        told = json.loads(standfast("alerts", "test", target, "--json").output)
    assert [(each["channel"], each["ok"]) for each in told] == [("ops", False), ("sms", False)]


def test_channels_of_the_file_need_no_app(standfast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(
        f'[alerts.channels.sms]\nkind = "command"\ncommand = ["{sys.executable}", "-c", ""]\n'
    )
    answer = standfast("alerts", "test")
    assert answer.exit_code == 0, answer.output


OF_FILE = """
[alerts.channels.pager]
kind = "webhook"
url = "https://pager.example/"
secret = "${{PAGER_SECRET}}"
[alerts.channels.bell]
kind = "command"
command = ["{python}", "-c", ""]
[alerts.channels.wall]
kind = "command"
command = ["{python}", "-c", ""]
[alerts.dead_man]
url = "https://ping.example/${{PING_ID}}"
"""


@pytest.mark.parametrize("with_app", [True, False])
def test_only_the_channels_that_are_named_need_their_secrets(standfast, declared, tmp_path, with_app):
    """Whoever tests one may not know those of the others."""
    (tmp_path / "standfast.toml").write_text(OF_FILE.format(python=sys.executable))
    target = [declared("http://127.0.0.1:1", "pass")] if with_app else []
    told = json.loads(standfast("alerts", "test", "wall", "bell", *target, "--json").output)
    assert [(each["channel"], each["ok"]) for each in told] == [("wall", True), ("bell", True)]
    for names in (["bell", "pager"], []):
        refused = standfast("alerts", "test", *names, *target)
        assert refused.exit_code == 2
        assert "channel 'pager': the variable PAGER_SECRET is not set" in refused.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mial",), "no channel is declared"),
        (("a:b", "c:d"), "two apps are named"),
        (("a:b:c",), "is not MODULE:APP"),
    ],
)
def test_what_makes_no_sense_is_refused(standfast, tmp_path, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    answer = standfast("alerts", "test", *words)
    assert answer.exit_code == 2
    assert told in answer.output


def test_a_channel_that_is_not_there_is_refused(standfast, declared):
    answer = standfast("alerts", "test", "opps", declared("http://127.0.0.1:1", "pass"))
    assert answer.exit_code == 2
    assert "did you mean ops?" in answer.output
