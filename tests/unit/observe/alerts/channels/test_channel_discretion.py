"""What is said of a channel that failed has no part of its secrets in it, whoever worded it, and however."""

from base64 import b64encode
from urllib.parse import quote

import pytest

from standfast import AppriseChannel, CommandChannel, WebhookChannel
from standfast.observe.alerts.delivery import discreet

SECRET = "s3cr3t/+of mine"


@pytest.mark.parametrize(
    "url",
    [
        f"mailtos://shop:{quote(SECRET, safe='')}@mail.example/?to=ops@shop.example",
        f"mailtos://{quote(SECRET, safe='')}@mail.example",
        f"json://host.example/{quote(SECRET, safe='')}/more",
        f"json://host.example/?+X-Key={quote(SECRET, safe='')}",
        f"tgram://{quote(SECRET, safe='')}/12345678",
    ],
)
def test_every_part_of_a_url_may_be_one(url):
    """As it is written, as it is meant, encoded, and whole."""
    channel = AppriseChannel(name="any", url=url)
    encoded = b64encode(SECRET.encode()).decode()
    said = discreet(f"sent to {url} with {SECRET} or {quote(SECRET)} or {encoded}: refused", channel)
    for form in (SECRET, quote(SECRET, safe=""), encoded):
        assert form not in said
    assert said.endswith("refused")


def test_the_host_of_a_mail_server_is_told():
    """It helps, and is no secret."""
    channel = AppriseChannel(name="mail", url="mailtos://shop:hush-hush@mail.example")
    assert discreet("mail.example refused hush-hush", channel) == "mail.example refused ••••"


def test_secret_and_headers_of_a_webhook():
    channel = WebhookChannel(
        name="ops", url="https://x.example", secret="a" * 16 + "!", headers={"X-A": "key-of-ops"}
    )
    assert discreet(f"bad {'a' * 16}! and key-of-ops", channel) == "bad •••• and ••••"


def test_what_is_long_is_cut_to_its_end_after_it_was_cleaned():
    channel = CommandChannel(name="sms", command=("sms",))
    said = discreet("x" * 9000 + "\nthe end", channel)
    assert (len(said), said[0], said[-8:]) == (500, "…", " the end")
