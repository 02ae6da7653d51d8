"""Jobs that are named, changed one by one, and jobs that options select, changed many at a time by one act.

What went wrong with one is said, and does not stop the others. An act on many is told and confirmed once, can be
interrupted, and is written down in the audit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import click

from standfast.admin.audit_trail import Entry, write_down
from standfast.admin.executor import AdminSession
from standfast.admin.job_search import Changes, JobFailed, change_many
from standfast.admin.jobs import JobDone
from standfast.cli.connection import StoreOptions, person
from standfast.cli.exit_codes import ExitCode, say_failed
from standfast.cli.inputs import confirm
from standfast.cli.lookup import find_job, pages, unknown_names
from standfast.cli.output import bulk_progress, say, say_json
from standfast.errors import JobNotFoundError, JobStateError, KeyTakenError
from standfast.model.display import counted
from standfast.model.job import Job, JobAction
from standfast.model.phrases import Phrase, as_phrase, phrase_in
from standfast.stores.backend import Backend
from standfast.stores.contract import ask_time
from standfast.stores.values import JobFilter
from standfast.stores.verb import run_procedure

Act = Callable[[AdminSession, Job], JobDone]
"""Does something to a job."""

_MOST_TOLD = 10
"""So many failures of a bulk are told one by one."""


def act_on_each(wanted: StoreOptions, ids: Iterable[str], act: Act) -> None:
    """Act on the named jobs and say what became of each; exit 1 in the end if one could not be done."""
    answers: list[JobDone | JobFailed] = []
    with wanted.admin() as admin:
        try:
            for job_id in ids:
                try:
                    done = act(admin, find_job(wanted, admin.backend, job_id))
                except (JobNotFoundError, JobStateError, KeyTakenError) as error:
                    answers.append(failed := JobFailed(id=job_id, error=_about(job_id, error)))
                    if not wanted.as_json:
                        say_failed(str(failed.error))
                else:
                    answers.append(done)
                    if not wanted.as_json:
                        say(f"{done.id}  {done.answer}")
        finally:  # what was done before the store failed is still told
            if wanted.as_json:
                say_json(answers)
    if any(isinstance(answer, JobFailed) for answer in answers):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _about(job_id: str, error: Exception) -> Phrase:
    return phrase_in(error) if job_id in str(error) else as_phrase(f"job {job_id}: {error}")


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What is to be done to all jobs that a filter selects, and in words: to "dead job"s that "were requeued"."""

    action: JobAction
    which: JobFilter
    noun: str
    became: str
    asked: Mapping[str, str]


def selected_by(**options: Any) -> Mapping[str, str]:
    """Return what options select, as the audit has it."""
    return {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in options.items()
        if value
    }


def act_on_selected(wanted: StoreOptions, backend: Backend, deed: BulkRequest, *, yes: bool) -> None:
    """Do it to all, after asking once; exit 1 in the end if it could not be done to one.

    Never to more than were counted. Those that someone else took care of meanwhile are passed over.
    """
    total, found = _find(backend, deed.which)
    if not total:
        is_narrowed = deed.which != JobFilter(states=deed.which.states)
        nothing = f"No {deed.noun} matches." if is_narrowed else f"No {deed.noun}s."
        if wanted.as_json:
            say_json({"done": 0, "errors": []})
        elif doubt := unknown_names(backend, deed.which.queue, deed.which.task):
            say(f"{nothing[:-1]}: {doubt}{'' if doubt.endswith('?') else '.'}")
        else:
            say(nothing)
        return
    if not yes:
        confirm(f"{deed.action.value.capitalize()} {counted(total, deed.noun)}?")
    changes, number, at = Changes(), uuid4().hex, backend.run(ask_time(backend.verbs)).now

    def note(after: Phrase) -> None:
        what = {"action": deed.action.value, **deed.asked}
        before = str(Phrase("noted.jobs", n=total))
        entry = Entry(at, person(), "jobs.bulk", what, before, str(after), by="command line", id=number)
        run_procedure(backend.run, write_down(backend.verbs, entry))

    note(Phrase("noted.begun", so_far=_told(changes)))
    try:
        with bulk_progress(total) as step:
            for page in found:
                ids = page[: total - changes.seen]
                if not ids:
                    break
                seen = backend.run(backend.verbs.glance(ids))
                meant = [each for each in ids if each in seen and seen[each].state in deed.which.states]
                changes.passed_over += len(ids) - len(meant)
                run_procedure(backend.run, change_many(backend.verbs, changes, deed.action, meant))
                step(len(ids))
    finally:  # what was done before the store failed, or this was interrupted, is still told
        _say_done(wanted, deed, changes, total)
        note(_told(changes))
    if changes.refused:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _find(backend: Backend, which: JobFilter) -> tuple[int, Iterator[list[str]]]:
    """Return how many jobs a filter selects, and their ids: where they have to be looked for, it is done once."""
    found = ([job.id for job in page] for page in pages(backend, which))
    if which == JobFilter(states=which.states, queue=which.queue):
        queues = [queue for queue in backend.run(backend.verbs.queues()) if which.queue in {None, queue.name}]
        return sum(queue.states.get(state, 0) for queue in queues for state in which.states), found
    texts = [" ".join(page) for page in found]  # half the room of lists, where they are millions
    return sum(text.count(" ") + 1 for text in texts), (text.split() for text in texts)


def _told(changes: Changes) -> Phrase:
    return Phrase("noted.bulk", done=changes.done, failed=len(changes.refused), passed_over=changes.passed_over)


def _say_done(wanted: StoreOptions, deed: BulkRequest, changes: Changes, total: int) -> None:
    errors = [JobFailed(id=job_id, error=_about(job_id, error)) for job_id, error in changes.refused]
    if wanted.as_json:
        say_json({"done": changes.done, "errors": errors})
        return
    for failed in errors[:_MOST_TOLD]:
        say_failed(str(failed.error))
    if len(errors) > _MOST_TOLD:
        say_failed(f"… and {len(errors) - _MOST_TOLD:,} more could not be done; --json names them all")
    of = "" if changes.seen >= total else f" of {total:,}"
    became = f"{'was' if changes.done == 1 else 'were'} {deed.became}" if changes.done else "were changed"
    say(f"{counted(changes.done, deed.noun) if changes.done else f'No {deed.noun}s'}{of} {became}.")
