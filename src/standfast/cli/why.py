"""`standfast why`: why a job is where it is, in plain words."""

import click

from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.options import examples
from standfast.cli.output import say, say_json
from standfast.cli.story import read_story


@click.command(
    epilog=examples("standfast why 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f", "standfast why 3c2d1e0f --json")
)
@click.argument("job_id", metavar="ID")
@about_a_store
def why(wanted: Wanted, job_id: str) -> None:
    """Say why a job is where it is, and what would move it.

    ID is a job's id, or its last characters as the worker shows them.
    """
    story = read_story(wanted, job_id)
    job, told = story.job, story.why
    if wanted.as_json:
        remedy = None if told.remedy is None else str(told.remedy)
        say_json({"id": job.id, "state": job.state, "cause": told.cause, "why": told.text, "remedy": remedy})
    else:
        say(told.text)
