"""Schedules declared in code: added, changed, retired, and safe from an older release."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from alert_rounds import Stage
from conformance import Harness
from standfast import Cron, Every, Standfast
from standfast.errors import ConfigurationError
from standfast.events import Event, ScheduleShared
from standfast.hosts.publication import bring_in_declared
from standfast.model.crash import Death, DeathKind
from standfast.model.states import State
from standfast.observe.logs.event_text import sentence
from standfast.schedules import fires
from standfast.schedules.declarations import Declaration, Declarer, Synchronised, release_of, synchronise
from standfast.schedules.operations import Schedules
from standfast.schedules.schedule import Schedule, Template
from standfast.stores.contract import count_states
from standfast.stores.memory.store import MemoryBackend
from standfast.stores.values import WorkerInfo
from standfast.stores.verb import Procedure, run_procedure
from standfast.testing.clock import FakeClock

AHEAD = timedelta(seconds=10)
HOURLY = Every(3600, anchored=True, overlap="allow")


class Shop:
    """A store with workers of several supervisors."""

    def __init__(self) -> None:
        self.clock = FakeClock(datetime(2030, 6, 1, 12, tzinfo=UTC))
        self.backend = MemoryBackend(self.clock)
        self.verbs = self.backend.verbs
        self.procedures = Schedules(self.verbs, AHEAD)

    def call(self, procedure: Procedure):
        return run_procedure(self.backend.run, procedure)

    def register(self, worker: str, supervisor: str) -> None:
        info = WorkerInfo(worker, supervisor, "host", 1, timedelta(seconds=15))
        self.backend.run(self.verbs.register(info))

    def deploy(
        self, release: str, *declared: Declaration, worker: str = "w1", app: str = "shop", unnamed: bool = False
    ) -> Synchronised:
        code = release_of(declared, ()) if unnamed else None
        return self.call(synchronise(self.verbs, Declarer(app, release, worker, AHEAD, code=code), declared, ()))

    def schedules(self) -> dict[str, Schedule]:
        return {schedule.name: schedule for schedule in self.call(self.procedures.list())}

    def look(self) -> int:
        return len(self.call(fires.fire_due(self.verbs, AHEAD)).fires)


@pytest.fixture
def shop() -> Shop:
    shop = Shop()
    shop.register("w1", "p1")
    return shop


def nightly(rule=HOURLY, *, name: str = "nightly", payload: bytes = b"{}") -> Declaration:
    return Declaration(name, rule, Template("nightly", payload))


def names(schedules: list[Schedule]) -> list[str]:
    return [schedule.name for schedule in schedules]


def test_the_first_release_adds(shop: Shop) -> None:
    done = shop.deploy("1", nightly(), nightly(name="weekly"))
    assert names(done.added) == ["nightly", "weekly"]
    assert set(shop.schedules()) == {"nightly", "weekly"}


def test_the_same_again_changes_nothing(shop: Shop) -> None:
    shop.deploy("1", nightly())
    before = shop.schedules()
    assert shop.deploy("1", nightly()) == Synchronised()
    assert shop.deploy("2", nightly()) == Synchronised()
    assert shop.schedules() == before


def test_a_newer_release_changes_and_retires(shop: Shop) -> None:
    shop.deploy("1", nightly(), nightly(name="weekly"))
    done = shop.deploy("2", nightly(Every(60)))
    assert (names(done.changed), names(done.retired)) == (["nightly"], ["weekly"])
    schedules = shop.schedules()
    assert schedules["nightly"].plan.rule == Every(60)
    assert schedules["weekly"].plan.retired_at == shop.clock.now()
    assert schedules["weekly"].due_at is None


def test_an_older_release_undoes_nothing_while_others_live(shop: Shop) -> None:
    shop.deploy("1", nightly(), nightly(name="weekly"))
    shop.register("w2", "p2")
    shop.deploy("2", nightly(Every(60)), worker="w2")
    before = shop.schedules()
    assert shop.deploy("1", nightly(), nightly(name="weekly")) == Synchronised(newer="2")
    assert shop.schedules() == before


def test_an_older_release_counts_again_where_nobody_else_lives(shop: Shop) -> None:
    shop.deploy("1", nightly())
    shop.register("w2", "p2")
    shop.deploy("2", nightly(Every(60)), worker="w2")
    shop.clock.advance(16)  # the lease of w2 is over, and so is that of w1: but it is the one that asks
    done = shop.deploy("1", nightly())
    assert names(done.changed) == ["nightly"]
    assert shop.deploy("2", nightly(Every(60)), worker="w1").newer is None


def test_workers_of_other_apps_are_in_nobodys_way(shop: Shop) -> None:
    shop.deploy("1", nightly())
    shop.register("w2", "p2")
    shop.deploy("2", nightly(Every(60)), worker="w2")
    shop.backend.run(shop.verbs.bury("w2", Death(DeathKind.STOPPED)))
    shop.register("stock", "p3")
    shop.deploy("7", nightly(name="count"), worker="stock", app="stock")
    assert names(shop.deploy("1", nightly()).changed) == ["nightly"]


def test_each_worker_of_a_release_stands_for_it(shop: Shop) -> None:
    shop.deploy("1", nightly())
    for worker in ("w2", "w3"):
        shop.register(worker, f"of {worker}")
        shop.deploy("2", nightly(Every(60)), worker=worker)
    shop.backend.run(shop.verbs.bury("w2", Death(DeathKind.STOPPED)))
    assert shop.deploy("1", nightly()).newer == "2", "w3 lives"
    shop.backend.run(shop.verbs.bury("w3", Death(DeathKind.STOPPED)))
    assert names(shop.deploy("1", nightly()).changed) == ["nightly"]


def test_services_that_share_their_module_and_app_retire_nothing_of_each_other(shop: Shop) -> None:
    """Without a name of their own, while workers of the other live; each can still change and retire its own."""
    shop.register("w2", "p2")
    shop.deploy("a", nightly(), nightly(name="weekly"), unnamed=True)
    assert shop.deploy("b", nightly(name="count"), worker="w2", unnamed=True).kept == {
        "nightly": "a",
        "weekly": "a",
    }
    done = shop.deploy("a", nightly(), nightly(name="weekly"), unnamed=True)
    assert (names(done.changed), names(done.retired), done.newer) == ([], [], None)
    done = shop.deploy("a2", nightly(Every(60)), unnamed=True)
    assert (names(done.changed), names(done.retired), done.kept) == (["nightly"], ["weekly"], {"count": "b"})
    assert {name: each.plan.active for name, each in shop.schedules().items()} == {
        "nightly": True,
        "weekly": False,
        "count": True,
    }


def test_services_of_one_release_that_share_their_module_and_app_are_two(shop: Shop) -> None:
    shop.register("w2", "p2")
    shop.deploy("1", nightly(), unnamed=True)
    assert shop.deploy("1", nightly(name="count"), worker="w2", unnamed=True).retired == []
    assert shop.schedules()["nightly"].plan.active


def test_a_rolling_deployment_without_a_name_retires_once_the_old_workers_are_gone(shop: Shop) -> None:
    """What the old release alone declares stays while its workers live; the new one changes what both declare."""
    shop.register("w2", "p2")
    shop.deploy("1", nightly(), nightly(name="weekly"), unnamed=True)
    new = nightly(Every(60))
    assert names(shop.deploy("2", new, worker="w2", unnamed=True).changed) == ["nightly"]
    assert shop.deploy("1", nightly(), nightly(name="weekly"), unnamed=True).changed == []
    shop.backend.run(shop.verbs.bury("w1", Death(DeathKind.STOPPED)))
    done = shop.deploy("2", new, worker="w2", unnamed=True)
    assert (names(done.retired), done.kept) == (["weekly"], {})


def test_what_a_service_lost_while_it_was_down_comes_back_with_it(shop: Shop) -> None:
    shop.register("w2", "p2")
    shop.deploy("a", nightly(), unnamed=True)
    shop.backend.run(shop.verbs.bury("w1", Death(DeathKind.STOPPED)))
    assert names(shop.deploy("b", nightly(name="count"), worker="w2", unnamed=True).retired) == ["nightly"]
    shop.register("w3", "p3")
    assert names(shop.deploy("a", nightly(), worker="w3", unnamed=True).changed) == ["nightly"]
    assert shop.schedules()["nightly"].plan.active


def test_what_a_person_insists_on_stands_while_the_fleet_lives(shop: Shop) -> None:
    shop.register("w2", "p2")
    shop.deploy("1", nightly())
    shop.deploy("2", nightly(Every(60)), worker="w2")
    person = Declarer("shop", "1", "", AHEAD, insists=True)
    assert names(shop.call(synchronise(shop.verbs, person, [nightly()], ())).changed) == ["nightly"]
    shop.register("w3", "p3")
    assert shop.deploy("2", nightly(Every(60)), worker="w3").newer == "1"


def test_a_release_that_retires_what_a_living_one_declares_is_known_to(shop: Shop) -> None:
    """An app with a name of its own: older workers live, of another supervisor, or of another service."""
    shop.deploy("1", nightly(), nightly(name="weekly"))
    shop.register("w2", "p1")
    assert shop.deploy("2", nightly(), nightly(name="weekly"), worker="w2").outlived is None
    shop.register("w3", "p3")
    done = shop.deploy("3", nightly(), worker="w3")
    assert (names(done.retired), done.outlived) == (["weekly"], "2")
    for worker in ("w1", "w2", "w3"):
        shop.backend.run(shop.verbs.bury(worker, Death(DeathKind.STOPPED)))
    shop.register("w4", "p4")
    done = shop.deploy("4", worker="w4")
    assert (names(done.retired), done.outlived) == (["nightly"], None)


class Starting:
    """All that is asked of a worker that starts."""

    def __init__(self, name: str, now: Callable[[], datetime]) -> None:
        self.id, self.now = name, now

    async def renewed(self) -> None:
        """Its first beat is accepted."""

    def ask_for_beat(self) -> None:
        """Hear of it."""


async def test_people_are_alerted_of_schedules_that_were_retired_while_their_workers_live() -> None:
    """By a warning and an incident, which name the schedules, the app, and both releases; again only by another."""
    shop = Shop()
    stage = Stage(Harness(shop.backend, shop.clock))
    shop.register("w1", "p1")
    shop.deploy("1", nightly(), nightly(name="weekly"), nightly(name="count"))
    shop.register("w2", "p2")
    heard: list[Event] = []
    for _ in range(2):
        app = Standfast("memory://", name="shop", release="2", clock=shop.clock)
        app.task(name="nightly", schedule=HOURLY)(lambda: None)
        app.events.subscribe(heard.append)
        worker = Starting("w2", shop.clock.now)
        await bring_in_declared(app, "jobs:app", app.settings, shop.backend, worker)  # type: ignore[arg-type]
    shared = [event for event in heard if isinstance(event, ScheduleShared)]
    assert shared == [ScheduleShared(name, "shop", "1", retired_by="2") for name in ("count", "weekly")]
    assert sentence(shared[0]).endswith(
        "count was retired by release 2 of shop, which does not declare it, while workers of release 1 live that"
        " do: it fires no more. If they are another service, give each a name of its own: Standfast(…, name=…)"
    )
    stage.round()
    [alert] = stage.board().firing
    assert (alert.rule, alert.subject) == ("incident", "retired")
    assert alert.says == (
        "release 2 of shop has retired 2 schedules while workers of release 1 live that declare them: count, weekly"
    )


def test_a_retired_schedule_may_come_back(shop: Shop) -> None:
    shop.deploy("1", nightly())
    shop.deploy("2")
    assert shop.schedules()["nightly"].plan.retired_at is not None
    shop.clock.advance(7200)
    done = shop.deploy("3", nightly())
    assert names(done.changed) == ["nightly"]
    schedule = shop.schedules()["nightly"]
    assert schedule.plan.retired_at is None
    assert schedule.plan.cursor == shop.clock.now(), "what it missed while it was retired is not made up for"


def test_what_a_person_changed_stays_until_the_declaration_changes(shop: Shop) -> None:
    shop.deploy("1", nightly())
    shop.call(shop.procedures.edit("nightly", rule=Every(60)))
    shop.call(shop.procedures.pause("nightly", "a quiet week"))
    shop.deploy("2", nightly())
    assert shop.schedules()["nightly"].plan.rule == Every(60)
    shop.deploy("3", nightly(payload=b'{"a":1}'))
    plan = shop.schedules()["nightly"].plan
    assert plan.rule == HOURLY
    assert plan.paused_why == "a quiet week", "a pause is a person's, and outlives a deploy"


def test_a_name_that_others_have_is_left_to_them(shop: Shop) -> None:
    shop.call(fires.create(shop.verbs, "nightly", Every(60), Template("other", b"{}"), AHEAD))
    shop.deploy("1", nightly(name="weekly"), app="elsewhere")
    done = shop.deploy("1", nightly(), nightly(name="weekly"))
    assert done.foreign == ["nightly", "weekly"]
    assert shop.schedules()["nightly"].plan.rule == Every(60)


def test_an_app_without_schedules_leaves_no_trace(shop: Shop) -> None:
    shop.deploy("1", nightly())
    assert shop.deploy("9", app="another") == Synchronised()
    assert shop.schedules()["nightly"].plan.retired_at is None


def test_a_deploy_at_the_last_moment_neither_doubles_nor_drops_a_fire(shop: Shop) -> None:
    """A new rule takes a fire back that lies ready, and fires for the same time itself, once."""
    shop.deploy("1", nightly())
    shop.clock.advance(3595)
    assert shop.look() == 1
    shop.deploy("2", nightly(payload=b'{"new":1}'))
    states = shop.backend.run(count_states(shop.verbs))
    assert (states[State.SCHEDULED], states[State.CANCELLED]) == (1, 1)
    shop.clock.advance(5)
    assert shop.look() == 0


def test_two_workers_that_deploy_at_once_agree(shop: Shop) -> None:
    """Another worker of the same release comes between the reading and the writing of the first."""
    slow = synchronise(shop.verbs, Declarer("shop", "1", "w1", AHEAD), [nightly()], ())
    between = iter([lambda: shop.deploy("1", nightly(), worker="w2")])

    def run(verb):
        if verb.name == "change_records":
            next(between, lambda: None)()
        return shop.backend.run(verb)

    assert run_procedure(run, slow) == Synchronised()
    assert shop.schedules()["nightly"].version == 1


def test_a_release_without_a_name_is_known_by_its_schedules() -> None:
    one, other = nightly(), nightly(name="weekly")
    assert release_of([one, other], ()) == release_of([other, one], ())
    assert release_of([one], ()) != release_of([other], ())
    assert release_of([one], ()) != release_of([nightly(Every(60))], ())


# -- in code -----------------------------------------------------------------------------------------------------


def test_declared_with_a_task() -> None:
    app = Standfast("memory://")

    @app.task(queue="night", schedule=Cron("0 2 * * *"))
    def tidy(days: int = 7) -> None: ...

    (declared,) = app.declarations
    assert (declared.name, declared.job.task, declared.job.queue) == ("tidy", "tidy", "night")
    assert declared.rule == Cron("0 2 * * *")


def test_declared_with_arguments_and_options() -> None:
    app = Standfast("memory://")

    @app.task
    def report(region: str, *, days: int = 1) -> None: ...

    app.schedule("eu", report.options(queue="slow", priority=3, tags=["eu"]), Every(3600), "eu", days=2)
    app.schedule("us", report, Every(3600), "us")
    first, second = app.declarations
    assert (first.job.queue, first.job.priority, first.job.tags) == ("slow", 3, ("eu",))
    assert b'"eu"' in first.job.payload
    assert second.job.queue == "default"


def test_a_task_that_needs_arguments_is_told_how() -> None:
    app = Standfast("memory://")
    with pytest.raises(ConfigurationError, match=r"cannot run without.*app\.schedule\('report'"):

        @app.task(schedule=Every(60))
        def report(region: str) -> None: ...

    assert app.tasks == {}


@pytest.mark.parametrize(
    ("name", "rule", "options", "words"),
    [
        ("", Every(60), {}, "name must be"),
        ("a b", Every(60), {}, "name must be"),
        ("ok", "0 2 * * *", {}, "needs a rule such as"),
        ("ok", Every(60), {"delay": 5}, "the option delay is about one job"),
        ("ok", Every(60), {"key": "k"}, "the option key is about one job"),
        ("ok", Every(60), {"at": datetime(2030, 1, 1, tzinfo=UTC)}, "the option at is about one job"),
    ],
)
def test_bad_declarations(name: str, rule: object, options: dict[str, object], words: str) -> None:
    app = Standfast("memory://")

    @app.task
    def tidy() -> None: ...

    with pytest.raises(ConfigurationError, match=words):
        app.schedule(name, tidy.options(**options), rule)
    assert app.declarations == ()


def test_two_of_one_name() -> None:
    app = Standfast("memory://")

    @app.task(schedule=Every(60))
    def tidy() -> None: ...

    with pytest.raises(ConfigurationError, match="two schedules are named 'tidy'"):
        app.schedule("tidy", tidy, Every(60))
