"""A declaration or an enqueue that cannot be honoured is refused at once, by name, and writes nothing."""

import asyncio
import functools
import math
from copy import copy
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest

from standfast import (
    ArgumentsError,
    ConfigurationError,
    Constant,
    Context,
    Every,
    Exponential,
    Linear,
    Retry,
    Standfast,
    State,
    Window,
    new_job_id,
)
from standfast.model.job import Job, KnownTask
from standfast.model.policy import Policy
from standfast.stores.values import JobFilter
from standfast.task import BYTES_PER_CALL, JOBS_PER_CALL
from standfast.testing.clock import FakeClock

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def app(monkeypatch):
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    with Standfast("memory://", clock=FakeClock(NOW)) as app:
        yield app


@pytest.fixture
def add(app):
    @app.task(queue="sums", priority=3, max_attempts=7, version=2)
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    return add


def stored(app: Standfast) -> tuple[Job, ...]:
    return app.call(app.verbs.list_jobs(JobFilter(limit=10_000))).jobs


def test_a_task_is_called_like_its_function(add):
    assert add(2, b=3) == 5
    assert (add.__name__, add.__doc__, add.__wrapped__) == ("add", "Add two numbers.", add.fn)


def test_options_given_together_with_the_function_count(app):
    """As they do without it, and those of a decorator that was made before stay."""

    def pay(): ...

    rule, window = Every(60), Window("22:00", "06:00")
    task = app.task(pay, queue="money", max_attempts=2, name="paying", schedule=rule, window=window)
    assert (task.name, task.policy.queue, task.policy.max_attempts) == ("paying", "money", 2)
    assert [each.name for each in app.declarations] == ["paying"]
    assert [each.name for each in app.windows] == ["paying"]
    later = app.task(queue="money", timeout=3)(pay, max_attempts=7)
    assert (later.policy.queue, later.policy.timeout, later.policy.max_attempts) == ("money", 3, 7)


def test_an_unknown_option_given_together_with_the_function_is_refused(app):
    with pytest.raises(ConfigurationError, match="max_atempts"):
        app.task(len, max_atempts=2)
    assert app.tasks == {}


def test_an_async_task_is_awaited_like_its_function(app):
    @app.task
    async def twice(n: int) -> int:
        return 2 * n

    assert twice.is_async
    assert asyncio.run(twice(4)) == 8


def test_calling_a_task_enqueues_nothing(app, add):
    add(1)
    assert stored(app) == ()


def test_a_context_can_be_passed_by_hand(app):
    @app.task
    def whose(ctx: Context) -> str:
        return ctx

    assert whose.fn("mine") == "mine"


def test_an_enqueued_job_carries_the_policy_of_its_task(app, add):
    handle = add.enqueue(1, b=2)
    (job,) = stored(app)
    assert (job.id, job.task, job.queue, job.priority) == (handle.id, "add", "sums", 3)
    assert (job.max_attempts, job.version, job.state, job.run_at) == (7, 2, State.READY, NOW)
    assert add.arguments.decode(job.payload) == {"a": 1, "b": 2}


def test_async_code_enqueues_the_same_job(app, add):
    handle = asyncio.run(add.aenqueue(1, b=2))
    (job,) = stored(app)
    assert (job.id, job.queue, add.arguments.decode(job.payload)) == (handle.id, "sums", {"a": 1, "b": 2})


def test_options_differ_for_one_job_and_leave_the_task_alone(app, add):
    job_id = new_job_id()
    bound = add.options(delay=60, priority=-1, queue="late", max_attempts=1, job_id=job_id)
    assert bound.enqueue(1).id == job_id
    add.enqueue(2)
    plain, special = sorted(stored(app), key=lambda job: job.run_at)
    assert (special.queue, special.priority, special.max_attempts) == ("late", -1, 1)
    assert (special.state, special.run_at) == (State.SCHEDULED, NOW + timedelta(minutes=1))
    assert (plain.queue, plain.priority, plain.max_attempts) == ("sums", 3, 7)


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_is_seconds_or_a_timedelta(app, add, delay):
    add.options(delay=delay).enqueue(1)
    assert stored(app)[0].run_at == NOW + timedelta(seconds=90)


