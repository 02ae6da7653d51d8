"""One verb for each of several jobs: what went wrong with one is said, and does not stop the others."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypedDict

import click

from holdfast.cli.connection import Wanted
from holdfast.cli.failures import ExitCode, say_failed
from holdfast.cli.lookup import find_job, pages
from holdfast.cli.output import say, say_json
from holdfast.cli.progress import bulk_progress
from holdfast.core.job import Job
from holdfast.errors import JobNotFoundError, JobStateError, KeyTakenError
from holdfast.store.backend import Backend
from holdfast.store.protocol import JobFilter
from holdfast.words import counted

Act = Callable[[Backend, Job], str]
"""Does something to a job and returns what became of it, in a word or two."""

_AT_A_TIME = 16
"""So many verbs are under way together: a store that commits in groups pays once for all of them."""

_MOST_TOLD = 10
"""So many failures of a bulk are told one by one."""


class Answer(TypedDict, total=False):
    """What became of one job, as `--json` prints it."""

    id: str
    answer: str
    error: str


def requeue(backend: Backend, job: Job) -> str:
    """Make a dead or scheduled job ready."""
    backend.run(backend.verbs.requeue(job.id))
    return "requeued"


def act_on_each(wanted: Wanted, backend: Backend, ids: Iterable[str], act: Act) -> None:
    """Act on the named jobs and say what became of each; exit 1 in the end if one could not be done."""
    answers: list[Answer] = []
    try:
        for job_id in ids:
            answers.append(_answer(wanted, backend, job_id, act))
            if not wanted.as_json:
                _say_answer(answers[-1])
    finally:  # what was done before the store failed is still told
        if wanted.as_json:
            say_json(answers)
    if any("error" in answer for answer in answers):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _answer(wanted: Wanted, backend: Backend, job_id: str, act: Act) -> Answer:
    try:
        job = find_job(wanted, backend, job_id)
        return {"id": job.id, "answer": act(backend, job)}
    except (JobNotFoundError, JobStateError, KeyTakenError) as error:
        return {"id": job_id, "error": _about(job_id, error)}


def _about(job_id: str, error: Exception) -> str:
    return str(error) if job_id in str(error) else f"job {job_id}: {error}"


def _say_answer(answer: Answer) -> None:
    if "error" in answer:
        say_failed(answer["error"])
    else:
        say(f"{answer['id']}  {answer['answer']}")


@dataclass(slots=True)
class _Done:
    """What became of a selection: how many were done, as what, and which could not be."""

    count: int = 0
    became: str = ""
    errors: list[Answer] = field(default_factory=list)

    def take(self, answer: Answer | None) -> None:
        if answer is None:
            return
        if "error" in answer:
            self.errors.append(answer)
        else:
            self.count, self.became = self.count + 1, answer["answer"]


def act_on_selected(wanted: Wanted, backend: Backend, which: JobFilter, total: int, act: Act) -> None:
    """Act on each job that the filter selects, once, many at a time; exit 1 in the end if one could not be done.

    Those that someone else took care of meanwhile are passed over.
    """
    done = _Done()
    try:
        with bulk_progress(total) as step, ThreadPoolExecutor(_AT_A_TIME) as pool:
            for page in pages(backend, which):
                for answer in pool.map(lambda job: _settle(backend, job, act), page):
                    done.take(answer)
                    step()
    finally:  # what was done before the store failed is still told
        _say_done(wanted, done)
    if done.errors:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _settle(backend: Backend, job: Job, act: Act) -> Answer | None:
    try:
        return {"id": job.id, "answer": act(backend, job)}
    except KeyTakenError as error:
        return {"id": job.id, "error": _about(job.id, error)}
    except (JobNotFoundError, JobStateError):  # it is no longer as it was selected: that is settled
        return None


def _say_done(wanted: Wanted, done: _Done) -> None:
    if wanted.as_json:
        say_json({"done": done.count, "errors": done.errors})
        return
    for answer in done.errors[:_MOST_TOLD]:
        say_failed(answer["error"])
    if len(done.errors) > _MOST_TOLD:
        say_failed(f"… and {len(done.errors) - _MOST_TOLD:,} more could not be done; --json names them all")
    became = f"{'was' if done.count == 1 else 'were'} {done.became}" if done.count else "were changed"
    say(f"{counted(done.count, 'dead job') if done.count else 'No dead jobs'} {became}.")
