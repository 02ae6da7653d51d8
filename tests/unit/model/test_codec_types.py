"""Each supported type arrives as it was given, nested too; what cannot is refused by name."""

import subprocess
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from standfast.errors import ArgumentsError, ConfigurationError, PayloadError, ResultEncodingError
from standfast.model.arguments import Arguments
from standfast.model.codec import decode_result, encode_result


class Rank(IntEnum):
    LOW = 1


class Shade(StrEnum):
    DARK = "dark"


class Colour(Enum):
    RED = "red"


class Access(Flag):
    READ = 1
    WRITE = 2


class Row(NamedTuple):
    id: int
    name: str


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class User(pydantic.BaseModel):
    name: str
    joined: datetime
    friends: list["User"] = []


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    when: date
    size: tuple[int, int]
    made_of: Annotated[int, pydantic.Field(alias="madeOf")] = 1

    @pydantic.computed_field
    @property
    def area(self) -> int:
        return self.size[0] * self.size[1]


class Numbers(pydantic.RootModel[list[int]]):
    pass


@dataclass
class Order:
    user: User
    paid: float | None = None


@dataclass
class Bill:
    total: Decimal
    parts: list["Bill"] = field(default_factory=list)


@dataclass(eq=False)
class Unequal:
    at: datetime
    ids: list[int] = field(default_factory=list)


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: frozenset[str]


ADA = User(name="Ada", joined=datetime(2030, 1, 2, tzinfo=UTC))
BOB = User(name="Bob", joined=datetime(2030, 1, 2), friends=[ADA])  # noqa: DTZ001 - a naive one stays naive
BERLIN = ZoneInfo("Europe/Berlin")


def taking(annotation: Any) -> Arguments:
    def handler(value): ...

    handler.__annotations__["value"] = annotation
    return Arguments(handler, task="demo")


def round_trip(annotation: Any, value: Any) -> Any:
    taken = taking(annotation)
    return taken.decode(taken.encode((value,), {}))["value"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (object, {"a": [1, None]}),
        (Hashable, "a"),
        (User, ADA),
        (User, BOB),
        (User | None, None),
        (User | str, "Ada"),
        (list[User], [ADA, BOB]),
        (dict[str, User | None], {"a": ADA, "b": None}),
        (Order, Order(BOB, 2.5)),
        (Strict, Strict(when=date(2030, 1, 2), size=(2, 3), madeOf=4)),
        (Numbers, Numbers([1, 2])),
        (Cat | Dog, Cat(9)),
        (Cat | Dog, Dog(frozenset({"sit"}))),
        (Movie, {"title": "Metropolis"}),
        (Row, Row(1, "a")),
        (list[Row], [Row(1, "a")]),
        (Rank, Rank.LOW),
        (Access, Access.READ | Access.WRITE),
        (Access, Access(0)),
        (time, time(1, 2, 3, 4)),
        (time, time(1, 2, tzinfo=UTC)),
        (datetime, datetime(2030, 1, 2, 3, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        (dict[int, str], {-1: "a"}),
        (dict[UUID, int], {UUID(int=7): 1}),
        (dict[date, int], {date(2030, 1, 2): 1}),
        (dict[Rank, int], {Rank.LOW: 1}),
        (dict[Shade, int], {Shade.DARK: 1}),
        (dict[Decimal, int], {Decimal("1.10"): 1}),
        (dict[float, int], {1.5: 1}),
        (dict[bytes, int], {b"\x00": 1}),
        (frozenset[tuple[int, str]], frozenset({(1, "a")})),
        (set[frozenset[int]], {frozenset({1})}),
        (tuple[int, ...], (1, 2)),
        (Literal["a", 1] | None, 1),
        (int | float, 1),
        (int | float, 1.0),
        (float, -0.0),
        (bytearray, bytearray(b"a")),
        (int, 10**4000),
        (Decimal, Decimal("1E+400")),
    ],
)
def test_a_value_arrives_equal_and_of_its_type(annotation, value):
    arrived = round_trip(annotation, value)
    assert arrived == value
    assert type(arrived) is type(value)
    assert repr(arrived).replace("TzInfo(0)", "datetime.timezone.utc") == repr(value)


def test_a_named_zone_arrives_as_its_offset():
    """The instant and the offset stay, also in the hour that the zone has twice; the name of the zone does not."""
    for fold in (0, 1):
        twice = datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold)
        arrived = round_trip(datetime, twice)
        assert arrived.astimezone(UTC) == twice.astimezone(UTC)
        assert arrived.utcoffset() == twice.utcoffset() == timedelta(hours=2 - fold)