def test_at_is_kept_as_the_same_moment_in_utc(app, add):
    asyncio.run(add.options(at=datetime(2031, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))).aenqueue(1))
    assert stored(app)[0].run_at == datetime(2031, 1, 1, tzinfo=UTC)


def test_a_priority_and_a_delay_of_zero_are_options_too(app, add):
    add.options(priority=0, delay=0).enqueue(1)
    assert (stored(app)[0].priority, stored(app)[0].state) == (0, State.READY)


def test_repeating_a_job_id_changes_nothing(app, add):
    same = add.options(job_id=new_job_id())
    same.enqueue(1)
    same.enqueue(2)
    assert [add.arguments.decode(job.payload) for job in stored(app)] == [{"a": 1}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": -1}, "delay must be .* not -1"),
        ({"delay": timedelta(seconds=-1)}, "delay must be"),
        ({"delay": math.nan}, "delay must be .* not nan"),
        ({"delay": math.inf}, "delay must be .* not inf"),
        ({"delay": 1e12}, "delay must be .* a hundred years"),
        ({"delay": "60"}, "delay must be .* not '60'"),
        ({"delay": True}, "delay must be .* not True"),
        ({"at": datetime(2030, 1, 1)}, r"at must have a time zone, .* at.replace\(tzinfo=UTC\)"),  # noqa: DTZ001
        ({"at": "tomorrow"}, "at must be a datetime with a time zone, not 'tomorrow'"),
        ({"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "at must lie within"),
        ({"at": datetime.max.replace(tzinfo=UTC)}, "at must lie within"),
        ({"delay": 1, "at": NOW}, "delay and at are both given; keep one"),
        ({"priority": 32768}, "priority must be .* not 32768"),
        ({"priority": True}, "priority must be .* not True"),
        ({"queue": ""}, "queue must be 1 to 64 .* not ''"),
        ({"queue": "a b"}, "queue must be .* not 'a b'"),
        ({"max_attempts": 0}, "max_attempts must be .* not 0"),
        ({"job_id": "42"}, r"job_id must be a UUIDv7 .* standfast.new_job_id\(\)"),
        ({"job_id": "6fa459ea-ee8a-4ca4-894e-db77e160355e"}, "job_id must be a UUIDv7"),
        ({"job_id": new_job_id().upper()}, "job_id must be a UUIDv7 in small letters"),
        ({"job_id": 42}, "job_id must be a UUIDv7"),
    ],
)
def test_bad_options_are_refused_by_name(app, add, options, said):
    with pytest.raises(ConfigurationError, match=said):
        add.options(**options)
    assert stored(app) == ()


def test_a_time_and_its_limit_that_no_calendar_has_are_refused_at_enqueue(app, add):
    """The sum is what cannot be told, so both fields are named; a limit of the task counts as well."""
    at = datetime(9999, 12, 1, tzinfo=UTC)
    limited = app.task(name="limited", start_within=timedelta(days=60))(add.fn)
    for refused in (add.options(at=at, start_within=timedelta(days=60)), limited.options(at=at)):
        with pytest.raises(ConfigurationError, match=r"at \+ start_within must not lie after 9999-12-31"):
            refused.enqueue(1)
    assert stored(app) == ()
    add.options(at=at, start_within=timedelta(days=29)).enqueue(1)
    assert len(stored(app)) == 1


def test_all_that_is_wrong_with_options_is_said_at_once(add):
    with pytest.raises(ConfigurationError, match=r"delay must.*; queue must.*; priority must.*; max_attempts must"):
        add.options(delay=-1, queue="?", priority=1.5, max_attempts=0)


@pytest.mark.parametrize("send", [lambda bound: bound.enqueue, lambda bound: bound.aenqueue])
def test_bad_arguments_write_nothing(app, add, send):
    async def enqueue():
        return await send(add)("one")

    with pytest.raises(ArgumentsError, match="argument 'a' of add does not fit"):
        asyncio.run(enqueue())
    assert stored(app) == ()


def test_many_jobs_are_enqueued_in_the_order_given(app, add):
    handles = add.enqueue_many([{"a": n} for n in range(3)])
    jobs = {job.id: add.arguments.decode(job.payload) for job in stored(app)}
    assert [jobs[handle.id] for handle in handles] == [{"a": 0}, {"a": 1}, {"a": 2}]


def test_more_jobs_than_one_call_takes_are_all_enqueued(app, add):
    many = JOBS_PER_CALL + 1
    handles = asyncio.run(add.options(queue="bulk").aenqueue_many({"a": n} for n in range(many)))
    assert {job.id for job in stored(app)} == {handle.id for handle in handles}
    assert len(handles) == many
    assert {job.queue for job in stored(app)} == {"bulk"}


def test_large_jobs_are_enqueued_a_few_at_a_time(app, monkeypatch):
    """A call has to end in time: what it carries is limited in bytes too."""

    @app.task
    def keep(text: str) -> None: ...

    calls = []
    run = app.backend.run
    monkeypatch.setattr(app.backend, "run", lambda verb: calls.append(verb.name) or run(verb))
    handles = keep.enqueue_many({"text": "x" * (BYTES_PER_CALL // 10)} for _ in range(12))
    assert len(calls) == 2
    assert {job.id for job in stored(app)} == {handle.id for handle in handles}


def test_no_jobs_are_enqueued_for_an_empty_list(app, add):
    assert add.enqueue_many([]) == []
    assert stored(app) == ()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"a": "one"}, r"jobs\[1000\]: argument 'a' of add does not fit"),
        ({}, r"jobs\[1000\]: add needs 'a'"),
        ({"a": 1, "c": 2}, r"jobs\[1000\]: add has no parameter 'c'"),
        ({"a": object()}, r"jobs\[1000\]: argument 'a' of add cannot be stored"),
        ((1, 2), r"jobs\[1000\]: enqueue_many takes mappings .* not tuple"),
    ],
)
def test_one_bad_job_among_many_writes_none(app, add, bad, said):
    with pytest.raises(ArgumentsError, match=said):
        add.enqueue_many([*({"a": n} for n in range(JOBS_PER_CALL)), bad])
    assert stored(app) == ()


