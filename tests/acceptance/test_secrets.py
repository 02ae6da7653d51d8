"""A secret argument reaches its handler and nobody else: no log, no error, no view, no column but its own."""

import json
import sqlite3
import traceback
from contextlib import closing

import pytest
from shopfloor import PROVE, Shop

from standfast import ArgumentsError
from standfast.model.secrets import MASK

TOKEN = 'tok-5Kq\'9\\xY "z" ☂'
PIECES = ("tok-5Kq", "9\\\\xY", "9\\xY", "☂")
"""What would give it away, however the rest of it is escaped."""

OUTCOMES = ("fail", "cancel", "discard", "retry")

APP = """
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from standfast import Cancel, Context, Discard, Fail, Standfast, Retry, Secret

app = Standfast(f"sqlite:///{Path(__file__).parent}/jobs.db")
log = logging.getLogger("shop")

@dataclass
class Login:
    user: str
    password: Annotated[str, Secret]

def leak(ctx, secret):
    ctx.log.warning("with %s", secret, extra={"header": {"auth": secret}})
    log.warning(f"with {secret!r} as well")
    other = threading.Thread(target=ctx.log.warning, args=("from a thread %s", secret))
    other.start()
    other.join()
    try:
        {}[secret]
    except KeyError as error:
        ctx.log.exception("it has no %s", secret)
        log.exception("it has none")
        failure = ExceptionGroup(f"two about {secret}", [ValueError(secret), OSError(5, secret.encode())])
        failure.add_note(f"the secret was {secret}")
        raise failure from error

@app.task(max_attempts=2, backoff=0)
async def leak_it(ctx: Context, user: str, token: Annotated[str, Secret]) -> None:
    leak(ctx, token)

@app.task(max_attempts=1)
def leak_by_hand(ctx: Context, login: Login) -> None:
    leak(ctx, login.password)

@app.task(max_attempts=1)
async def leak_bytes(token: Annotated[bytes, Secret]) -> None:
    raise ValueError(token)

@app.task(max_attempts=1)
async def say(how: str, token: Annotated[str, Secret]) -> Fail | Cancel | Discard | Retry:
    words = f"said {token}"
    return {"fail": Fail, "cancel": Cancel, "discard": Discard, "retry": Retry}[how](words)

@app.task(version=2)
def moved(token: Annotated[int, Secret]) -> None: ...

@moved.upgrade(1)
def _(args):
    raise LookupError(args["token"])

@app.task
def use(token: Annotated[str, Secret], user: str = "nobody") -> int:
    return len(token)
"""


@pytest.fixture
def shop(tmp_path):
    source = tmp_path / "secretive.py"
    source.write_text(APP)
    with Shop(tmp_path, source) as made:
        yield made


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_secrets_are_in_no_line_of_a_worker_and_in_no_column(shop, log_format):
    """Jobs that log their secret, raise it, say it and die of it: no line of the log and no column has it."""
    handles = enqueue_all(shop)
    worker = shop.drain("--log-level", "debug", "--log-format", log_format)
    assert_silent(worker.words, "the worker")
    for words in ("with ••••", "from a thread ••••", "it has none", "two about ••••"):
        assert words in worker.words
    assert_stored_only_as_secrets(shop, len(handles))


def test_secrets_are_masked_wherever_a_job_is_shown(shop):
    """The handler has the secret; errors, reasons, tracebacks, log tails and views have a mask in its place."""
    handles = enqueue_all(shop)
    shop.drain("--quiet")
    states = {name: str(handle.status()) for name, handle in handles.items()}
    ended = {"cancel": "cancelled", "discard": "cancelled", "use": "completed"}
    assert states == {name: ended.get(name, "dead") for name in handles}
    assert handles["use"].result(timeout=0) == len(TOKEN)
    for handle in handles.values():
        job = handle.job()
        assert_silent(f"{job.error} {job.reason} {shop.history(handle)}", handle.task)
    assert "two about ••••" in handles["leak_it"].job().error
    assert "ValueError: ••••" in shop.history(handles["leak_it"])[-1].traceback
    assert "the secret was ••••" in shop.history(handles["leak_by_hand"])[-1].traceback
    assert handles["cancel"].job().reason == "said ••••"
    assert handles["moved"].job().error.endswith("failed: LookupError: ••••; correct it and retry the job")

    for told in views(shop, handles):
        assert_silent(told.stdout + told.stderr, told.args)
    shown = shop.asked("jobs", "show", handles["leak_it"].id)
    assert {name: (each["value"], each["secret"]) for name, each in shown["args"].items()} == {
        "user": ("ada", False),
        "token": (None, True),
    }
    assert shop.asked("jobs", "show", handles["leak_by_hand"].id)["args"]["login"]["secret"]
    assert f'"{MASK}"' in shop.standfast("jobs", "show", handles["leak_it"].id).stdout


