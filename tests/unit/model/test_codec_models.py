"""Models, constraints, unions and subclasses, as arguments and as results: kept exactly, or refused by name."""

import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, Never
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import annotated_types
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from fastapi import Query

from standfast.errors import ArgumentsError, ConfigurationError, PayloadError, ResultEncodingError
from standfast.model.arguments import Arguments
from standfast.model.codec import decode_result
from standfast.model.job import Claim, ClaimRef
from standfast.model.outcomes import Snooze, Success
from standfast.model.policy import declare_policy
from standfast.model.secrets import Secret
from standfast.model.states import Move
from standfast.worker.completer import Judge

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CLAIM = Claim(ClaimRef("id", 1), "demo", 1, b"", "default", 0, NOW, attempt=0, crashes=0, max_attempts=3)


class Patch(pydantic.BaseModel):
    name: str | None = None
    age: int | None = None
    tags: list[str] = []
    id: UUID = pydantic.Field(default_factory=uuid4)


class Wish(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True, frozen=True)
    of: Patch | None = None
    also: dict[str, Patch] = {}
    made_at: Annotated[int, pydantic.Field(alias="madeAt")] = 0


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    patch: Patch = Patch(name="nobody")


class Point(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    x: int
    y: int = 0


class Points(pydantic.BaseModel):
    all: set[Point]


class Queues(pydantic.BaseModel):
    last: deque[Any] = deque()
    sums: defaultdict[str, int] = pydantic.Field(default_factory=lambda: defaultdict(int))


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Twin(pydantic.BaseModel):
    lives: int = 9


class OtherTwin(pydantic.BaseModel):
    lives: int = 9


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Tabby(Cat):
    stripes: int = 4


class Doubled(pydantic.BaseModel):
    """Has a validator that says something else each time."""

    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _double(cls, number: int) -> int:
        return number * 2


@dataclass
class Basket:
    patch: Patch
    pet: Cat | Dog


@dataclass
class Held:
    patches: list[Patch]


class Kept(msgspec.Struct):
    patch: Patch


@dataclass
class Counted:
    number: Annotated[int, pydantic.Field(ge=0)]


@pydantic.dataclasses.dataclass
class Checked:
    number: pydantic.PositiveInt
    patch: Patch


class Rank(IntEnum):
    LOW = 1


class Shade(StrEnum):
    DARK = "dark"


class Row(NamedTuple):
    id: int
    name: str


def taking(annotation: Any) -> Arguments:
    def handler(value): ...

    handler.__annotations__["value"] = annotation
    return Arguments(handler, task="demo")


def returning(annotation: Any) -> Arguments:
    def handler(): ...

    handler.__annotations__["return"] = annotation
    return Arguments(handler, task="demo")


def round_trip(annotation: Any, value: Any) -> Any:
    taken = taking(annotation)
    return taken.decode(taken.encode((value,), {}))["value"]


def judged(taken: Arguments, value: Any) -> Any:
    """Return how an attempt ends whose handler returned this."""
    return Judge(CLAIM, declare_policy(), NOW, Random(1), results=taken.results).returned(value)


def come_back(annotation: Any, value: Any) -> Any:
    taken = returning(annotation)
    ending = judged(taken, value)
    assert ending.move is Move.COMPLETE, ending.failure
    return decode_result(ending.result, taken.result_type)


def models(value: Any) -> Iterator[pydantic.BaseModel]:
    """Yield the models in a value."""
    if isinstance(value, pydantic.BaseModel):
        yield value
        inside: Any = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    elif isinstance(value, set):
        inside = sorted(value, key=repr)
    elif isinstance(value, msgspec.Struct):
        inside = msgspec.structs.astuple(value)
    else:
        inside = vars(value).values() if hasattr(value, "__dataclass_fields__") else ()
    for each in inside:
        yield from models(each)


ONE = Patch(name=None)
MANY = [Patch(), Patch(age=5, tags=["a"]), Patch(name="Ada", age=1, tags=[], id=uuid4())]


@pytest.mark.parametrize("there_and_back", [round_trip, come_back])
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Patch, ONE),
        (Patch, Patch()),
        (Patch | None, ONE),
        (list[Patch], MANY),
        (tuple[Patch, ...], tuple(MANY)),
        (dict[str, Patch], dict(zip("abc", MANY, strict=True))),
        (dict[int, list[Patch | None]], {1: [*MANY, None]}),
        (Wish, Wish(of=ONE, also={"a": MANY[1]}, more={"name": "it"})),
        (Wish, Wish(madeAt=0)),
        (set[Point], {Point(x=1), Point(x=2, y=0)}),
        (Queues, Queues(last=deque([1, 2]), sums=defaultdict(int, a=1))),
        (Closed, Closed()),
        (Closed, Closed(patch=ONE)),
        (Held, Held(MANY)),
        (Kept, Kept(ONE)),
        (Basket, Basket(ONE, Cat())),
        (Checked, Checked(1, ONE)),
        (Cat | Dog, Cat()),
        (Cat | Dog, Dog(kind="dog")),
        (Pet, Dog(tricks=["sit"])),
        (list[Pet], [Cat(), Dog(kind="dog"), Cat(lives=7)]),
        (dict[str, Pet | None], {"a": Cat(kind="cat"), "b": None}),
        (Annotated[list[Patch], pydantic.Field(min_length=1)], MANY),
    ],
)
def test_which_fields_of_a_model_were_set_arrives(there_and_back, annotation, value):
    """`exclude_unset` says the same in the worker, in nested models, lists, dicts and unions too."""
    arrived = there_and_back(annotation, value)
    assert arrived == value
    given, received = list(models(value)), list(models(arrived))
    assert [each.model_fields_set for each in received] == [each.model_fields_set for each in given]
    assert [each.model_dump(exclude_unset=True) for each in received] == [
        each.model_dump(exclude_unset=True) for each in given
    ]