def test_one_id_does_not_name_many_jobs(app, add):
    with pytest.raises(ArgumentsError, match="job_id names one job"):
        add.options(job_id=new_job_id()).enqueue_many([{"a": 1}, {"a": 2}])
    assert stored(app) == ()


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"queue": ""}, "queue must be .* not ''"),
        ({"queue": "a" * 65}, "queue must be 1 to 64"),
        ({"queue": "mail/bulk"}, "queue must be .* not 'mail/bulk'"),
        ({"queue": None}, "queue must be .* not None"),
        ({"priority": -32769}, "priority must be an integer from -32768 to 32767"),
        ({"priority": 1.0}, "priority must be .* not 1.0"),
        ({"max_attempts": 0}, "max_attempts must be .* not 0"),
        ({"max_attempts": "5"}, "max_attempts must be .* not '5'"),
        ({"timeout": 0}, "timeout must be .* not 0"),
        ({"timeout": -1.5}, "timeout must be .* not -1.5"),
        ({"timeout": math.inf}, "timeout must be .* or None for no limit, not inf"),
        ({"timeout": timedelta()}, "timeout must be"),
        ({"timeout": 1e300}, "timeout must be at most a hundred years"),
        ({"backoff": "slow"}, "backoff must be a number of seconds or such as Exponential.*, not 'slow'"),
        ({"backoff": Linear}, "backoff must be a number of seconds or such as Exponential.*, not <class .*Linear"),
        ({"retry": 5}, r"has no option 'retry'; did you mean max_attempts\?"),
        ({"acks_late": True}, "a job is acknowledged when its handler has ended, always; .* max_attempts=1"),
        (
            {"ignore_result": True},
            r"results are kept with their jobs; @app.task\(keep_result=...\) says for how long",
        ),
        ({"rate_limit": "10/m"}, "there is no rate limit; `concurrency` .* app.semaphore"),
        ({"backoff": -1}, "backoff base must be .* not -1"),
        ({"retry_on": ()}, "retry_on names no exception type; leave it out"),
        ({"retry_on": (int,)}, "retry_on must be an exception type"),
        ({"retry_on": "OSError"}, "retry_on must be an exception type"),
        ({"discard_on": (ValueError(),)}, "discard_on must be an exception type"),
        ({"version": 0}, "version must be an integer, 1 or more, not 0"),
        ({"name": ""}, "task's name must be .* not ''"),
        ({"name": "a task"}, "task's name must be .* not 'a task'"),
    ],
)
def test_a_bad_declaration_is_refused_by_name_and_declares_nothing(app, declared, said):
    with pytest.raises(ConfigurationError, match=said):
        app.task(**declared)(lambda: None)
    assert app.tasks == {}


