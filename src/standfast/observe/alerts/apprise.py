"""Sends by apprise, which is imported when the first notice is sent and not before.

What is longer than a service takes is sent in parts, as it would be refused otherwise; `overflow=` in a URL chooses
something else.

What apprise and those below it log has URLs in it. So the loggers are silent about what is sent here, and the last
that was said goes, cleaned, into the error.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from urllib.parse import parse_qsl

from standfast.errors import DeliveryError
from standfast.model.alerts import NoticeKind, Severity
from standfast.model.display import install, one_line
from standfast.model.suggestions import closest_name
from standfast.observe.alerts.channel import AppriseChannel
from standfast.observe.alerts.message import Message

MISSING = f"apprise is not installed, and a channel needs it: {install('alerts')}"

_COMMON = (
    *("mailto", "mailtos", "slack", "msteams", "workflow", "workflows", "tgram", "discord", "json", "jsons"),
    *("xml", "xmls", "form", "forms", "ntfy", "ntfys", "gotify", "gotifys", "matrix", "matrixs", "pover", "pbul"),
    *("rocket", "rockets", "mmost", "mmosts", "twilio", "opsgenie", "pagerduty", "zulip"),
)
"""Schemes that people use most, known without apprise, whose import takes long."""

_MAIL = (
    *("mailto", "mailtos", "mailgun", "sendgrid", "ses", "sparkpost", "postmark", "azure", "o365", "smtp2go"),
    *("resend", "brevo", "mailersend", "sendpulse", "groundmail"),
)
"""Schemes of services that send mail: others that take HTML, such as Telegram, take no tables."""

_SLIP = 0.8
"""From which likeness on, of 1, a scheme is a slip of one of these: no scheme of apprise itself is so near."""

_LONGEST_SCHEME = 40
_LOGGERS = ("apprise", "urllib3.connectionpool", "requests")


def is_missing() -> bool:
    """Tell whether apprise is not there."""
    return find_spec("apprise") is None


def is_slip(url: str) -> bool:
    """Tell at once whether the scheme of a URL is a slip of a common one; of others only `knows` can tell."""
    scheme = _scheme(url)
    return scheme not in _COMMON and closest_name(scheme, _COMMON, _SLIP) is not None


def unknown(url: str) -> str:
    """Return what is said of a URL that apprise does not know: its scheme, and nothing else that is in it."""
    scheme = _scheme(url)
    if scheme in _COMMON:
        return f"its url is none that apprise knows, by what follows {scheme}://"
    meant = closest_name(scheme, _COMMON)
    slip = "" if meant is None else f"; did you mean {meant}://?"
    return f"its url is none that apprise knows: it begins with {one_line(scheme, _LONGEST_SCHEME)}://{slip}"


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def takes_html(url: str) -> bool:
    """Tell whether what is sent by a URL may be HTML: it is a mail, and the URL does not ask for another format."""
    wanted = dict(parse_qsl(url.partition("?")[2])).get("format", "html")
    return _scheme(url) in _MAIL and wanted.lower() == "html"


def knows(url: str) -> bool:
    """Tell whether apprise can make something of a URL. It takes a second to find out."""
    import apprise  # noqa: PLC0415 - it takes long, and most apps never ask

    with _listening():
        return apprise.Apprise.instantiate(url) is not None


def send(channel: AppriseChannel, message: Message) -> None:
    """Send. Raises DeliveryError, whose words may have secrets in them."""
    try:
        import apprise  # noqa: PLC0415 - it takes long, and most apps never send
    except ImportError as error:
        raise DeliveryError(MISSING) from error
    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Standfast", app_desc="Standfast", async_mode=False))
    kinds = {
        NoticeKind.RESOLVED: apprise.NotifyType.SUCCESS,
        NoticeKind.TEST: apprise.NotifyType.INFO,
        NoticeKind.REPORT: apprise.NotifyType.INFO,
    }
    bad = {Severity.WARNING: apprise.NotifyType.WARNING, Severity.CRITICAL: apprise.NotifyType.FAILURE}
    kind = kinds.get(message.notice.kind, bad[message.notice.severity])
    body, form = message.text, apprise.NotifyFormat.TEXT
    if message.html and takes_html(channel.url):
        body, form = message.html, apprise.NotifyFormat.HTML
    with _listening() as heard:
        if not sender.add(channel.url):
            raise DeliveryError(unknown(channel.url), retry=False)
        for service in sender:
            if "overflow_mode" not in vars(service):  # its URL has no overflow=
                service.overflow_mode = apprise.OverflowMode.SPLIT
        sent = sender.notify(title=message.title, body=body, notify_type=kind, body_format=form)
    if not sent:
        raise DeliveryError(f"apprise could not send it: {heard[-1] if heard else 'it does not say why'}")


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Hear what is logged on behalf of this call, also in threads of apprise, in the place of everybody else."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hear)  # it is there once, however often it is added
    heard: list[str] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def _hear(record: logging.LogRecord) -> bool:
    heard = _heard.get()
    if heard is not None and record.levelno >= logging.WARNING:
        heard.append(record.getMessage())
    return heard is None


_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
