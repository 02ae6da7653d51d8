"""`standfast jobs signal`: send a job what its handler waits for."""

import click
import msgspec

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.lookup import find_job
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.core.memo import signal_name
from standfast.errors import ArgumentsError
from standfast.ids import new_job_id
from standfast.signals import encode_signal, too_late


@click.command(
    epilog=examples(
        "standfast jobs signal 3c2d1e0f approved",
        'standfast jobs signal 3c2d1e0f approved \'{"by": "ada", "limit": 500}\'',
        "standfast jobs signal 3c2d1e0f approved true --json",
    )
)
@click.argument("job_id", metavar="ID")
@click.argument("name", metavar="NAME")
@click.argument("data", default="null", metavar="[DATA]")
@about_a_store
def signal(wanted: Wanted, job_id: str, name: str, data: str) -> None:
    """Send a signal to a job.

    In its handler ctx.wait_for(NAME) returns DATA. A job that waits for it goes on; for any other that is not over
    it is kept until its handler asks for it. DATA is JSON; without it, null. A word alone is no JSON: quote it for
    JSON and for the shell, as in '"yes"'.

    ID is a job's id, or its last characters as the worker shows them.
    """
    try:
        body = encode_signal(name, msgspec.json.decode(data))
    except msgspec.DecodeError as error:
        raise click.BadParameter(
            f"{data!r:.80} is no JSON ({error}); a text needs quotes of its own, as in '\"yes\"'", param_hint="DATA"
        ) from None
    except ArgumentsError as error:
        raise click.BadParameter(str(error)) from None
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        if not backend.run(backend.verbs.signal(job.id, name, new_job_id(), body)):
            raise too_late(job.id, name)
    waits_for = signal_name(job.reason)
    waited = waits_for == name
    if wanted.as_json:
        say_json({"id": job.id, "signal": name, "waited": waited})
    else:
        instead = "" if waits_for is None else f"; now it waits for signal {waits_for!r}"
        say(f"{job.id}  {'goes on' if waited else f'has it, for when it waits for it{instead}'}")