def test_all_that_is_wrong_with_a_declaration_is_said_at_once(app):
    with pytest.raises(ConfigurationError, match=r"queue must.*; priority must.*; timeout must.*; version must"):
        app.task(queue="", priority="high", timeout=0, version=0)


@pytest.mark.parametrize("timeout", [90, timedelta(minutes=1.5)])
def test_a_timeout_is_kept_in_seconds(app, timeout):
    assert app.task(name="t", timeout=timeout)(lambda: None).policy.timeout == 90


@pytest.mark.parametrize(
    ("given", "meant"),
    [(None, Exponential()), (2, Constant(2)), (timedelta(seconds=2), Constant(2)), (Linear(3), Linear(3))],
)
def test_a_number_as_backoff_is_a_constant_wait(app, given, meant):
    policy = app.task(name="t", backoff=given)(lambda: None).policy
    assert policy.backoff == meant
    assert policy.backoff.delay(1, Random(1)) == meant.delay(1, Random(1))


@pytest.mark.parametrize("given", [OSError, (OSError,), [OSError]])
def test_exception_types_are_kept_as_a_tuple(app, given):
    policy = app.task(name="t", retry_on=given, discard_on=given)(lambda: None).policy
    assert (policy.retry_on, policy.discard_on) == ((OSError,), (OSError,))


def test_the_plain_policy_is_the_documented_one(app):
    assert app.task(name="t")(lambda: None).policy == Policy(
        "default", 0, 5, Exponential(), None, None, (), version=1
    )


def test_a_task_says_what_a_worker_must_know(add):
    assert add.known == KnownTask("add", 2)
    assert add.result_type is int
    assert repr(add) == "<SyncTask add on sums>"


def yields():
    yield 1


async def yields_async():
    yield 1


class NotAFunction:
    def __call__(self) -> None: ...


def wrapped(fn):
    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    return call


@wrapped
@wrapped
async def send_wrapped(to: str) -> None: ...


def takes_ctx(ctx, to: str) -> None: ...


def takes_ctx_last(to: str, *, ctx=None) -> None: ...