def test_secrets_are_in_no_error_at_the_enqueue(shop):
    """Arguments that do not fit are named; their values are not told, and nothing is written."""
    tasks = shop.tasks
    for task, arguments in [
        (tasks.use, {"token": [TOKEN]}),
        (tasks.use, {"token": TOKEN + "\ud800"}),
        (tasks.use, {"token": TOKEN, "user": 7}),
        (tasks.use, {"token": TOKEN, "usr": "ada"}),
        (tasks.use, {"token": TOKEN * 100_000}),
        (tasks.moved, {"token": TOKEN}),
        (tasks.leak_bytes, {"token": TOKEN}),
        (tasks.leak_by_hand, {"login": {"user": "ada", "password": TOKEN}}),
        (tasks.leak_by_hand, {"login": tasks.Login("ada", [TOKEN])}),
    ]:
        with pytest.raises(ArgumentsError) as refused:
            task.enqueue(**arguments)
        with pytest.raises(ArgumentsError) as refused_many:
            task.enqueue_many([arguments])
        for error in (refused.value, refused_many.value):
            assert_silent("".join(traceback.format_exception(error)), task.name)
    assert shop.counts() == {}


def enqueue_all(shop):
    """Enqueue a job for each way to give a secret away, and one that behaves."""
    tasks = shop.tasks
    handles = {
        "leak_it": tasks.leak_it.enqueue("ada", token=TOKEN),
        "leak_by_hand": tasks.leak_by_hand.enqueue(tasks.Login("ada", TOKEN)),
        "leak_bytes": tasks.leak_bytes.enqueue(TOKEN.encode()),
        **{how: tasks.say.enqueue(how, token=TOKEN) for how in OUTCOMES},
        "moved": tasks.moved.enqueue(token=7),
        "unreadable": tasks.use.enqueue(TOKEN),
        "use": tasks.use.enqueue(TOKEN),
    }
    older = {"v": 1, "args": {}, "secret": {"token": TOKEN}}
    unreadable = {"v": 1, "args": {}, "secret": {"token": [TOKEN]}}
    for name, version, payload in (("moved", 1, older), ("unreadable", 1, unreadable)):
        shop.sql(
            "UPDATE standfast_job SET version = ?, payload = ? WHERE id = ?",
            version,
            json.dumps(payload).encode(),
            handles[name].id,
        )
    return handles


def views(shop, handles):
    """Ask for everything that the command line can show of these jobs, or of some of them."""
    asked = [["jobs", "list"], ["dead", "list"], ["stats"]]
    for name in handles if PROVE else ("leak_it", "cancel", "unreadable"):
        asked += [["jobs", "show", handles[name].id], ["why", handles[name].id]]
    for words in asked:
        for more in ([], ["--json"]):
            told = shop.standfast(*words, *more)
            assert told.returncode == 0, told
            yield told


def assert_silent(text, who):
    for piece in PIECES:
        assert piece not in text, (who, text[max(0, text.index(piece) - 300) :][:600])


def assert_stored_only_as_secrets(shop, jobs):
    """Look through every column of every table; only the secret part of a payload may hold it."""
    found = 0
    for file in shop.folder.glob("jobs.db*"):
        if not file.is_file() or file.name.endswith(("-wal", "-shm", "-journal")):
            continue
        with closing(sqlite3.connect(file)) as connection:
            connection.row_factory = sqlite3.Row
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                for row in connection.execute(f"SELECT * FROM {table}").fetchall():
                    values = dict(row)
                    if (payload := values.pop("payload", None)) is not None:
                        envelope = json.loads(payload)
                        found += "secret" in envelope
                        envelope.pop("secret", None)
                        values["args"] = json.dumps(envelope, ensure_ascii=False)
                    shown = (
                        v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values.values()
                    )
                    assert_silent("\n".join(shown), (file.name, table))
    assert found == jobs
