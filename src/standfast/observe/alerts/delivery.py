"""Deliveries: each notice is a durable job for each channel, sent by any worker or supervisor that has the channel.

    notice ─► one job per channel, written with it ─► sent, tried again ─► completed, or a dead letter

A job holds the notice and the name of its channel, with that of its app: another that shares the store may have a
channel of the same name, to other people. A sender that dies may have sent it: then it is sent once more, with the
same id, by which receivers know it again. One sender at a time for each channel of a process: so a receiver that hangs
takes up one place, and not all.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, unquote

import msgspec

from standfast.errors import ConfigurationError, DeliveryError
from standfast.model.alerts import Notice, NoticeKind, Severity
from standfast.model.arguments import Arguments
from standfast.model.backoff import Exponential
from standfast.model.clock import SystemClock
from standfast.model.display import one_line
from standfast.model.ids import new_job_id
from standfast.model.job import CHANNEL_KEY, DELIVERIES, DELIVERY, NewJob
from standfast.model.outcomes import Fail, Retry, Snooze
from standfast.model.policy import Policy
from standfast.model.redaction import is_secret_name, redact_text, scrub_of
from standfast.model.states import State
from standfast.observe.alerts.alert_rules import AlertSettings
from standfast.observe.alerts.channel import AppriseChannel, Channel, CommandChannel, WebhookChannel
from standfast.observe.alerts.message import message_of
from standfast.observe.alerts.senders import (
    APPRISE_MISSING,
    Programs,
    apprise_knows,
    is_apprise_missing,
    is_program_missing,
    is_slip,
    send_message,
    takes_html,
    unknown_url,
)
from standfast.stores.contract import Store
from standfast.stores.values import JobFilter, JobPage
from standfast.stores.verb import Verbs, procedure

LONG = 2.0  # seconds after which nobody waits for who is sending


class ChannelSlots:
    """Lets senders pass, one at a time for each channel. Any thread may come."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        self._changed = threading.Condition()

    def enter(self, channel: str) -> bool:
        """Wait for who is sending, unless that takes long; tell whether it is one's turn, until `leave`."""
        with self._changed:
            while channel in self._since:
                left = self._since[channel] + LONG - self._monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
            self._since[channel] = self._monotonic()
            return True

    def leave(self, channel: str) -> None:
        """Let the next one pass."""
        with self._changed:
            del self._since[channel]
            self._changed.notify_all()


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


DELIVER = DELIVERY  # the name of the task, and the tag of its jobs
QUEUE = DELIVERIES

POLICY = Policy(
    queue=QUEUE,
    max_attempts=10,
    backoff=Exponential(base=2.0, max_delay=900.0),
    timeout=300.0,
    tags=(DELIVER,),
    keep_result=timedelta(minutes=5),
)
"""How deliveries are run: tried for some half an hour; the channels have timeouts of their own."""

MOST_UNDELIVERED = 1000

_NOT_ARRIVED = tuple(state for state in State if state is not State.COMPLETED)

_SENT_ONCE = timedelta(days=1)

NOBODY_HAS_IT = timedelta(hours=1)  # how long a delivery waits for somebody of its app who has its channel
NOBODY_IS_THERE = timedelta(days=1)
"""How long it waits for somebody of its app, where all who come are of others that share the store."""

_PASS_ON = 5.0  # seconds until the next one may look whether it has the channel, and whether that is free
_PASS_ON_LATER = 60.0  # likewise, when it has waited for long
Deliver = Callable[..., None]


def delivery_jobs(notice: Notice, channels: Iterable[str], app: str = "") -> tuple[NewJob, ...]:
    """Return the jobs by which a notice is sent through channels of these names, of one app or of any."""
    return tuple(
        NewJob(
            id=new_job_id(),
            task=DELIVER,
            payload=ARGUMENTS.encode((), {"notice": notice, "channel": channel, "app": app}),
            queue=QUEUE,
            max_attempts=POLICY.max_attempts,
            key=f"{notice.id}:{channel}",
            keep_key=_SENT_ONCE,
            tags=POLICY.tags,
            metadata={"notice": notice.id, CHANNEL_KEY: channel, "rule": notice.rule},
        )
        for channel in dict.fromkeys(channels)
    )


@procedure
def order_delivery(verbs: Store, notice: Notice, channels: Iterable[str], app: str = "") -> Verbs[tuple[str, ...]]:
    """Have a notice sent through channels of one app, or of any; return the ids of the jobs, one for each."""
    jobs = delivery_jobs(notice, channels, app)
    taken = yield verbs.enqueue(jobs)
    return tuple(taken.get(job.id, job.id) for job in jobs)


class Undelivered(msgspec.Struct, frozen=True):
    """A delivery that has not arrived: through which channel, the job that is to bring it, and its state."""

    channel: str
    job: str
    state: State


