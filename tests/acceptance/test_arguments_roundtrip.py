"""What a caller gives is what the handler receives: equal, and of the same types, whatever was drawn."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any, Literal, NamedTuple, TypedDict, get_type_hints
from uuid import UUID

import msgspec
import pydantic
import pytest
from fleet import sizes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shopfloor import Shop

from standfast.model.arguments import Arguments
from standfast.model.codec import decode_result, encode_result

EXAMPLES = sizes(short=100, full=5_000)

pytestmark = pytest.mark.timeout(sizes(short=120, full=1_800))


class Rank(IntEnum):
    LOW = 1
    HIGH = 9


class Shade(StrEnum):
    DARK = "dark"
    LIGHT = "light"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Access(Flag):
    READ = 1
    WRITE = 2


class Row(NamedTuple):
    id: int
    name: str | None


class Movie(TypedDict):
    title: str
    rated: dict[str, int]


@dataclass
class Address:
    street: str
    lines: list[str]
    since: date | None


@dataclass(eq=False)
class Plain:
    address: Address
    points: tuple[float, float]


class Cat(msgspec.Struct, tag="cat"):
    lives: int
    owner: Address | None = None


class Dog(msgspec.Struct, tag="dog"):
    tricks: frozenset[str]


class User(pydantic.BaseModel):
    name: str
    id: UUID
    joined: datetime
    balance: Decimal
    shade: Shade
    friends: list["User"] = []


def everyday(
    *, text: str, number: int, share: float, flag: bool, blob: bytes, maybe: str | None, one: int | str
) -> None: ...


def dates(
    *, at: datetime, day: date, clock: time, span: timedelta, later: datetime | None, many: list[datetime]
) -> None: ...


def exact(
    *, key: UUID, price: Decimal, rank: Rank, shade: Shade, colour: Colour, access: Access, word: Literal["a", "b"]
) -> None: ...


def containers(
    *,
    numbers: list[int],
    shares: dict[str, list[float]],
    words: set[str],
    blobs: frozenset[bytes],
    pair: tuple[int, Decimal],
    days: tuple[date, ...],
    matrix: list[list[bool | None]],
) -> None: ...


def keyed(
    by_number: dict[int, str],
    by_id: dict[UUID, list[int]],
    by_day: dict[date, Decimal],
    by_rank: dict[Rank, Colour],
    by_shade: dict[Shade, dict[int, bytes]],
) -> None: ...


def objects(
    *,
    address: Address,
    plain: Plain,
    row: Row,
    movie: Movie,
    pet: Cat | Dog,
    pets: list[Cat | Dog],
    user: User,
    users: dict[str, User | None],
) -> None: ...


def anything(data: Any, untyped=None) -> None: ...


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)
st.register_type_strategy(datetime, st.datetimes() | st.datetimes(timezones=OFFSETS))
st.register_type_strategy(time, st.times() | st.times(timezones=OFFSETS))
st.register_type_strategy(float, FLOATS)
st.register_type_strategy(Decimal, st.decimals(allow_nan=False, allow_infinity=False))
st.register_type_strategy(Access, st.integers(0, 3).map(Access))


def users(deep: int = 1) -> st.SearchStrategy[User]:
    friends = st.lists(users(deep - 1), max_size=2) if deep else st.just([])
    named = st.builds(dict, name=st.text(), id=st.uuids(), balance=st.from_type(Decimal), shade=st.from_type(Shade))
    joined = st.datetimes() | st.datetimes(timezones=OFFSETS)
    return st.builds(lambda name, at, others: User(**name, joined=at, friends=others), named, joined, friends)


st.register_type_strategy(User, users())


def calls(fn: Any) -> st.SearchStrategy[dict[str, Any]]:
    hints = {name: kind for name, kind in get_type_hints(fn).items() if name != "return"}
    if fn is anything:
        return st.fixed_dictionaries({"data": JSON}, optional={"untyped": JSON})
    return st.fixed_dictionaries({name: st.from_type(kind) for name, kind in hints.items()})


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal and of equal types, all the way down."""
    return type(one) is type(other) and _equal(one, other)


