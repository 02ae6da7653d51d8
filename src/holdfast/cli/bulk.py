"""One verb for each of several jobs: what went wrong with one is said, and does not stop the others."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypedDict

import click

from holdfast.cli.connection import Wanted
from holdfast.cli.failures import ExitCode, say_failed
from holdfast.cli.lookup import find_job
from holdfast.cli.output import bulk_progress, say, say_json
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.errors import JobNotFoundError, JobStateError
from holdfast.store.backend import Backend
from holdfast.store.protocol import JobFilter
from holdfast.watch.words import counted

Act = Callable[[Backend, Job], str]
"""Does something to a job and returns what became of it, in a word or two."""

_PAGE = 500


class Answer(TypedDict, total=False):
    """What became of one job, as `--json` prints it."""

    id: str
    answer: str
    error: str


def act_on_each(wanted: Wanted, backend: Backend, ids: Iterable[str], act: Act) -> None:
    """Act on the named jobs and say what became of each; exit 1 in the end if one could not be done."""
    answers: list[Answer] = []
    try:
        for job_id in ids:
            answers.append(_answer(backend, job_id, act))
            if not wanted.as_json:
                _say_answer(answers[-1])
    finally:  # what was done before the store failed is still told
        if wanted.as_json:
            say_json(answers)
    if any("error" in answer for answer in answers):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _answer(backend: Backend, job_id: str, act: Act) -> Answer:
    try:
        job = find_job(backend, job_id)
        return {"id": job.id, "answer": act(backend, job)}
    except (JobNotFoundError, JobStateError) as error:
        return {"id": job_id, "error": str(error)}


def _say_answer(answer: Answer) -> None:
    if "error" in answer:
        say_failed(answer["error"])
    else:
        say(f"{answer['id']}  {answer['answer']}")


def act_on_all_dead(wanted: Wanted, backend: Backend, act: Act) -> None:
    """Act on every dead job once; those that someone else took care of meanwhile are passed over."""
    total = backend.run(backend.verbs.count())[State.DEAD]
    done: list[str] = []
    with bulk_progress(total) as step:
        for job in _every_dead(backend):
            with suppress(JobNotFoundError, JobStateError):  # it is no longer dead: that is settled
                done.append(act(backend, job))
            step()
    if wanted.as_json:
        say_json({"done": len(done)})
    else:
        became = f"{'was' if len(done) == 1 else 'were'} {done[0]}" if done else "were left"
        say(f"{counted(len(done), 'dead job')} {became}.")


def _every_dead(backend: Backend) -> Iterator[Job]:
    """Walk from the newest id down, so that a job that dies again meanwhile is not met twice."""
    before: str | None = None
    while page := backend.run(backend.verbs.list_jobs(JobFilter(states=(State.DEAD,), limit=_PAGE, before=before))):
        yield from page
        before = page[-1].id
