"""What an app says of itself in the catalogue: all that people need, and nothing that is secret."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
import pytest

from standfast import Context, Every, Secret, Standfast, Window, __version__
from standfast.admin.catalogue import LONGEST_DEFAULT, backoff_words, catalogue_of, type_words
from standfast.model.backoff import Constant, Exponential, Linear
from standfast.observe.catalogue import Bound, Catalogue, Parameter, TaskEntry
from standfast.settings import Loaded

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NIGHT = Window("03:00", "03:15", tz="UTC")
WHO = "shop.jobs:app", "web-01"


@dataclass
class Address:
    street: str


HOME, NOTHING = Address("x"), object()


def published(app: Standfast) -> Catalogue:
    """Return what an app publishes, as whoever reads the store gets it."""
    catalogue = catalogue_of(app, Loaded(app.settings, app.settings_from), *WHO, NOW)
    read = msgspec.json.decode(msgspec.json.encode(catalogue), type=Catalogue)
    assert read == catalogue
    return catalogue


def entry(app: Standfast) -> TaskEntry:
    """Return what is published of the only task of an app."""
    [task] = published(app).tasks
    return task


def shop(**settings: Any) -> Standfast:
    """Return an app without tasks."""
    return Standfast("memory://", **settings)


def test_all_of_a_policy_is_told() -> None:
    """As it was declared, spans in seconds and windows in words."""
    app = shop()
    app.gate("disk", 2)

    @app.task(
        name="shop.mail",
        queue="mail",
        priority=3,
        max_attempts=4,
        timeout=30,
        backoff=5,
        retry_on=OSError,
        discard_on=(KeyError, ValueError),
        version=2,
        start_within=timedelta(minutes=2),
        on_late="expire",
        tags=("a",),
        keep_result=60,
        isolation="process",
        memory="100MB",
        concurrency=2,
        peak={NIGHT: 1},
        gate="disk",
        window=NIGHT,
        schedule=Every(3600),
    )
    def mail() -> None:
        """Send what has to be sent.

        And more.
        """

    assert entry(app) == TaskEntry(
        name="shop.mail",
        version=2,
        queue="mail",
        priority=3,
        max_attempts=4,
        timeout=30.0,
        backoff="5 s each time",
        retry_on=("OSError",),
        discard_on=("KeyError", "ValueError"),
        start_within=120.0,
        on_late="expire",
        keep_result=60.0,
        isolation="process",
        memory=100_000_000,
        tags=("a",),
        doc="Send what has to be sent.",
        schedules=("shop.mail",),
        limit=Bound(2, ("1 at 03:00–03:15 UTC",)),
        gates=("disk",),
        windows=("03:00–03:15 UTC",),
    )


def test_parameters_are_told_without_the_context() -> None:
    """With their types in words, and what is taken where they are left out."""
    app = shop()

    @app.task
    async def mail(
        ctx: Context, to: str, count: int = 3, *, copies: list[str] | None = None, address: Address = HOME
    ) -> None: ...

    assert entry(app).parameters == (
        Parameter("to", "str"),
        Parameter("count", "int", required=False, default="3"),
        Parameter("copies", "list[str] | None", required=False, default="null"),
        Parameter("address", "Address", required=False, default='{"street":"x"}'),
    )


def test_no_secret_is_told() -> None:
    """Nor what only looks like one: by its name, its place in a URL, or its look."""
    app = shop()
    shown = Annotated[str, Secret]

    @app.task
    def pay(
        *,
        card: shown = "4711-0815",
        api_key: str = "abcdef",
        site: str = "https://shop:hunter2@example.com/",
        mark: str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        password: str | None = None,
        label: str = "plain",
    ) -> None: ...

    told = msgspec.json.encode(published(app)).decode()
    assert not [secret for secret in ("4711", "abcdef", "hunter2", "4eC39") if secret in told]
    assert {each.name: each.default for each in entry(app).parameters if each.default is not None} == {
        "password": "null",
        "label": '"plain"',
    }
    assert [each.name for each in entry(app).parameters if each.secret] == ["card"]


def test_defaults_that_json_cannot_say_are_left_out() -> None:
    """Or not briefly; the parameter is told all the same."""
    app = shop()

    @app.task
    def odd(what: Any = NOTHING, long: str = "ab " * LONGEST_DEFAULT) -> None: ...

    assert [(each.name, each.required, each.default) for each in entry(app).parameters] == [
        ("what", False, None),
        ("long", False, None),
    ]


def test_a_task_whose_annotations_mean_nothing_hides_no_other() -> None:
    """It is listed without parameters."""
    app = shop()

    def odd(what) -> None: ...

    odd.__annotations__["what"] = "NoSuchName"
    app.task(name="odd")(odd)
    app.task(name="well")(lambda: None)
    assert [(task.name, task.parameters) for task in published(app).tasks] == [("odd", ()), ("well", ())]


def test_queues_and_gates_are_told() -> None:
    """Those that are declared, and those that tasks are in."""
    app = shop()
    app.queue("mail", concurrency=5, peak={NIGHT: 1})
    app.queue("reports", window=NIGHT)
    app.gate("disk", 2)
    app.task(name="a", queue="other")(lambda: None)
    catalogue = published(app)
    assert [(queue.name, queue.limit, queue.windows) for queue in catalogue.queues] == [
        ("mail", Bound(5, ("1 at 03:00–03:15 UTC",)), ()),
        ("other", None, ()),
        ("reports", None, ("03:00–03:15 UTC",)),
    ]
    assert [(gate.name, gate.limit) for gate in catalogue.gates] == [("disk", Bound(2))]


def test_settings_are_told_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with where it comes from."""
    monkeypatch.setenv("STANDFAST_URL", "postgresql://shop:hunter2@db.example.com/shop?password=swordfish")
    app = Standfast(grace=5, name="shop", release="7")
    catalogue = published(app)
    settings = {each.name: each for each in catalogue.settings}
    assert settings.keys() == set(app.settings_from)
    assert (settings["grace"].value, settings["grace"].where) == (5.0, app.settings_from["grace"])
    assert "STANDFAST_URL" in settings["url"].where
    assert "db.example.com" in str(settings["url"].value)
    told = msgspec.json.encode(catalogue).decode()
    assert "hunter2" not in told
    assert "swordfish" not in told