def _equal(one: Any, other: Any) -> bool:
    match one:
        case dict():
            keys = zip(sorted(one, key=repr), sorted(other, key=repr), strict=True)
            return all(same(mine, yours) and same(one[mine], other[yours]) for mine, yours in keys)
        case list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case datetime() | time():
            return one == other and one.utcoffset() == other.utcoffset()
        case float() | Decimal():
            return repr(one) == repr(other)
        case Address() | Plain() | Cat() | Dog() | User():
            names = get_type_hints(type(one))
            return all(same(getattr(one, name), getattr(other, name)) for name in names if not name.startswith("_"))
        case _:
            return bool(one == other)


@pytest.mark.parametrize(
    "fn", [everyday, dates, exact, containers, keyed, objects, anything], ids=lambda fn: fn.__name__
)
def test_arguments_arrive_equal_and_of_equal_types(fn):
    """Whatever values of the supported types are drawn, they come back the same, as arguments and as results."""
    taken = Arguments(fn, task=fn.__name__)
    hints = get_type_hints(fn)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(calls(fn))
    def check(call):
        arrived = taken.decode(taken.encode((), call))
        assert same(arrived, call)
        for name, value in call.items():
            assert same(decode_result(encode_result(value), hints.get(name, Any)), value)

    check()


APP = """
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel

from standfast import Standfast

app = Standfast(f"sqlite:///{Path(__file__).parent}/jobs.db")

class User(BaseModel):
    name: str
    joined: datetime

@dataclass
class Order:
    id: UUID
    user: User
    prices: dict[date, Decimal]

@app.task
async def ship(order: Order, boxes: set[int]) -> Order:
    assert isinstance(order.user, User) and type(boxes) is set, (order, boxes)
    return order

@app.task
def greet(user: User | None, times: int = 2) -> list[User]:
    return [] if user is None else [user] * times

@app.task(version=3)
def send(to: str, subject: str) -> str:
    return f"{subject} to {to}"

@send.upgrade(1)
def _(args):
    return {"to": args["address"]}

@send.upgrade(2)
def _(args):
    if args["to"] == "nobody":
        raise LookupError("nobody has no subject")
    return {**args, "subject": "hello"}
"""


@pytest.fixture
def shop(tmp_path):
    source = tmp_path / "typed.py"
    source.write_text(APP)
    with Shop(tmp_path, source) as made:
        yield made


def test_arguments_and_results_pass_through_a_worker_as_they_are(shop):
    """Dataclasses, pydantic models and what is in them reach the handler in another process, and come back."""
    user = shop.tasks.User(name="Ada ☂", joined=datetime(2030, 1, 2, 3, 4, 5, 678901))  # noqa: DTZ001 - it stays naive
    order = shop.tasks.Order(UUID(int=7), user, {date(2030, 1, 2): Decimal("1.10")})
    shipped = shop.tasks.ship.enqueue(order, boxes={1, 2})
    greeted = shop.tasks.greet.enqueue(user), shop.tasks.greet.enqueue(None)
    shop.drain()
    assert shipped.result(timeout=0) == order
    assert [each.result(timeout=0) for each in greeted] == [[user, user], []]


def test_arguments_of_older_versions_are_upgraded(shop):
    """Payloads of versions 1 and 2 run with the task of version 3; one whose upgrade fails is dead and says so."""
    older = [shop.tasks.send.enqueue("x", subject="x") for _ in range(3)]
    payloads = [
        (1, '{"v":1,"args":{"address":"ada"}}'),
        (2, '{"v":2,"args":{"to":"bob"}}'),
        (2, '{"v":2,"args":{"to":"nobody"}}'),
    ]
    for handle, (version, payload) in zip(older, payloads, strict=True):
        shop.sql(
            "UPDATE standfast_job SET version = ?, payload = ? WHERE id = ?", version, payload.encode(), handle.id
        )
    newest = shop.tasks.send.enqueue("eve", subject="news")
    shop.drain()
    assert [each.result(timeout=0) for each in (*older[:2], newest)] == [
        "hello to ada",
        "hello to bob",
        "news to eve",
    ]
    failed = older[2].job()
    assert (failed.state, failed.attempt) == ("dead", 1)
    assert failed.error == (
        "standfast.errors.PayloadError: the upgrade of send from version 2 to 3 failed:"
        " LookupError: nobody has no subject; correct it and retry the job"
    )
    assert "nobody has no subject" in shop.history(older[2])[0].traceback
