"""All that a store knows of one job, found by its id or by the end of it."""

from holdfast.cli.connection import Wanted
from holdfast.cli.lookup import find_job
from holdfast.store.errand import run_errand
from holdfast.views.story import Story, tell_story


def read_story(wanted: Wanted, job_id: str) -> Story:
    """Return all that the store knows of a job."""
    with wanted.store() as backend:
        job = find_job(wanted, backend, job_id)
        return run_errand(backend.run, tell_story(backend.verbs, job.id))
