"""What type checkers must accept, and in the lines marked `error:` refuse (test_type_checkers.py). It is never run.

A mark names what mypy calls the mistake, then what pyright calls it.
"""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, assert_type

from standfast import (
    AnyOf,
    At,
    Background,
    Calendar,
    Context,
    Cron,
    Every,
    Exponential,
    JobHandle,
    Life,
    Progress,
    Secret,
    Snooze,
    Standfast,
    Window,
    current_context,
)

app = Standfast("memory://", lease=timedelta(seconds=15))


@dataclass
class Address:
    street: str


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(queue="mail", max_attempts=5, timeout=30, backoff=Exponential(), retry_on=OSError)
async def send(to: str, *, subject: str) -> str:
    return to + subject


@app.task
async def import_rows(ctx: Context, path: str) -> int | Snooze:
    return Snooze(60) if ctx.cancelled else len(path)


def subtract(a: int, b: int) -> int:
    return a - b


subtracting = app.task(subtract, queue="sums", max_attempts=2)


@app.task
async def long(ctx: Context) -> None:
    assert_type(await ctx.astep("plain", subtract, 3, b=1, retry=2), int)
    assert_type(await ctx.astep("async", _fetch, "a"), str)
    for number in ctx.resume([1, 2], key=str, every=10):
        assert_type(number, int)
    await ctx.await_for("approved", timeout=timedelta(days=1))
    ctx.resume([1, 2], evry=10)  # error: call-arg, reportCallIssue
    ctx.await_for("approved", timeout=1)  # error: unused-coroutine, reportUnusedCoroutine


async def _fetch(url: str) -> str:
    return url


@app.task(queue="nightly")
def nightly(ctx: Context) -> None:
    ctx.progress(1, total=2)


@app.task(
    version=2,
    start_within=timedelta(minutes=5),
    on_late="expire",
    tags=["orders", "post"],
    keep_result=timedelta(days=1),
)
def ship(order: int, address: Address, token: Annotated[str, Secret] = "") -> Address:
    return Address(f"{order} {address.street} {token}")


@ship.upgrade(1)
def _(args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "address": {"street": args["street"]}}


async def right() -> None:
    assert_type(add(1), int)
    assert_type(await send("a", subject="b"), str)
    assert_type(add.enqueue(1, b=2), JobHandle[int])
    assert_type(await send.aenqueue("a", subject="b"), JobHandle[str])
    assert_type(send.enqueue("a", subject="b").result(timeout=10), str)
    assert_type(await add.options(delay=timedelta(hours=1), priority=5).aenqueue(1), JobHandle[int])
    assert_type(add.enqueue_many([{"a": 1}, {"a": 2, "b": 3}]), list[JobHandle[int]])
    assert_type(add.enqueue_many([add.args(1), add.args(2, b=3)]), list[JobHandle[int]])
    add.options(priority=1).enqueue_many(send.args(to, subject="b") for to in "ab")
    assert_type(current_context(), Context)
    assert_type(import_rows.enqueue("rows.csv"), JobHandle[int | Snooze])
    assert_type(nightly.enqueue(), JobHandle[None])
    assert_type(send.handle("id"), JobHandle[str])
    assert_type(await add.handle("id").aresult(), int)
    assert_type([progress.done async for progress in add.handle("id").aprogress()], list[float])
    for progress in app.handle("id").progress(timeout=5):
        assert_type(progress, Progress)
    assert_type(ship.enqueue(1, Address("High"), token="t"), JobHandle[Address])
    assert_type(ship.enqueue(1, Address("High")).created, bool)


async def right_options(connection: sqlite3.Connection) -> None:
    assert_type(add.options(at=datetime.now(UTC), queue="slow", max_attempts=1).enqueue(1), JobHandle[int])
    assert_type(add.options(key="k", on_conflict="replace", keep_key=60).enqueue(1), JobHandle[int])
    assert_type(await add.options(tags=("a", "b"), metadata={"who": "ada"}).aenqueue(1), JobHandle[int])
    assert_type(add.options(start_within=1.5, on_late="expire").enqueue(1), JobHandle[int])
    assert_type(add.options(tx=connection, job_id=None).enqueue_many([{"a": 1}]), list[JobHandle[int]])


@app.lifespan
async def connections(_: Standfast) -> AsyncIterator[None]:
    yield


@app.lifespan
async def generated(_: Standfast) -> AsyncGenerator[None, None]:
    yield


@app.lifespan  # error: type-var, reportArgumentType
async def no_lifespan(_: Standfast) -> None: ...