def test_a_release_is_known_by_its_app_and_its_name() -> None:
    """As the schedules that it declares are: without a name by its target, without a release by its schedules."""
    named = published(shop(name="shop", release="7"))
    assert (named.app, named.release, named.key) == ("shop", "7", "shop@7")
    assert (named.published_at, named.host, named.standfast) == (NOW, "web-01", __version__)
    plain = published(shop())
    assert plain.app == "shop.jobs:app"
    assert plain.release.startswith("code-")


@pytest.mark.parametrize(
    ("backoff", "words"),
    [
        (Constant(5), "5 s each time"),
        (Linear(5, 3600), "5 s, 10 s, 15 s … up to 1 h"),
        (Exponential(), "2 s, 4 s, 8 s … up to 1 h"),
        (Exponential(10, 2, 30), "20 s … up to 30 s"),
        (Exponential(10, 2, 15), "15 s each time"),
        (Exponential(1, 2, float("inf")), "2 s, 4 s, 8 s …"),
        (Exponential(1, 1e300, float("inf")), "36500 d each time"),
        (object(), "as object says"),
    ],
)
def test_backoffs_in_words(backoff: Any, words: str) -> None:
    """How long the waits are, as far as they are not left to chance."""
    assert backoff_words(backoff) == words


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "int"),
        (Any, "any"),
        (None, "None"),
        (str | None, "str | None"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", 1], "'a' | 1"),
        (Annotated[str, Secret], "str"),
        (Address, "Address"),
        (datetime, "datetime"),
    ],
)
def test_types_in_words(annotation: Any, words: str) -> None:
    """As people write them."""
    assert type_words(annotation) == words


def test_objectives_are_told() -> None:
    """So that whoever has the store alone can show how they stand."""
    app = shop()
    app.objective("mails", task="send", target=0.9)
    assert [(each.name, each.target) for each in published(app).objectives] == [("mails", 0.9)]