class Mailer:
    def send(self, to: str) -> None: ...

    @classmethod
    def build(cls, to: str) -> None: ...

    @staticmethod
    def post(to: str) -> None: ...


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (send_wrapped, r"send_wrapped is a plain function around an `async def`.*`async def`.*await"),
        (takes_ctx, r"takes_ctx has a parameter ctx without a type.*write `ctx: Context`"),
        (takes_ctx_last, r"takes_ctx_last has a parameter ctx without a type"),
        (Mailer.send, r"Mailer.send is a method.*no object.*@staticmethod"),
        (vars(Mailer)["build"], r"a task must be a function, not .*classmethod"),
        (yields, "yields yields, and a task must return"),
        (yields_async, "yields_async yields, and a task must return"),
        (NotAFunction(), "a task must be a function, not .*NotAFunction"),
        (lambda: None, "not '<lambda>'; give name="),
        (7, "a task must be a function, not 7"),
    ],
)
def test_what_cannot_be_a_task_is_refused(app, fn, said):
    with pytest.raises(ConfigurationError, match=said):
        app.task(fn)
    assert app.tasks == {}


def test_a_task_has_the_timeout_of_its_app_unless_it_says_so_itself():
    """None is a word of its own: this one may run for as long as it likes."""
    with Standfast("memory://", timeout=timedelta(minutes=10)) as app:
        usual = app.task(lambda: None, name="usual")
        shorter = app.task(lambda: None, name="shorter", timeout=5)
        endless = app.task(timeout=None)(named("endless"))
        queued = app.task(queue="mail")(named("queued"))
        timeouts = [task.policy.timeout for task in (usual, shorter, endless, queued)]
        assert timeouts == [600.0, 5.0, None, 600.0]
        assert app.watching.timeouts == {"usual": 600.0, "shorter": 5.0, "endless": None, "queued": 600.0}


def named(name):
    def task() -> None: ...

    task.__name__ = name
    return task


def test_what_is_like_it_and_can_be_a_task_is_none_the_less(app):
    """The remedies that the errors name, and what only looks alike."""

    class Post:
        @staticmethod
        @app.task
        def letter(to: str) -> str:
            return to

        def bound(self, to: str) -> str:
            return to

    def logged(fn):
        @functools.wraps(fn)
        async def call(*args, **kwargs):
            return await fn(*args, **kwargs)

        return call

    @app.task
    @logged
    async def twice(n: int) -> int:
        return 2 * n

    class Sms:
        @app.task
        @staticmethod
        async def text(to: str) -> str:
            return to

    @app.task
    def with_type(ctx: dict[str, int], self: int) -> int:
        return ctx["a"] + self

    assert Post.letter.enqueue("a").task == "letter"
    assert app.task(Post().bound).enqueue("b").task == "bound"
    assert twice.is_async
    assert Sms.text.is_async
    assert with_type.enqueue({"a": 1}, 2).task == "with_type"


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("delay", "add.enqueue(...)"),
        ("apply_async", "add.options(delay=..., queue=...).enqueue(...)"),
        ("send", "add.enqueue(...)"),
        ("send_with_options", "add.options(delay=..., queue=...).enqueue(...)"),
        ("s", "has no signatures"),
        ("retry", "raise standfast.Retry"),
        ("map", "add.enqueue_many(add.args(each) for each in ...)"),
    ],
)
def test_what_is_called_so_elsewhere_is_told_by_its_name_here(add, wrong, right, bound):
    task = add.options(priority=1) if bound else add
    with pytest.raises(AttributeError) as raised:
        getattr(task, wrong)(1)
    assert f"has no attribute {wrong!r}" in str(raised.value)
    assert right in str(raised.value)


def test_an_attribute_that_is_nothing_anywhere_is_missing_as_ever(add):
    assert not hasattr(add, "colour")
    with pytest.raises(AttributeError, match=r"'SyncTask' object has no attribute 'colour'$"):
        _ = add.colour
    assert copy(add).name == copy(add.options(priority=1)).task.name == "add"