def right_rules(now: datetime) -> None:
    nights = Cron("0 2 * * *", tz="Asia/Taipei", misfire="once", overlap="skip", exclude=("sat", date(2026, 1, 1)))
    hours = Every(timedelta(hours=1), anchored=True, jitter=5, start=now, exclude=Window("03:00", time(3, 15)))
    assert_type(nights | At(now, now) | Every(60), AnyOf)
    office = Calendar("office", weekdays="sun", holidays={date(2026, 12, 25): "Christmas"})
    assert_type(AnyOf(nights, Every(60), overlap="allow", exclude=[office]), AnyOf)
    assert_type(hours.interval, float)


def wrong_rules(now: datetime) -> None:
    Cron("0 2 * * *", "UTC")  # error: call-arg, reportCallIssue
    Cron("0 2 * * *", misfire="sometimes")  # error: arg-type, reportArgumentType
    Every("60")  # error: arg-type, reportArgumentType
    Every(60, jiter=5)  # error: call-arg, reportCallIssue
    At("tomorrow")  # error: arg-type, reportArgumentType
    AnyOf(At(now), "0 2 * * *")  # error: arg-type, reportArgumentType
    Window("03:00")  # error: call-arg, reportCallIssue
    Calendar("office", weekday="sun")  # error: call-arg, reportCallIssue


async def wrong() -> None:
    add.enqueue("1")  # error: arg-type, reportArgumentType
    add.enqueue(1, c=2)  # error: call-arg, reportCallIssue
    add.enqueue()  # error: call-arg, reportCallIssue
    await send.aenqueue("a", subject=5)  # error: arg-type, reportArgumentType
    send.enqueue("a", "b")  # error: call-arg, reportCallIssue
    add.enqueue_many([add.args("1")])  # error: arg-type, reportArgumentType
    send.args("a")  # error: call-arg, reportCallIssue
    add.delay(1)  # error: attr-defined, reportAttributeAccessIssue
    add.enqueue(1).get()  # error: attr-defined, reportAttributeAccessIssue
    app.send_task("add")  # error: attr-defined, reportAttributeAccessIssue
    ship.enqueue(1, "High")  # error: arg-type, reportArgumentType
    ship.enqueue(1, Address("High"), token=5)  # error: arg-type, reportArgumentType
    add.options(delay=1).enqueue("1")  # error: arg-type, reportArgumentType
    nightly.enqueue(1)  # error: call-arg, reportCallIssue
    text: str = add.enqueue(1).result()  # error: assignment, reportAssignmentType
    send.enqueue(text, subject=text)


async def count(life: Life, number: int) -> str:
    await life.asleep(timedelta(seconds=1))
    return str(number)


def work_in_the_background() -> None:
    assert_type(app.background(subtract, 1, b=2), Background[int])
    assert_type(app.background(add, 1), Background[int])
    assert_type(app.background(send, "a", subject="b"), Background[str])
    assert_type(app.background(count, 1), Background[str])
    assert_type(app.background.options(when_full="reject", name="sum")(subtract, 1, 2).result(), int)
    app.background.options(when_full="drop")  # error: arg-type, reportArgumentType
    app.background(subtract, 1)  # error: call-overload, reportCallIssue
    app.background(count, "1")  # error: call-overload, reportCallIssue


def wrong_options() -> None:
    add.options(delay="soon").enqueue(1)  # error: arg-type, reportArgumentType
    add.options(prioritty=5).enqueue(1)  # error: call-arg, reportCallIssue
    add.options(key=7).enqueue(1)  # error: arg-type, reportArgumentType
    add.options(key="k", on_conflict="ignore").enqueue(1)  # error: arg-type, reportArgumentType
    add.options(tags=5).enqueue(1)  # error: arg-type, reportArgumentType
    add.options(metadata={"who": 5}).enqueue(1)  # error: dict-item, reportArgumentType
    add.options(start_within="soon").enqueue(1)  # error: arg-type, reportArgumentType
    add.options(on_late="never").enqueue(1)  # error: arg-type, reportArgumentType


def wrong_declarations() -> None:
    app.task(queue=5)  # error: call-overload, reportArgumentType
    app.task(max_retries=3)  # error: call-overload, reportCallIssue
    app.task(keep_result="long")  # error: call-overload, reportArgumentType
    app.task(on_late="never")  # error: call-overload, reportArgumentType
    ship.upgrade("1")  # error: arg-type, reportArgumentType
    ship.upgrade(1)(add)  # error: arg-type, reportArgumentType
