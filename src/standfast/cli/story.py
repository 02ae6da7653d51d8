"""All that a store knows of one job, found by its id or by the end of it."""

from standfast.cli.connection import Wanted
from standfast.cli.lookup import find_job
from standfast.store.errand import run_errand
from standfast.views.story import Story, tell_story


def read_story(wanted: Wanted, job_id: str) -> Story:
    """Return all that the store knows of a job."""
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        return run_errand(backend.run, tell_story(backend.verbs, job.id))
