"""What must not be said of a channel: keeps it out of every error, whoever worded that."""

import os
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote

from standfast.alerts.channel import AppriseChannel, Channel, WebhookChannel
from standfast.codec.redaction import is_secret_name, redact_text, scrub_of
from standfast.words import one_line

_LONGEST = 500
_HOSTS_ARE_HOSTS = ("mailto", "mailtos", "json", "jsons", "xml", "xmls", "form", "forms", "http", "https")
"""Schemes whose host is one. In others it may be a token."""


def discreet(text: str, channel: Channel) -> str:
    """Return what went wrong, on one line, without secrets: its end, which says most."""
    secrets = [*_secrets(channel), *(value for name, value in os.environ.items() if is_secret_name(name))]
    said = one_line(redact_text(text, scrub_of(secrets)))
    return said if len(said) <= _LONGEST else "…" + said[1 - _LONGEST :]


def _secrets(channel: Channel) -> Iterator[str]:
    if isinstance(channel, AppriseChannel):
        yield from _parts(channel.url)
    elif isinstance(channel, WebhookChannel):
        yield from (channel.secret, *channel.headers.values(), *_parts(channel.url))


def _parts(url: str) -> Iterator[str]:
    """Yield a URL and all of it that may be secret, as written and as meant."""
    yield url
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    before, _, path = place.partition("/")
    credentials, _, host = before.rpartition("@")
    found = [*credentials.split(":"), *path.split("/"), *(value for _, value in parse_qsl(query))]
    if scheme.lower() not in _HOSTS_ARE_HOSTS:
        found += host.split(":")
    for each in found:
        yield from {each, unquote(each)}
