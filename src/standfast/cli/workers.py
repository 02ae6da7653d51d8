"""`standfast workers dump`: a picture of a living worker, kept as an incident."""

import click

from standfast.cli.columns import worker_columns, worker_fields
from standfast.cli.connection import ListGroup, StoreOptions, examples, store_options
from standfast.cli.drain import drain, find_worker, order_and_wait, recycle
from standfast.cli.output import say, say_block, say_heading, say_json, say_table
from standfast.model.clock import SystemClock
from standfast.model.incidents import Evidence, Incident
from standfast.model.records import Kind
from standfast.observe.incidents import list_incidents, read_evidence
from standfast.observe.obstacles import START_A_WORKER
from standfast.stores.backend import Backend
from standfast.stores.verb import run_procedure
from standfast.supervisor.orders import Order

_SHOWN = ("stacks", "coroutines", "native_stacks", "log")
"""What is printed of it; the rest is kept with it."""


@click.command(
    epilog=examples("standfast workers dump 1f8a90c2", "standfast workers dump 1f8a90c2 --timeout 60 --json")
)
@click.argument("worker_id", metavar="WORKER")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its supervisor.",
)
@store_options
def dump(wanted: StoreOptions, worker_id: str, timeout: float) -> None:
    """See what a living worker is doing, without harm to it.

    Its supervisor takes the picture with its next beat: the stacks of all threads and coroutines, the jobs that
    run, the end of its log, and what the machine tells of the process. It is kept as an incident. WORKER is an id,
    or the beginning or end of one.
    """
    with wanted.store() as backend:
        worker = find_worker(backend, worker_id).info.id

        def written(order: Order) -> bool:
            return bool(backend.run(backend.verbs.records(Kind.INCIDENT, (order.id,))))

        order = order_and_wait(backend, "dump", worker, timeout, done=written)
        incident, evidence = _read(backend, order.id)
    if wanted.as_json:
        say_json({"incident": incident, "parts": evidence.parts})
    else:
        _tell(incident, evidence)


def _read(backend: Backend, incident_id: str) -> tuple[Incident, Evidence]:
    incidents = run_procedure(backend.run, list_incidents(backend.verbs))
    evidence = run_procedure(backend.run, read_evidence(backend.verbs, incident_id))
    return next(each for each in incidents if each.id == incident_id), evidence


def _tell(incident: Incident, evidence: Evidence) -> None:
    say(f"{incident.summary}.")
    for job in incident.jobs:
        progress = f", {job.progress}" if job.progress else ""
        say(f"  {job.task or 'job'} {job.job_id}, attempt {job.attempt or '?'}{progress}")
    for name in _SHOWN:
        if name in evidence.parts:
            say_heading(name)
            say_block(evidence.parts[name])
    others = ", ".join(name for name in evidence.parts if name not in _SHOWN)
    say(f"\nKept as incident {incident.id}, which has besides: {others}.")


# `standfast workers`: who is there to run jobs, what they do, and having them replaced or drained.


@click.group(
    cls=ListGroup,
    epilog=examples(
        "standfast workers",
        "standfast workers --json",
        "standfast workers dump 1f8a90c2",
        "standfast workers recycle --all",
        "standfast workers drain 1f8a90c2",
    ),
)
@store_options
def workers(_wanted: StoreOptions) -> None:
    """List workers, look at one, have them replaced or drained."""


workers.add_command(drain)
workers.add_command(dump)
workers.add_command(recycle)


@workers.command("list", epilog=examples("standfast workers list", "standfast workers list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List the registered workers, oldest first."""
    with wanted.store() as backend:
        found = backend.run(backend.verbs.workers())
    if wanted.as_json:
        say_json(worker_fields(found))
    elif not found:
        say(f"No worker is registered; {START_A_WORKER}.")
    else:
        say_table(found, worker_columns(SystemClock().now()))
