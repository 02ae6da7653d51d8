"""Channels of the settings file: checked when it is read, secrets from the environment."""

import pytest

from standfast import AppriseChannel, CommandChannel, ConfigurationError, DeadMan, Standfast, WebhookChannel

GOOD = """
[alerts]
dashboard_url = "https://shop.example/jobs"

[alerts.dead_man]
url = "https://ping.example/${PING_ID}"
every = 30

[alerts.channels.ops]
kind = "webhook"
url = "https://${OPS_HOST}/in"
secret = "${OPS_SECRET}"
headers = { Authorization = "Bearer ${OPS_SECRET}" }
timeout = 5

[alerts.channels.mail]
kind = "apprise"
url = "mailtos://me:${OPS_SECRET}@mail.example"
title = "{severity}: {rule}"

[alerts.channels.sms]
kind = "command"
command = ["sms", "${OPS_SECRET}"]
"""
WEBHOOK = "[alerts.channels.ops]\nkind = 'webhook'\nurl = 'https://x.example'\n"
SECRET = "hush-hush-hush-hush"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {"PING_ID": "p1", "OPS_HOST": "ops.example", "OPS_SECRET": SECRET}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "standfast.toml"


def test_all_of_it(file):
    """What goes to a program is left as it is: it has the environment itself."""
    file.write_text(GOOD)
    watching = Standfast().watching
    assert watching.channels == (
        WebhookChannel(
            name="ops",
            url="https://ops.example/in",
            secret=SECRET,
            headers={"Authorization": f"Bearer {SECRET}"},
            timeout=5,
        ),
        AppriseChannel(name="mail", url=f"mailtos://me:{SECRET}@mail.example", title="{severity}: {rule}"),
        CommandChannel(name="sms", command=("sms", "${OPS_SECRET}")),
    )
    assert watching.dead_man == DeadMan(url="https://ping.example/p1", every=30)
    assert watching.dashboard_url == "https://shop.example/jobs"


def test_a_variable_that_is_not_set_is_named_when_the_channels_are_needed(file, monkeypatch):
    """An app that only enqueues starts without it."""
    file.write_text(GOOD)
    monkeypatch.delenv("OPS_SECRET")
    app = Standfast()
    with pytest.raises(ConfigurationError, match="channel 'ops': the variable OPS_SECRET is not set; set it, or"):
        _ = app.watching


def test_all_variables_that_are_not_set_are_named_at_once(file, monkeypatch):
    """And whose they are: a switch is no channel."""
    file.write_text(GOOD)
    for name in ("OPS_SECRET", "OPS_HOST", "PING_ID"):
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError) as refused:
        _ = Standfast().watching
    assert str(refused.value).split(" (from standfast.toml)") == [
        "channel 'ops': the variables OPS_HOST and OPS_SECRET are not set; set them, or leave the channel out",
        "; channel 'mail': the variable OPS_SECRET is not set; set it, or leave the channel out",
        "; the dead man's switch: the variable PING_ID is not set; set it, or leave [alerts.dead_man] out",
        "",
    ]


def test_three_variables_that_are_not_set_are_read_as_a_list(file):
    file.write_text(
        "[alerts.channels.ops]\nkind = 'webhook'\nurl = 'https://${NOPE_A}/${NOPE_B}'\nsecret = '${NOPE_C}'\n"
    )
    with pytest.raises(ConfigurationError, match="the variables NOPE_A, NOPE_B and NOPE_C are not set; set them"):
        _ = Standfast().watching


def test_spans_are_written_as_everywhere_in_the_file(file):
    file.write_text(GOOD.replace("every = 30", 'every = "1m"').replace("timeout = 5", 'timeout = "500ms"'))
    watching = Standfast().watching
    assert watching.dead_man is not None
    assert (watching.dead_man.every, watching.channels[0].timeout) == (60.0, 0.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[alerts]\nchannels = 1", r"alerts.channels \(from standfast.toml\): must be a table"),
        ("[alerts.channels]\nops = 1", r"channel 'ops': must be a table"),
        ("[alerts.channels.ops]\nurl = 'x'", "kind is missing; it is one of: apprise, webhook, command"),
        ("[alerts.channels.ops]\nkind = 'webhok'", "did you mean webhook"),
        ("[alerts.channels.ops]\nkind = ['command']", "no channel is of kind"),
        ("[alerts.channels.ops]\nkind = 'command'", "command is missing"),
        (
            "[alerts.channels.ops]\nkind = 'apprise'\nurl = 'x://y'\ntitel = 'x'",
            "unknown option titel; did you mean t",
        ),
        ("[alerts]\ndead_man = 'https://x.example'", "the dead man's switch: must be a table"),
        ("[alerts.dead_man]\nevery = 5", "url is missing"),
        ("[alerts.dead_man]\nurl = 'https://x.example'\nevery = 'soon'", "every must be a span above 0: write sec"),
        ("[alerts.dead_man]\nurl = 'https://x.example'\ntimeout = true", "switch: timeout must be a span above 0"),
        ("[alerts.channels.ops]\nkind = 'apprise'\nurl = 5", "channel 'ops': url must be a text: write url = "),
        (f"{WEBHOOK}secret = 12345678901234567890", "secret must be a text: write secret = "),
        (f"{WEBHOOK}secret = '${{HUSH'", r"secret has \$\{ in it that begins no variable: write \$\{NAME\}"),
        (f"{WEBHOOK}secret = 'x'\nheaders = {{ A = '${{}}' }}", r"headers has \$\{ in it"),
        (f"{WEBHOOK}secret = 'x'\nheaders = {{ A = 5 }}", "headers must be a table of texts"),
        (f"{WEBHOOK}secret = 'x'\ntimeout = '10 sec'", "timeout must be a span above 0: write seconds, or text"),
        ("[alerts.channels.ops]\nkind = 'command'\ncommand = 'tee x'", "command must be a list of texts, such as"),
        ("[alerts]\ndashboard_url = 5", "dashboard_url must be a text"),
        ("[alerts]\ndashboard_url = 'shop'", "dashboard_url .* must look like https"),
    ],
)
def test_its_shape_is_checked_when_it_is_read(file, text, told):
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        Standfast()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[alerts.channels.ops]\nkind = 'apprise'\nurl = 'hush'", r"one of apprise.*\(from standfast.toml\)"),
        (
            "[alerts.channels.ops]\nkind = 'webhook'\nurl = '${OPS_SECRET}'\nsecret = '${OPS_SECRET}'",
            "must look like",
        ),
    ],
)
def test_its_values_are_checked_when_they_are_needed(file, text, told):
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=told) as refused:
        _ = Standfast().watching
    assert "hush" not in str(refused.value)


def test_code_and_file_do_not_name_two_channels_alike(file):
    file.write_text("[alerts.channels.ops]\nkind = 'command'\ncommand = ['x']")
    app = Standfast()
    app.alerts(channels=[CommandChannel(name="ops", command=("y",))], dashboard_url="https://x.example")
    with pytest.raises(ConfigurationError, match="two channels are named 'ops'"):
        _ = app.watching