def test_what_an_app_and_a_handle_are_asked_for_elsewhere_is_told_too(app, add):
    with pytest.raises(AttributeError, match=r"app\.tasks\[NAME\]\.enqueue\(\.\.\.\)"):
        app.send_task("add", args=[1])
    with pytest.raises(AttributeError, match=r"handle\.result\(timeout=\.\.\.\)"):
        add.enqueue(1).get(timeout=1)
    with pytest.raises(ConfigurationError, match="no option 'bind'; a handler with a parameter `ctx: Context`"):
        app.task(bind=True)
    with pytest.raises(ConfigurationError, match="no option 'soft_time_limit'; did you mean timeout"):
        app.task(soft_time_limit=3)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("delay", "delay"), ("countdown", "delay"), ("queue", "queue"), ("eta", "at"), ("retry", "max_attempts")],
)
def test_an_option_among_the_arguments_is_told_where_it_goes(app, add, wrong, right):
    said = (
        rf"add has no parameter '{wrong}'; it takes 'a', 'b'; did you mean add\.options\({right}=\.\.\.\)\.enqueue"
    )
    for task in (add, add.options(priority=1)):
        with pytest.raises(ArgumentsError, match=said):
            task.enqueue(1, b=2, **{wrong: 3})
    assert stored(app) == ()


@pytest.mark.parametrize(
    ("attribute", "right"),
    [
        ("add_periodic_task", "app.schedule(NAME, TASK, Every(...))"),
        ("on_after_configure", "@app.task(schedule=...)"),
        ("conf", "Standfast(...)"),
        ("AsyncResult", "app.handle(JOB_ID)"),
        ("run", "`standfast worker MODULE:APP`"),
        ("enqueue", "TASK.enqueue(...)"),
    ],
)
def test_what_an_app_has_elsewhere_is_told_by_its_name_here(app, attribute, right):
    with pytest.raises(AttributeError) as raised:
        getattr(app, attribute)
    assert right in str(raised.value)


def test_what_a_handle_and_a_retry_have_elsewhere_is_told_too(add):
    handle = add.enqueue(1)
    with pytest.raises(AttributeError, match=r"write handle\.status\(\) == \"completed\""):
        handle.successful()
    with pytest.raises(AttributeError, match=r"write handle\.status\(\) == \"dead\""):
        handle.failed()
    with pytest.raises(ConfigurationError, match=r"Retry has no option 'countdown'; did you mean delay\?"):
        Retry(countdown=3)


def test_an_unknown_task_is_a_key_error_with_the_name_that_was_meant(app, add):
    assert app.tasks["add"] is add
    with pytest.raises(KeyError, match=r"no task is named 'ad'; did you mean 'add'\?"):
        app.tasks["ad"]
    with pytest.raises(KeyError, match="no task is named 'send_report'; import the module that declares it"):
        app.tasks["send_report"]
    assert app.tasks.get("ad") is None


def test_many_jobs_may_be_given_as_their_arguments_are_called(app, add):
    """What a type checker can check: `args` takes what `enqueue` takes."""
    handles = add.enqueue_many([add.args(1), add.args(2, b=3), add.options(priority=2).args(4, b=5)])
    jobs = {job.id: add.arguments.decode(job.payload) for job in stored(app)}
    assert [jobs[handle.id] for handle in handles] == [{"a": 1}, {"a": 2, "b": 3}, {"a": 4, "b": 5}]
    with pytest.raises(ArgumentsError, match="add has no parameter 'c'"):
        add.args(1, c=2)


def test_a_handle_tells_whether_its_job_was_made(app, add):
    """A second enqueue under one job_id is the same job, and was not created; an id made here always is."""
    job_id = new_job_id()
    first, second = (add.options(job_id=job_id).enqueue(1) for _ in range(2))
    assert (first.id, first.created) == (job_id, True)
    assert (second.id, second.created) == (job_id, False)
    [third] = add.options(job_id=job_id).enqueue_many([{"a": 1}])
    assert not third.created
    assert asyncio.run(add.options(job_id=job_id).aenqueue(1)).created is False
    assert add.enqueue(1).created
    assert len(stored(app)) == 2
