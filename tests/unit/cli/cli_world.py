"""A store to which things happen, and how the command line is asked and judged."""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from click.testing import CliRunner

from standfast.cli.main import cli
from standfast.model.ids import new_job_id
from standfast.model.job import Ending, Failure, NewJob, Progress
from standfast.model.states import Move, State
from standfast.settings import load_settings
from standfast.stores.contract import cancel_job
from standfast.stores.url import open_backend
from standfast.stores.values import ClaimRequest, WorkerInfo

WORKER = "a1b2c3d4e5f60718"
SMTP = Failure(
    "SMTPError", "451 try again", "Traceback (most recent call last):\n  in send\nSMTPError: 451 try again\n"
)
CONTRACT = {"id", "task", "queue", "state", "attempt", "max_attempts", "run_at", "error"}


@dataclass
class World:
    """A store with one worker, to which things happen through the verbs."""

    path: Path
    namespace: str | None = None
    calls: int = 0
    backend: object = field(init=False)

    def __post_init__(self):
        self.backend = open_backend(load_settings({}, url=self.url, namespace=self.namespace))
        info = WorkerInfo(WORKER, "s1", "web-01", 4242, timedelta(seconds=15), None, 20)
        self.do(self.verbs.register(info))

    def close(self):
        self.backend.close()

    @property
    def url(self):
        return f"sqlite:///{self.path}"

    @property
    def verbs(self):
        return self.backend.verbs

    def do(self, verb):
        return self.backend.run(verb)

    def enqueue(self, task="send_email", queue="mail", **how):
        how.setdefault("payload", b'{"v":1,"args":{"to":"a@example.com","n":[1,2]}}')
        job = NewJob(how.pop("id", None) or new_job_id(), task, queue=queue, **how)
        self.do(self.verbs.enqueue([job]))
        return job.id

    def claim(self, job_id):
        """Claim until it is this job's turn; jobs are claimed right after they were enqueued."""
        self.calls += 1
        claims = self.do(self.verbs.claim(ClaimRequest(WORKER, self.calls, 1))).jobs
        assert [claim.job_id for claim in claims] == [job_id]
        return claims[0]

    def end(self, job_id, move, **how):
        ending = Ending(self.claim(job_id).ref, move, started_at=datetime.now(UTC), **how)
        self.do(self.verbs.finish(WORKER, [ending]))
        return job_id

    def dead(self, failure=SMTP, **how):
        return self.end(self.enqueue(max_attempts=1, **how), Move.DIE, failure=failure)

    def running(self, **how):
        job_id = self.enqueue(**how)
        ref = self.claim(job_id).ref
        self.do(self.verbs.start(WORKER, [(ref, datetime.now(UTC))]))
        self.do(self.verbs.progress(WORKER, [(ref, Progress(42, 100))]))
        return job_id

    def state(self, job_id):
        return self.do(self.verbs.get(job_id)).state

    def one_of_each(self):
        jobs = {
            State.COMPLETED: self.end(self.enqueue(), Move.COMPLETE, result=b'{"sent":true}'),
            State.DEAD: self.dead(),
            State.BLOCKED: self.end(self.enqueue(task="mystery"), Move.BLOCK, reason="no_worker"),
            State.RUNNING: self.running(),
            State.SCHEDULED: self.enqueue(delay=timedelta(hours=1)),
            State.HELD: self.enqueue(queue="other"),
        }
        self.claim(jobs[State.HELD])
        jobs[State.CANCELLED] = self.enqueue()
        self.do(cancel_job(self.verbs, jobs[State.CANCELLED]))
        jobs[State.READY] = self.enqueue()
        assert {state: self.state(job_id) for state, job_id in jobs.items()} == {state: state for state in State}
        return jobs


def bare(*args, **how):
    return CliRunner().invoke(cli, args, prog_name="standfast", **how)


def answer(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def assert_refused(result, code, words):
    """One line on stderr with the reason, nothing on stdout, and the exit code that goes with it."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert re.fullmatch(r"standfast: [^\n]+\n", result.stderr)
    assert words in result.stderr


def leaf_commands(group=cli, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaf_commands(command, (*path, name))
        else:
            yield (*path, name), command