def test_a_payload_without_marks_has_all_fields_set():
    """It was written by another release or by hand."""
    arrived = taking(Patch).decode(b'{"v":1,"args":{"value":{"name":"a","age":null,"gone":1}}}')["value"]
    assert arrived.model_fields_set == {"name", "age"}


@pytest.mark.parametrize(
    ("annotation", "value", "remedy"),
    [
        (Patch, {"name": "x"}, "a Patch: Patch.model_validate(value)"),
        (pydantic.HttpUrl, "https://example.com/", "a HttpUrl: HttpUrl(value)"),
        (Rank, 1, "a Rank: Rank(value)"),
        (date, "2030-01-02", "a date, or annotate {} with str"),
        (set[int], [1], "a set, or annotate {} with list"),
    ],
)
def test_plain_json_for_an_annotated_type_is_refused_with_how_to_make_it(annotation, value, remedy):
    def demo(value: annotation) -> annotation:
        return value

    taken = Arguments(demo, task="demo")
    with pytest.raises(ArgumentsError) as refused:
        taken.encode((value,), {})
    assert str(refused.value).endswith(f"; pass {remedy.format('the parameter')}")
    with pytest.raises(ResultEncodingError) as refused:
        taken.results.encode(value)
    assert str(refused.value).endswith(f"; return {remedy.format('the return type')}")


def test_a_model_in_a_set_that_would_lose_which_fields_were_set_is_refused():
    assert round_trip(Points, Points(all={Point(x=1, y=0)})) == Points(all={Point(x=1, y=0)})
    with pytest.raises(ArgumentsError, match=r"argument 'value' of demo .* which fields were set"):
        round_trip(Points, Points(all={Point(x=1)}))


