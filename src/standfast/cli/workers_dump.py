"""`standfast workers dump`: a picture of a living worker, kept as an incident."""

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.ordering import find_worker, have_done
from standfast.cli.output import say, say_block, say_heading, say_json
from standfast.core.incident import Evidence, Incident
from standfast.core.record import Kind
from standfast.incidents.book import list_incidents, read_evidence
from standfast.store.backend import Backend
from standfast.store.errand import run_errand
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
@about_a_store
def dump(wanted: Wanted, worker_id: str, timeout: float) -> None:
    """See what a living worker is doing, without harm to it.

    Its supervisor takes the picture with its next beat: the stacks of all threads and coroutines, the jobs that
    run, the end of its log, and what the machine tells of the process. It is kept as an incident. WORKER is an id,
    or the beginning or end of one.
    """
    with wanted.store() as backend:
        worker = find_worker(backend, worker_id).info.id

        def written(order: Order) -> bool:
            return bool(backend.run(backend.verbs.records(Kind.INCIDENT, (order.id,))))

        order = have_done(backend, "dump", worker, timeout, done=written)
        incident, evidence = _read(backend, order.id)
    if wanted.as_json:
        say_json({"incident": incident, "parts": evidence.parts})
    else:
        _tell(incident, evidence)


def _read(backend: Backend, incident_id: str) -> tuple[Incident, Evidence]:
    incidents = run_errand(backend.run, list_incidents(backend.verbs))
    evidence = run_errand(backend.run, read_evidence(backend.verbs, incident_id))
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
