"""Apprise: real mail to a real server; what fails is told without secrets, in errors and in logs."""

import json
import logging
import subprocess
import sys

import pytest
from apprise import Apprise

from alert_notices import JOB, notice
from alert_receivers import Listener, Reply, hook, listening, mail_server
from standfast import AppriseChannel, ConfigurationError
from standfast.errors import DeliveryError
from standfast.model.alerts import NoticeKind
from standfast.observe.alerts import senders
from standfast.observe.alerts.delivery import refuse_unusable, send
from standfast.observe.alerts.senders import apprise_knows, is_slip, unknown_url


def test_a_mail_arrives():
    with mail_server() as server:
        send(notice(), AppriseChannel(name="mail", url=server.url))
        [letter] = server.letters.wait_for(1)
    assert letter.subject == "CRITICAL in shop: jobs of 1 queue wait too long"
    assert letter.message["To"] == "ops@shop.example"
    text = letter.text
    assert f"standfast why {JOB}" in text.replace("&nbsp;", " ")


def test_a_mail_by_templates():
    with mail_server() as server:
        send(notice(), AppriseChannel(name="mail", url=f"{server.url}&format=text", title="{app}!", body="{says}"))
        [letter] = server.letters.wait_for(1)
    assert letter.subject == "shop!"
    assert letter.text.startswith("the oldest job of queue mail")


def test_the_kind_of_notice_is_passed_on():
    with hook(200) as receiver:
        channel = AppriseChannel(name="any", url=receiver.url.replace("http", "json"))
        for kind in (NoticeKind.FIRING, NoticeKind.RESOLVED, NoticeKind.TEST, NoticeKind.REPORT):
            send(notice(kind=kind), channel)
    assert [got["said"]["type"] for got in receiver.got] == ["failure", "success", "info", "info"]


class Terse(Listener):
    """A service that takes no more at once than apprise says that it does."""

    most = 32_768

    def __init__(self):
        super().__init__()
        self.said = []

    def take(self, _request, body):
        said = json.loads(body)["message"]
        if len(said) > self.most:
            return Reply(413)
        self.said.append(said)
        return Reply(200)


@pytest.fixture
def terse():
    with listening(Terse()) as service:
        yield service


LONG = "".join(f"line {number}\n" for number in range(5000))


def through(service, query=""):
    return AppriseChannel(name="chat", url=f"{service.url.replace('http', 'gotify')}/a-token{query}", body="{says}")


def test_what_is_longer_than_a_service_takes_comes_in_parts(terse):
    """All of it, in order: it would be refused on each try, and be a dead letter in the end."""
    send(notice(alerts=(), text=LONG), through(terse))
    assert len(terse.said) == 2
    assert "\n".join(terse.said) == LONG.rstrip()


def test_what_a_url_says_of_long_texts_counts(terse):
    send(notice(alerts=(), text=LONG), through(terse, "?overflow=truncate"))
    [said] = terse.said
    assert LONG.startswith(said)
    with pytest.raises(DeliveryError, match=r"413|Too Large"):
        send(notice(alerts=(), text=LONG), through(terse, "?overflow=upstream"))


def test_no_secret_is_in_what_failed_nor_in_any_log(caplog):
    """Not even for those who log everything."""
    caplog.set_level(logging.DEBUG)
    with hook(500) as receiver:
        url = f"json://me:hush-hush@{receiver.url.removeprefix('http://')}/path-hush?+X-Key=key-hush"
        with pytest.raises(DeliveryError, match=r"channel 'any': apprise could not send it: .*500") as failed:
            send(notice(), AppriseChannel(name="any", url=url))
    assert failed.value.retry
    assert "hush" not in str(failed.value) + caplog.text


def test_others_who_use_apprise_still_hear_its_log(caplog):
    with hook(500) as receiver, pytest.raises(DeliveryError):
        send(notice(), AppriseChannel(name="any", url=receiver.url.replace("http", "json")))
    logging.getLogger("apprise").warning("of their own")
    assert [record.message for record in caplog.records if record.name == "apprise"] == ["of their own"]


def test_a_url_that_means_nothing_is_not_tried_again():
    with pytest.raises(DeliveryError, match="none that apprise knows") as failed:
        send(notice(), AppriseChannel(name="any", url="nonesuch://hush"))
    assert not failed.value.retry
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("malto://hush@mail.example", "apprise knows: it begins with malto://; did you mean mailto://?"),
        ("SLAK://hush/hush", "apprise knows: it begins with slak://; did you mean slack://?"),
        ("nonesuch://hush", "apprise knows: it begins with nonesuch://"),
        ("slack://hush", "apprise knows, by what follows slack://"),
    ],
)
def test_a_url_that_means_nothing_is_named_by_its_scheme(url, words):
    """And by what is near; the rest of it is secret."""
    assert not apprise_knows(url)
    assert unknown_url(url) == f"its url is none that {words}"


def test_no_scheme_of_apprise_is_taken_for_a_slip():
    """A worker warns of slips at its start, without asking apprise."""
    found = Apprise().details()["schemas"]
    schemes = {name for each in found for kind in ("protocols", "secure_protocols") for name in each[kind] or ()}
    assert len(schemes) > 100
    assert [name for name in ("http", "https", *sorted(schemes)) if is_slip(f"{name}://x")] == []


def test_without_apprise_the_remedy_is_told_before_anything_is_sent(monkeypatch):
    monkeypatch.setattr(senders, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"channel 'mail': .*pip install -e 'path/to/the/clone\[alerts\]'"):
        refuse_unusable([AppriseChannel(name="mail", url="mailto://x")])
    refuse_unusable([])


def test_apprise_is_loaded_when_something_is_sent_and_not_before():
    code = "import sys, standfast.observe.alerts.delivery; assert 'apprise' not in sys.modules; print('ok')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "ok\n"