def test_the_marks_of_a_secret_model_are_no_secrets():
    taken = taking(Annotated[Patch, Secret])
    payload = taken.encode((Patch(name="s3cret!"),), {})
    scrub = taken.scrub_for(payload, taken.decode(payload))
    assert scrub.text("tags of s3cret!") == "tags of ••••"


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "said"),
    [
        (pydantic.PositiveInt, 1, -1, "greater than 0"),
        (Annotated[int, pydantic.Field(ge=0)], 0, -1, "greater than or equal to 0"),
        (Annotated[int, Query(ge=0)], 0, -1, "greater than or equal to 0"),
        (Annotated[int, annotated_types.Ge(0)], 0, -1, "greater than or equal to 0"),
        (Annotated[str, pydantic.StringConstraints(max_length=2)], "ab", "abc", "at most 2 characters"),
        (Annotated[str, pydantic.AfterValidator(lambda text: text or 1 / 0)], "a", "", "ZeroDivisionError"),
        (Annotated[int, msgspec.Meta(ge=0)], 0, -1, "Expected `int` >= 0"),
        (list[pydantic.PositiveInt], [1], [1, 0], "greater than 0"),
        (dict[str, Annotated[str, pydantic.Field(pattern="^a")]], {"x": "a"}, {"x": "b"}, "should match pattern"),
        (pydantic.PositiveInt | None, None, 0, "greater than 0"),
        (Counted, Counted(0), Counted(-1), "greater than or equal to 0"),
        (Annotated[list[int], pydantic.Field(max_length=1)], [1], [1, 2], "at most 1 item"),
        (pydantic.AwareDatetime, datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1), "timezone"),  # noqa: DTZ001
        (Annotated[pydantic.PositiveInt, Secret], 1, -7, "a secret, does not fit"),
    ],
)
def test_constraints_of_parameters_are_checked_at_the_enqueue_and_at_the_run(annotation, good, bad, said):
    taken = taking(annotation)
    payload = taken.encode((good,), {})
    assert taken.decode(payload) == {"value": good}
    with pytest.raises(ArgumentsError, match=f"argument 'value' of demo.*{said}"):
        taken.encode((bad,), {})
    written = msgspec.json.encode(bad)
    place = b"secret" if b'"secret"' in payload else b"args"
    with pytest.raises(PayloadError, match="does not fit demo"):
        taken.decode(b'{"v":1,"args":{},"%b":{"value":%b}}' % (place, written))


def test_what_a_validator_changes_is_refused_at_the_enqueue():
    taken = taking(Annotated[str, pydantic.StringConstraints(strip_whitespace=True)])
    assert taken.decode(taken.encode(("a",), {})) == {"value": "a"}
    with pytest.raises(ArgumentsError, match=r"argument 'value' of demo .* would"):
        taken.encode((" a",), {})
    with pytest.raises(ArgumentsError, match="argument 'value' of demo"):
        taking(pydantic.PositiveInt).encode(("5",), {})


def test_a_field_as_a_default_is_refused_where_it_is_declared():
    """Its constraint would not be checked, and the handler would get the Field itself."""

    def handler(n: int = pydantic.Field(5, ge=0)) -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"parameter 'n' of demo has a pydantic Field as its default.*Annotated"
    ):
        Arguments(handler, task="demo")


class Limited(msgspec.Struct):
    number: Annotated[int, pydantic.Field(ge=0)]


