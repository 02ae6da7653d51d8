"""Windows in the testing kit: they count where the test has chosen the time."""

from datetime import UTC, datetime, timedelta

import pytest

from standfast import Context, Every, Interrupted, Standfast, Window
from standfast.model.states import State
from standfast.testing import StandfastKit

START = datetime(2026, 3, 1, 2, 59, tzinfo=UTC)
NIGHT = Window("03:00", "03:15")
ALMOST_ALWAYS = (Window("00:00:01", "12:00"), Window("12:00", "24:00"))
ran: list[datetime] = []


@pytest.fixture(params=["queue", "task"])
def app(request) -> Standfast:
    app = Standfast("memory://")
    ran.clear()
    window = NIGHT if request.param == "task" else None

    @app.task(queue="mail", window=window)
    def send() -> None:
        ran.append(app.clock.now())

    if request.param == "queue":
        app.queue("mail", window=NIGHT)
    return app


def test_nothing_runs_inside_and_it_runs_after(app: Standfast) -> None:
    with StandfastKit(app, start=START) as kit:
        kit.advance(120)
        handle = app.tasks["send"].enqueue()
        assert kit.drain() == []
        assert kit.job(handle).attempt == 0
        kit.advance(14 * 60)
        assert [run.outcome for run in kit.drain()] == ["complete"]


@pytest.mark.parametrize("how", ["drain_all", "live"])
def test_time_goes_on_to_the_end_of_the_window(app: Standfast, how: str) -> None:
    with StandfastKit(app, start=START) as kit:
        for delay in (0, 120, 900, 1800):
            app.tasks["send"].options(delay=delay).enqueue()
        kit.drain_all() if how == "drain_all" else kit.live(3600)
        assert ran == [START + timedelta(seconds=seconds) for seconds in (0, 960, 960, 1800)]


def test_a_schedule_fires_inside_and_its_job_waits() -> None:
    """To be closed is not to be left out: that is what `exclude` is for."""
    app = Standfast("memory://")
    planned: list[tuple[str, str]] = []
    every = Every(300, anchored=True, overlap="allow")

    @app.task(schedule=every, window=NIGHT)
    def tidy(ctx: Context) -> None:
        planned.append((f"{ctx.planned_at:%H:%M}", f"{app.clock.now():%H:%M}"))

    with StandfastKit(app, start=START) as kit:
        kit.live(1260)
    assert planned == [
        ("03:00", "03:15"),
        ("03:05", "03:15"),
        ("03:10", "03:15"),
        ("03:15", "03:15"),
        ("03:20", "03:20"),
    ]


def test_where_nothing_waits_no_window_moves_the_clock(app: Standfast) -> None:
    with StandfastKit(app, start=START) as kit:
        kit.advance(120)
        assert kit.drain_all() == []
        assert kit.clock.now() == START + timedelta(seconds=120)


def test_without_a_start_the_hour_of_the_test_does_not_matter() -> None:
    app = Standfast("memory://")

    @app.task(window=ALMOST_ALWAYS)
    def send() -> None: ...

    app.queue("default", window=ALMOST_ALWAYS)
    with StandfastKit(app) as kit:
        handle = send.enqueue()
        kit.drain()
        assert kit.job(handle).state is State.COMPLETED


@pytest.mark.parametrize("began", [True, False])
def test_a_job_that_goes_on_inside_a_window_does_not_expire(began: bool) -> None:
    """One that has done a step goes on after the window; one that was only given back is too late by then."""
    app = Standfast("memory://")

    @app.task(window=NIGHT, start_within=300, on_late="expire")
    def work(ctx: Context) -> None:
        if ctx.fence == 1:
            if began:
                ctx.step("ask", int)
            kit.advance(120)
            raise Interrupted
        ctx.step("ask", int)

    with StandfastKit(app, start=START) as kit:
        handle = work.enqueue()
        kit.drain_all()
        job = kit.job(handle)
        assert (job.state, job.reason) == ((State.COMPLETED, None) if began else (State.CANCELLED, "expired"))