@procedure
def undelivered(verbs: Store) -> Verbs[Mapping[str, tuple[Undelivered, ...]]]:
    """Return the deliveries that failed for good or are still to be made, by the id of the notice."""
    which = JobFilter(
        states=_NOT_ARRIVED, queue=QUEUE, task=DELIVER, tags=POLICY.tags, limit=MOST_UNDELIVERED
    )  # by their tag, as all jobs are passed over otherwise
    page: JobPage = yield verbs.list_jobs(which)
    found: dict[str, tuple[Undelivered, ...]] = {}
    for job in page.jobs:
        notice, channel = job.metadata.get("notice", ""), job.metadata.get(CHANNEL_KEY, "")
        found[notice] = (*found.get(notice, ()), Undelivered(channel, job.id, job.state))
    return found


def trial_notice(at: datetime) -> Notice:
    """Return a notice that says that nothing is wrong."""
    return Notice(
        id=new_job_id(),
        kind=NoticeKind.TEST,
        at=at,
        rule="test",
        severity=Severity.WARNING,
        title="this is how an alert arrives",
    )


def sends_html(channel: Channel) -> bool:
    """Tell whether the HTML of a notice goes through a channel, and not its text."""
    return isinstance(channel, AppriseChannel) and channel.body is None and takes_html(channel.url)


def send(
    notice: Notice,
    channel: Channel,
    dashboard_url: str | None = None,
    app: str = "",
    programs: Programs | None = None,
) -> None:
    """Send now, here, as this app; a program is one of `programs`. Raises DeliveryError without secrets in it."""
    message = message_of(notice, title=channel.title, body=channel.body, dashboard_url=dashboard_url, sender=app)
    try:
        send_message(channel, message, programs or Programs())
    except DeliveryError as error:
        failed = DeliveryError(f"channel {channel.name!r}: {discreet(str(error), channel)}", retry=error.retry)
    except Exception as error:  # noqa: BLE001 - what lies below may raise anything, with anything in its words
        failed = DeliveryError(f"channel {channel.name!r}: {discreet(f'{type(error).__name__}: {error}', channel)}")
    else:
        return
    raise failed  # here, so that the other one, with its secrets, is not behind it


def deliver_by(watching: Callable[[], AlertSettings], now: Callable[[], datetime], programs: Programs) -> Deliver:
    """Return the handler of deliveries in a process that has these channels, and ends these programs."""
    turnstile = ChannelSlots()

    def deliver(notice: Notice, channel: str, app: str = "") -> None:
        """Send a notice through a channel of an app, or of any."""
        here = watching()
        is_ours = not app or not here.app or app == here.app
        known = next((each for each in here.channels if is_ours and each.name == channel), None)
        age = now() - notice.at
        if known is None and age < (NOBODY_HAS_IT if is_ours else NOBODY_IS_THERE):
            raise Snooze(_PASS_ON if age < NOBODY_HAS_IT else _PASS_ON_LATER)
        if known is None:
            whose = f" of {app}" if app else ""
            raise Fail(f"no worker or supervisor{whose} has a channel {channel!r}: declare it, and retry this job")
        if not turnstile.enter(channel):
            raise Snooze(_PASS_ON)
        try:
            send(notice, known, here.dashboard_url, here.app, programs)
        except DeliveryError as error:
            raise (Retry(str(error)) if error.retry else Fail(str(error))) from None
        finally:
            turnstile.leave(channel)

    return deliver


def refuse_unusable(channels: Iterable[Channel]) -> None:
    """Raise ConfigurationError where a channel needs what is not installed: for those who are to send."""
    names = [channel.name for channel in channels if isinstance(channel, AppriseChannel)]
    if names and is_apprise_missing():
        raise ConfigurationError(f"channel {names[0]!r}: {APPRISE_MISSING}")


def doubts(channels: Iterable[Channel]) -> Iterator[str]:
    """Yield which channels will send nothing from here, as things are now: a program may yet be installed."""
    for channel in channels:
        if isinstance(channel, CommandChannel) and is_program_missing(channel):
            yield f"channel {channel.name!r}: its program is not there, or cannot be started by who runs this"
        elif isinstance(channel, AppriseChannel) and is_slip(channel.url):
            yield f"channel {channel.name!r}: {unknown_url(channel.url)}"


def slow_doubts(channels: Iterable[Channel]) -> Iterator[str]:
    """Yield which channels will send nothing, as far as that takes long to find out."""
    for channel in channels:
        if isinstance(channel, AppriseChannel) and not is_slip(channel.url) and not apprise_knows(channel.url):
            yield f"channel {channel.name!r}: {unknown_url(channel.url)}"


ARGUMENTS = Arguments(deliver_by(AlertSettings, SystemClock().now, Programs()), task=DELIVER)
"""How the arguments of a delivery are written and read."""
