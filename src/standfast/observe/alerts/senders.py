"""Sends a message through a channel: by apprise, by a signed POST, or by starting a program.

Apprise is imported when the first notice is sent and not before. The words of a DeliveryError may have secrets in
them; whoever calls takes them out.
"""

import errno
import logging
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from http import HTTPStatus
from importlib.util import find_spec
from urllib.parse import parse_qsl

from standfast.errors import DeliveryError
from standfast.model.alerts import NoticeKind, Severity
from standfast.model.display import install, one_line
from standfast.model.suggestions import closest_name
from standfast.model.validation import http_url
from standfast.observe.alerts import sign
from standfast.observe.alerts.channel import AppriseChannel, Channel, CommandChannel, WebhookChannel
from standfast.observe.alerts.message import Message
from standfast.observe.http_client import NoAnswerError, send_request


def send_message(channel: Channel, message: Message, programs: "Programs") -> None:
    """Send. Raises DeliveryError, whose words may have secrets in them."""
    match channel:
        case AppriseChannel():
            _send_by_apprise(channel, message)
        case WebhookChannel():
            _send_by_webhook(channel, message)
        case CommandChannel():
            _send_by_command(channel, message, programs)


APPRISE_MISSING = f"apprise is not installed, and a channel needs it: {install('alerts')}"

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


def is_apprise_missing() -> bool:
    """Tell whether apprise is not there."""
    return find_spec("apprise") is None


def is_slip(url: str) -> bool:
    """Tell at once whether the scheme of a URL is a slip of a common one; of others only `apprise_knows` can tell."""
    scheme = _scheme(url)
    return scheme not in _COMMON and closest_name(scheme, _COMMON, _SLIP) is not None


def unknown_url(url: str) -> str:
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


def apprise_knows(url: str) -> bool:
    """Tell whether apprise can make something of a URL. It takes a second to find out."""
    import apprise  # noqa: PLC0415 - it takes long, and most apps never ask

    with _listening():
        return apprise.Apprise.instantiate(url) is not None


def _send_by_apprise(channel: AppriseChannel, message: Message) -> None:
    """Send by apprise, in parts where a service takes less, unless `overflow=` in the URL chooses otherwise.

    What apprise and those below it log has URLs in it. So the loggers are silent about what is sent here, and the
    last that was said goes, cleaned, into the error.
    """
    try:
        import apprise  # noqa: PLC0415 - it takes long, and most apps never send
    except ImportError as error:
        raise DeliveryError(APPRISE_MISSING) from error
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
            raise DeliveryError(unknown_url(channel.url), retry=False)
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


SIGNATURE = "X-Standfast-Signature"
DELIVERY = "X-Standfast-Delivery"


def _send_by_webhook(channel: WebhookChannel, message: Message) -> None:
    """Send by a signed POST. Its delivery id is that of the notice, the same each time that it is sent."""
    body = message.as_json()
    headers = {
        "User-Agent": "standfast-alerts",
        "Content-Type": "application/json",
        **channel.headers,
        SIGNATURE: sign(channel.secret, int(time.time()), body),
        DELIVERY: message.notice.id,
    }
    url = http_url(channel.url, "the url", "")
    try:
        answer = send_request(url, channel.timeout, headers=headers, method="POST", body=body)
    except NoAnswerError as error:
        raise DeliveryError(str(error)) from None
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        led = ", and it is not followed" if answer.location is not None else ""
        raise DeliveryError(f"the receiver answered {answer.says}{led}", retry=answer.status != HTTPStatus.GONE)


_KEPT = 2000  # bytes kept of what it says on its standard error: the end
_PORTION = 4096

_GLANCE = 0.05  # seconds between two looks whether it has ended: what it started may keep its standard error open


class Programs:
    """Those that somebody has started: whoever stops ends them first. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.killed = False

    def start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start one, in a group of its own. Raises OSError and ValueError."""
        with self._lock:
            if self.killed:
                raise InterruptedError(errno.EINTR, "its sender stops")
            process = subprocess.Popen(  # noqa: S603 - no shell, and the owner of the app chose the program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        return process

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Forget one. Unless it has done its work, end it with all of its group that is left."""
        with self._lock:
            self._running.discard(process)
            if process.poll() != 0:
                _kill(process)

    def kill(self) -> None:
        """End all, and start no more."""
        with self._lock:
            self.killed = True
            for process in self._running:
                _kill(process)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):  # the latter on macOS, where all of the group have ended
        os.killpg(process.pid, signal.SIGKILL)


def is_program_missing(channel: CommandChannel) -> bool:
    """Tell whether there is no such program here that can be started."""
    return shutil.which(channel.command[0]) is None


def _send_by_command(channel: CommandChannel, message: Message, programs: Programs) -> None:
    """Start the program, without a shell, with the notice as JSON on its standard input, and not for long."""
    try:
        process = programs.start(channel.command)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryError(f"its program cannot be started: {why}") from None
    with process:
        try:
            said = _converse(process, message.as_json() + b"\n", time.monotonic() + channel.timeout)
        except TimeoutError:
            raise DeliveryError(f"its program was not done within {channel.timeout:g} s, and was killed") from None
        finally:
            programs.end(process)
    if process.returncode and programs.killed:
        raise DeliveryError("its program was not done when its sender stopped, and was killed")
    if process.returncode:
        words = said.decode(errors="replace").strip()
        how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise DeliveryError(f"its program ended with {how}{f': {words}' if words else ''}")


def _converse(process: "subprocess.Popen[bytes]", told: bytes, ends_at: float) -> bytes:
    """Tell it all that it will hear, and return the end of what it says, when it has ended. Raises TimeoutError."""
    assert process.stdin is not None
    assert process.stderr is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        for stream, event in ((process.stdin, selectors.EVENT_WRITE), (process.stderr, selectors.EVENT_READ)):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event)
        while True:
            has_ended = process.poll() is not None
            ready = [key.fileobj for key, _ in selector.select(0 if has_ended else _GLANCE)]
            if process.stderr in ready:
                heard = process.stderr.read1(_KEPT)  # type: ignore[attr-defined]
                said = (said + heard)[-_KEPT:]
                if not heard:
                    selector.unregister(process.stderr)
            elif has_ended:
                return said
            if process.stdin in ready:
                told = _tell(process.stdin.fileno(), told)
                if not told:
                    selector.unregister(process.stdin)
                    process.stdin.close()
            if time.monotonic() >= ends_at:
                raise TimeoutError


def _tell(stream: int, told: bytes) -> bytes:
    """Write some of it; return the rest, and nothing where nobody reads."""
    try:
        return told[os.write(stream, told[:_PORTION]) :]
    except BlockingIOError:
        return told
    except BrokenPipeError:
        return b""
