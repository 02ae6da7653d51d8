"""`standfast keepalive`: pings hosts, so that none is put to sleep when idle, and tells who does not answer."""

import os
import queue
import signal
import socket
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import click
import msgspec

from standfast.cli.connection import StoreOptions, examples, existing_store, store_options
from standfast.cli.exit_codes import ExitCode, say_failed, wrong_usage
from standfast.cli.inputs import as_span, token_file_option
from standfast.errors import ConfigurationError, StoreError
from standfast.hosts.keepalive import Change, KeepAlive, Kept, Pinged, Target, ping
from standfast.model.clock import SystemClock
from standfast.model.configuration import Settings
from standfast.model.display import counted, short_id, span
from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident, Trouble
from standfast.observe.incidents import list_incidents, write_incident
from standfast.settings import BY_DEFAULT
from standfast.stores.backend import Backend
from standfast.stores.verb import run_procedure
from standfast.supervisor.incidents.recorder import SAME_WITHIN, folded

HOST_DOWN = 4
"""The exit code if a host was given up."""


def _targets(_ctx: click.Context, _parameter: click.Parameter, urls: tuple[str, ...]) -> tuple[Target, ...]:
    return tuple(Target.of(url) for url in dict.fromkeys(urls))


@click.command(
    epilog=examples(
        "standfast keepalive https://shop.example/livez",
        "standfast keepalive https://shop.example/livez --every 5m --fail-after 3 --token-file /run/secrets/health",
        "standfast keepalive https://a.example/ https://b.example/ --url postgresql://queue.example/jobs --json",
        "standfast keepalive http://127.0.0.1:8090/readyz --once",
    )
)
@click.argument("targets", metavar="URL...", nargs=-1, required=True, callback=_targets)
@click.option("--every", default="5m", metavar="SPAN", callback=as_span, help="How long from ping to ping.")
@click.option(
    "--fail-after", type=click.IntRange(min=1), default=3, help="Give a host up after so many failures in a row."
)
@click.option("--timeout", default="10s", metavar="SPAN", callback=as_span, help="How long a ping may take.")
@token_file_option
@click.option("--count", type=click.IntRange(min=1), help="End after so many pings of each.  [default: never]")
@click.option("--once", is_flag=True, help="The same as --count 1.")
@click.pass_context
@store_options
def keepalive(
    wanted: StoreOptions,
    ctx: click.Context,
    /,
    *,
    targets: tuple[Target, ...],
    every: timedelta,
    fail_after: int,
    timeout: timedelta,
    token: str | None,
    count: int | None,
    once: bool,
) -> None:
    """Ping hosts again and again; tell who goes down or comes back.

    A host that has failed so often in a row is given up: an incident is opened in the store, if --url,
    STANDFAST_URL or a settings file names one, and the exit code is 4. SIGTERM ends it with 0. With --count
    the exit code is 1 if the last ping of a host failed.
    """
    if not (every and timeout):
        raise wrong_usage("--every and --timeout must be longer than nothing")
    loaded = wanted.loaded
    teller = _Teller(loaded.settings if loaded.where["url"] != BY_DEFAULT else None, fail_after, wanted.as_json)
    seconds = timeout.total_seconds()
    alive = KeepAlive(targets, partial(ping, timeout=seconds, token=token), fail_after=fail_after, longest=seconds)
    over: queue.SimpleQueue[int] = queue.SimpleQueue()
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: over.put(ExitCode.OK))
    rounds = threading.Thread(
        target=_run, args=(alive, teller, every.total_seconds(), 1 if once else count, over), daemon=True
    )
    rounds.start()
    try:
        ctx.exit(over.get())
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(
    alive: KeepAlive, teller: "_Teller", every: float, count: int | None, over: "queue.SimpleQueue[int]"
) -> None:
    """Go round until a host is given up, or the count is reached, and say how it ended."""
    done = 0
    try:
        while alive.round(teller.tell):
            done += 1
            if done == count:
                over.put(ExitCode.OK if all(kept.is_up for kept in alive.kept) else ExitCode.FAILED)
                return
            time.sleep(every)
        over.put(HOST_DOWN)
    except BaseException as error:  # noqa: BLE001 - a command whose pings have ended must not sit there
        say_failed(f"internal error: {type(error).__name__}")
        over.put(ExitCode.FAILED)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Tells of changes in a line each, and opens an incident in the store, if one is named."""

    settings: Settings | None
    fail_after: int
    as_json: bool

    def tell(self, kept: Kept, change: Change, pinged: Pinged) -> None:
        """Tell of one change."""
        incident = self._open_incident(kept) if change is Change.GIVEN_UP else None
        if self.as_json:
            fields = {
                "at": SystemClock().now(),
                "change": change,
                "url": kept.target.name,
                "says": pinged.says,
                "ms": round(pinged.took * 1000, 1),
                "failures": kept.failures,
                "incident": incident,
            }
            click.echo(msgspec.json.encode(fields).decode())
        else:
            click.echo(f"{time.strftime('%H:%M:%S')} {self._sentence(kept, change, pinged, incident)}")

    def _sentence(self, kept: Kept, change: Change, pinged: Pinged, incident: str | None) -> str:
        if pinged.ok:
            return f"{change} {kept.target.name}: {pinged.says} in {span(timedelta(seconds=pinged.took))}"
        if change is Change.DOWN:
            return f"{change} {kept.target.name}: {pinged.says} (failure 1 of {self.fail_after})"
        opened = f"; incident {short_id(incident)}" if incident else ""
        return f"given up {kept.target.name}: {counted(kept.failures, 'failure')} in a row, {pinged.says}{opened}"

    def _open_incident(self, kept: Kept) -> str | None:
        """Write an incident, or one more of the same; a store that cannot be used ends nothing."""
        if self.settings is None:
            return None
        now, failures = SystemClock().now(), counted(kept.failures, "failure")
        incident = Incident(
            id=new_job_id(),
            trouble=Trouble.UNREACHABLE,
            summary=f"{kept.target.name} did not answer well: {failures} in a row, {kept.reasons[-1]}",
            at=now,
            last_at=now,
            host=socket.gethostname(),
            pid=os.getpid(),
            fingerprint=kept.target.name,
        )
        try:
            with existing_store(self.settings) as backend:
                return _write(backend, incident, Evidence({"pings": "\n".join(kept.reasons)}))
        except (StoreError, ConfigurationError) as error:
            say_failed(f"the incident is not in the store: {error}")
            return None


def _write(backend: Backend, incident: Incident, evidence: Evidence) -> str:
    """Write an incident, or one more of the same if that was not long ago: whoever restarts this floods nobody."""
    for known in run_procedure(backend.run, list_incidents(backend.verbs)):
        same = (known.trouble, known.fingerprint, known.host) == (
            incident.trouble,
            incident.fingerprint,
            incident.host,
        )
        if same and (incident.at - known.last_at).total_seconds() <= SAME_WITHIN:
            run_procedure(backend.run, write_incident(backend.verbs, folded(known, incident)))
            return known.id
    run_procedure(backend.run, write_incident(backend.verbs, incident, evidence))
    return incident.id