@pytest.mark.parametrize(
    "annotation", [Limited, Annotated[int, msgspec.Meta(ge=0), pydantic.Field(le=9)], list[Cat | Limited]]
)
def test_a_constraint_that_could_not_be_checked_is_refused_at_declaration(annotation):
    with pytest.raises(ConfigurationError, match=r"parameter 'value' of demo .*(msgspec.Meta|pydantic)"):
        taking(annotation)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, Rank.LOW),
        (float, Rank.LOW),
        (str, Shade.DARK),
        (Any, Shade.DARK),
        (Any, {"a": [Rank.LOW]}),
        (dict[str, int], defaultdict(int, a=1)),
        (dict[str, int], Counter("ab")),
        (Any, OrderedDict(a=1)),
        (dict[str, int], {Shade.DARK: 1}),
        (dict[str, int], {"a": True} | {"b": Rank.LOW}),
        (Any, Row(1, "a")),
        (list[Any], [Row(1, "a")]),
        (tuple[int, str], Row(1, "a")),
        (tuple[int, ...], [1]),
        (bytes, bytearray(b"a")),
        (set[int], frozenset({1})),
        (set[int], {Rank.LOW}),
        (Literal[1], Rank.LOW),
        (Held, Held([Tabby()])),
        (Cat, Tabby()),
        (Cat | Dog, Tabby()),
        (list[Pet], [Tabby()]),
        (Twin | OtherTwin, OtherTwin()),
        (Wish, Wish(more=date(2030, 1, 1))),
        (time, time(1, tzinfo=ZoneInfo("Europe/Berlin"))),
        (Doubled, Doubled(number=1)),
        (Queues, Queues(last=deque([1], maxlen=2))),
        (Queues, Queues(last=deque([Rank.LOW]))),
        (Queues, Queues.model_construct(last=deque(), sums=defaultdict(float))),
        (Wish, Wish(more={"__unset__": ["of"]})),
        (Any, {1: "a", "1": "b"}),
    ],
)
def test_a_value_of_another_type_is_refused_and_never_converted(annotation, value):
    """A subclass is another type, wherever it stands: one rule, for arguments and for results."""
    with pytest.raises(ArgumentsError, match="argument 'value' of demo") as refused:
        round_trip(annotation, value)
    assert ";" in str(refused.value)
    ending = judged(returning(annotation), value)
    assert ending.move is Move.DIE, decode_result(ending.result, returning(annotation).result_type)
    assert ending.failure.type == "ResultEncodingError"
    assert "the result" in ending.failure.message
    assert ";" in ending.failure.message


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (int, "a", "does not fit the return annotation.*Expected `int`, got `str`"),
        (int, None, "Expected `int`, got `null`"),
        (None, 5, "Expected `null`, got `int`"),
        (Any, ONE, "given as Patch.*read back as dict.*annotate"),
        (Any, {1, 2}, "given as set.*read back as list"),
        (Cat, ONE, "does not fit|read back as Cat"),
        (pydantic.PositiveInt, -1, "greater than 0"),
        (Decimal, 1.5, "float for a Decimal"),
    ],
)
def test_a_result_that_would_be_read_back_changed_fails_its_attempt(annotation, value, said):
    """Where it is made, with the type and the remedy named; not where somebody waits for it."""
    for returned in (value, Success(value)):
        failure = judged(returning(annotation), returned).failure
        assert failure is not None
        assert failure.type == "ResultEncodingError"
        assert re.search(said, failure.message), failure.message


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Any, [1, {"a": (1.5, None)}]),
        (float, 1),
        (None, None),
        (int | Snooze, 5),
        (Never, None),
        (dict, {"a": [1]}),
    ],
)
def test_plain_results_come_back_as_before(annotation, value):
    assert come_back(annotation, value) == msgspec.json.decode(msgspec.json.encode(value))


class Unknown:
    """A class that nothing knows how to write."""


@pytest.mark.parametrize(
    ("annotation", "remedy"),
    [
        (Path, r"pass str\(path\)"),
        (list[Path], r"pass str\(path\)"),
        (Path | None, r"pass str\(path\)"),
        (Held | Unknown, "plain types"),
        (Cat | Unknown, "plain types"),
        (pydantic.SecretStr, r"Annotated\[str, Secret\]"),
        (deque, "list"),
        (defaultdict[str, int], "dict"),
        (Counter[str], "dict"),
        (complex, "plain value"),
        (IPv4Address, "str"),
        (Callable[[int], int], "name"),
        (type[int], "name"),
        (Iterator[int], "list"),
        (Unknown, "or pass an id"),
        (dict[str, Unknown | None], "or pass an id"),
        (list[int] | set[int], "plain types"),
    ],
)
def test_a_type_that_can_never_pass_is_refused_at_declaration(annotation, remedy):
    with pytest.raises(
        ConfigurationError, match=f"parameter 'value' of demo has a type that JSON cannot.*{remedy}"
    ):
        taking(annotation)
    with pytest.raises(ConfigurationError, match=f"demo returns a type that JSON cannot carry.*{remedy}"):
        returning(annotation)


def test_annotated_types_without_pydantic_are_refused_and_all_else_works():
    """Nothing of ours needs pydantic; what only pydantic could check says so."""
    script = """
import sys
sys.modules["pydantic"] = None
from typing import Annotated
import annotated_types
from standfast.model.arguments import Arguments
from standfast.errors import ConfigurationError
def fine(n: int, words: list[str]) -> dict[str, int]: ...
taken = Arguments(fine, task="fine")
assert taken.decode(taken.encode((1, ["a"]), {})) == {"n": 1, "words": ["a"]}
assert taken.results.encode({"a": 1}) == b'{"a":1}'
def limited(n: Annotated[int, annotated_types.Ge(0)]) -> None: ...
try:
    Arguments(limited, task="limited")
except ConfigurationError as error:
    assert "msgspec.Meta" in str(error) and "pydantic" in str(error), error
else:
    raise SystemExit("accepted")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
