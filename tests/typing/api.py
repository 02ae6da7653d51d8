"""What a type checker must accept, and in the lines marked `error:` refuse. See test_typing.py; it is never run."""

from datetime import timedelta
from typing import assert_type

from holdfast import Context, Exponential, Holdfast, JobHandle, Snooze

app = Holdfast("memory://", lease=timedelta(seconds=15))


@app.task
def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(queue="mail", max_attempts=5, timeout=30, backoff=Exponential(), retry_on=OSError)
async def send(to: str, *, subject: str) -> str:
    return to + subject


@app.task
async def import_rows(ctx: Context, path: str) -> int | Snooze:
    return Snooze(60) if ctx.cancelled else len(path)


@app.task(queue="nightly")
def nightly(ctx: Context) -> None:
    ctx.progress(1, total=2)


async def right() -> None:
    assert_type(add(1), int)
    assert_type(await send("a", subject="b"), str)
    assert_type(add.enqueue(1, b=2), JobHandle[int])
    assert_type(await send.aenqueue("a", subject="b"), JobHandle[str])
    assert_type(send.enqueue("a", subject="b").result(timeout=10), str)
    assert_type(await add.options(delay=timedelta(hours=1), priority=5).aenqueue(1), JobHandle[int])
    assert_type(add.enqueue_many([{"a": 1}, {"a": 2, "b": 3}]), list[JobHandle[int]])
    assert_type(import_rows.enqueue("rows.csv"), JobHandle[int | Snooze])
    assert_type(nightly.enqueue(), JobHandle[None])


async def wrong() -> None:
    add.enqueue("1")  # error: arg-type
    add.enqueue(1, c=2)  # error: call-arg
    add.enqueue()  # error: call-arg
    await send.aenqueue("a", subject=5)  # error: arg-type
    send.enqueue("a", "b")  # error: call-arg
    add.options(delay="soon").enqueue(1)  # error: arg-type
    add.options(delay=1).enqueue("1")  # error: arg-type
    nightly.enqueue(1)  # error: call-arg
    text: str = add.enqueue(1).result()  # error: assignment
    app.task(queue=5)  # error: call-overload
    send.enqueue(text, subject=text)