def test_a_dataclass_without_equality_is_judged_by_its_fields():
    given = Unequal(datetime(2030, 1, 1, tzinfo=UTC), [1])
    assert vars(round_trip(Unequal, given)) == vars(given)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, float("inf")),
        (list[float | None], [float("nan")]),
        (Order, Order(ADA, float("nan"))),
        (Decimal, Decimal("NaN")),
        (datetime, datetime(2030, 1, 1, tzinfo=timezone(timedelta(seconds=30)))),
        (Unequal, Unequal(datetime(2030, 1, 1, tzinfo=timezone(timedelta(seconds=30))))),
        (str, "lone \ud800"),
        (list[str], ["lone \ud800"]),
        (User, User(name="\ud800", joined=ADA.joined)),
        pytest.param(int, 10**5000, id="huge"),
        (float, 2**53 + 1),
        (Any, {1: "a"}),
        (Any, {"a": (1, {2})}),
        (Any, ADA),
        (User, {"name": "Ada", "joined": "2030-01-02T00:00:00Z"}),
        (User, User.model_construct(name=5, joined=None)),
        (object, Path("a")),
        (date, datetime(2030, 1, 1)),  # noqa: DTZ001 - that it is no date is the point
        (Colour, "red"),
        (dict[str, int], {1: 1}),
        (dict[tuple[int, int], str], {(1, 2): "a"}),
    ],
)
def test_what_would_arrive_changed_is_refused_by_name(annotation, value):
    with pytest.raises(ArgumentsError, match="argument 'value' of demo") as refused:
        taking(annotation).encode((value,), {})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("annotation", [UUID | str, date | datetime, list[int] | set[int], int | Rank])
def test_a_type_that_json_cannot_tell_apart_is_refused_at_declaration(annotation):
    with pytest.raises(ConfigurationError, match="parameter 'value' of demo has a type that JSON cannot carry"):
        taking(annotation)


def test_what_a_pydantic_model_refuses_is_told_in_one_line():
    with pytest.raises(PayloadError, match=r"`User` refuses it: name: Field required - at `\$\.value`"):
        taking(User).decode(b'{"v":1,"args":{"value":{"joined":"2030-01-01"}}}')


class Fussy(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return {"Ada": "Ada"}[name]


def test_a_validator_that_breaks_makes_the_payload_unreadable_and_nothing_else():
    with pytest.raises(PayloadError, match="`Fussy` refuses it: KeyError: 'Bob'"):
        taking(Fussy).decode(b'{"v":1,"args":{"value":{"name":"Bob"}}}')


def test_a_payload_nested_too_deeply_is_a_payload_error():
    with pytest.raises(PayloadError, match="does not fit demo"):
        taking(Any).decode(b'{"v":1,"args":{"value":' + b"[" * 10_000 + b"]" * 10_000 + b"}}")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Decimal, 1.5),
        (Decimal, 1.1),
        (Decimal | None, 2.0),
        (list[Decimal], [Decimal(1), 1.5]),
        (tuple[int, Decimal], (1, 1.5)),
        (dict[str, list[Decimal]], {"a": [1.5]}),
        (dict[Decimal, int], {1.5: 1}),
        (set[Decimal], {1.5}),
        (Bill, Bill(1.5)),
        (list[Bill], [Bill(Decimal(1), [Bill(1.5)])]),
    ],
)
def test_a_float_is_never_taken_for_a_decimal(annotation, value):
    """Also where the two are equal: 1.5 would pass and 1.1 would not."""
    with pytest.raises(ArgumentsError, match=r"argument 'value' of demo has a float for a Decimal"):
        round_trip(annotation, value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, 1),
        (Decimal, 1),
        (list[Decimal], [1, Decimal("1.5")]),
        (dict[Decimal, float], {1: 1}),
        (Bill, Bill(3, [Bill(Decimal("0.1"))])),
    ],
)
def test_an_int_is_taken_for_a_float_or_a_decimal(annotation, value):
    assert round_trip(annotation, value) == value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, float("nan")),
        (float, float("-inf")),
        (Any, {"a": [float("nan")]}),
        (Decimal, Decimal("NaN")),
        (list[Decimal], [Decimal("sNaN")]),
        (Order, Order(ADA, float("nan"))),
    ],
)
def test_numbers_that_json_does_not_have_are_called_so(annotation, value):
    with pytest.raises(ArgumentsError, match=r"argument 'value' of demo has a NaN or .* JSON has no such number"):
        round_trip(annotation, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(User, BOB), (list[User], [ADA]), (Order, Order(ADA)), (dict[UUID, Row], {UUID(int=1): Row(1, "a")})],
)
def test_a_result_comes_back_as_annotated(kind, value):
    def handler() -> kind: ...

    read_as = Arguments(handler, task="demo").result_type
    assert decode_result(encode_result(value), read_as) == value


@pytest.mark.parametrize("value", [float("nan"), {"loss": [1.0, float("inf")]}, Order(ADA, float("nan"))])
def test_a_result_that_json_cannot_carry_is_refused(value):
    with pytest.raises(ResultEncodingError, match="not finite"):
        encode_result(value)


def test_null_in_a_result_is_no_reason_to_refuse_it():
    assert encode_result({"a": None, "b": "null", "c": 1.5}) == b'{"a":null,"b":"null","c":1.5}'


def test_pydantic_is_loaded_only_by_those_who_use_it():
    script = "import standfast, standfast.worker.worker, sys; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
