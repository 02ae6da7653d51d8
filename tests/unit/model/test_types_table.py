"""The table of types in docs/reference/types.md: each value is kept exactly, or refused with the name and a remedy.

`WRITE_DOCS=1 make test ARGS=tests/unit/model/test_types_table.py` writes the page anew.
"""

import inspect
import os
import re
from collections import Counter, OrderedDict, defaultdict, deque  # noqa: F401 - what the cases name
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence  # noqa: F401
from collections.abc import Set as AbstractSet  # noqa: F401
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone  # noqa: F401
from decimal import Decimal  # noqa: F401
from enum import Enum, Flag, IntEnum, StrEnum
from fractions import Fraction  # noqa: F401
from ipaddress import IPv4Address  # noqa: F401
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID  # noqa: F401
from zoneinfo import ZoneInfo  # noqa: F401

import msgspec
import pydantic
import pytest
from annotated_types import Ge, Len  # noqa: F401
from pydantic import AfterValidator, AwareDatetime, EmailStr, Field, PositiveInt, SecretStr, StringConstraints  # noqa: F401

from standfast import Secret  # noqa: F401
from standfast.errors import ArgumentsError, ConfigurationError, ResultEncodingError
from standfast.model.arguments import Arguments
from standfast.model.codec import decode_result

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "types.md"

# -- shown on the page ----------------------------------------------------------------------------------------


class Rank(IntEnum):
    LOW = 1


class Shade(StrEnum):
    DARK = "dark"


class Colour(Enum):
    RED = "red"


class Access(Flag):
    READ = 1
    WRITE = 2


class Half(Enum):
    HALF = 0.5


class Row(NamedTuple):
    id: int
    name: str


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


@dataclass
class Address:
    street: str
    numbers: list[int] = field(default_factory=list)


@dataclass
class HomeAddress(Address):
    bell: int = 1


@dataclass
class Counted:
    number: Annotated[int, Field(ge=0)]


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Square(msgspec.Struct, tag=True):
    side: int


class Circle(msgspec.Struct, tag=True):
    radius: int


class User(pydantic.BaseModel):
    name: str | None = None
    age: int | None = None
    friends: list["User"] = []


class Admin(User):
    level: int = 1


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Left(pydantic.BaseModel):
    number: int = 0


class Right(pydantic.BaseModel):
    number: int = 0


class Hidden(pydantic.BaseModel):
    word: SecretStr


class Doubling(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def double(cls, number: int) -> int:
        return number * 2


class Order:
    """A class that only its own program knows."""


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
UserId = NewType("UserId", int)

# -- the cases ------------------------------------------------------------------------------------------------

KEPT = "kept"
REFUSED = "refused"
UNDECLARED = "refused where it is declared"

CASES = {
    "Plain values": [
        ("str", "'naïve ☂'", KEPT),
        ("str", "''", KEPT),
        ("str", "5", REFUSED),
        ("str", "None", REFUSED),
        ("str", "b'raw'", REFUSED),
        ("str", "'lone \\ud800'", REFUSED),
        ("str", "Shade.DARK", REFUSED),
        ("str", "Path('a')", REFUSED),
        ("int", "-5", KEPT),
        ("int", "10**4000", KEPT),
        ("int", "10**5000", REFUSED),
        ("int", "1.5", REFUSED),
        ("int", "1.0", REFUSED),
        ("int", "True", REFUSED),
        ("int", "'5'", REFUSED),
        ("int", "Rank.LOW", REFUSED),
        ("float", "2.5", KEPT),
        ("float", "-0.0", KEPT),
        ("float", "1e308", KEPT),
        ("float", "3", "3.0"),
        ("float", "2**53 + 1", REFUSED),
        ("float", "True", REFUSED),
        ("float", "float('nan')", REFUSED),
        ("float", "float('inf')", REFUSED),
        ("bool", "True", KEPT),
        ("bool", "1", REFUSED),
        ("None", "None", KEPT),
        ("None", "0", REFUSED),
        ("bytes", "b'\\x00\\xff'", KEPT),
        ("bytes", "bytearray(b'a')", REFUSED),
        ("bytes", "'a'", REFUSED),
        ("bytearray", "bytearray(b'a')", KEPT),
        ("int | None", "None", KEPT),
        ("int | None", "5", KEPT),
        ("int | str", "'5'", KEPT),
        ("int | float", "1", KEPT),
        ("int | float", "1.0", KEPT),
        ("UserId", "UserId(7)", KEPT),
    ],
    "Without a type": [
        ("Any", "'a'", KEPT),
        ("Any", "2**70", KEPT),
        ("Any", "1.5", KEPT),
        ("Any", "None", KEPT),
        ("Any", "{'a': [1, 2.5, None, True]}", KEPT),
        ("Any", "[(1, 2)]", "[[1, 2]]"),
        ("Any", "(1, {'a': (2,)})", "[1, {'a': [2]}]"),
        ("Any", "{1: 'a'}", REFUSED),
        ("Any", "{1: 'a', '1': 'b'}", REFUSED),
        ("Any", "{1, 2}", REFUSED),
        ("Any", "b'a'", REFUSED),
        ("Any", "date(2030, 1, 2)", REFUSED),
        ("Any", "UUID(int=7)", REFUSED),
        ("Any", "Decimal('1.10')", REFUSED),
        ("Any", "Colour.RED", REFUSED),
        ("Any", "[Rank.LOW]", REFUSED),
        ("Any", "Row(1, 'a')", REFUSED),
        ("Any", "Address('High')", REFUSED),
        ("Any", "User(name='Ada')", REFUSED),
        ("Any", "Point(1.0)", REFUSED),
        ("Any", "[float('nan')]", REFUSED),
        ("Any", "OrderedDict(a=1)", REFUSED),
        ("Any", "Path('a')", REFUSED),
        ("Any", "Order()", REFUSED),
        ("object", "{'a': [1, None]}", KEPT),
        ("Hashable", "'a'", KEPT),
        ("Iterable[int]", "[1, 2]", UNDECLARED),
    ],
    "Exact values and enums": [
        ("Decimal", "Decimal('1.10')", KEPT),
        ("Decimal", "Decimal('1E+400')", KEPT),
        ("Decimal", "7", "Decimal('7')"),
        ("Decimal", "1.5", REFUSED),
        ("list[Decimal]", "[Decimal(1), 1.5]", REFUSED),
        ("Decimal", "Decimal('NaN')", REFUSED),
        ("UUID", "UUID(int=7)", KEPT),
        ("UUID", "str(UUID(int=7))", REFUSED),
        ("Colour", "Colour.RED", KEPT),
        ("Colour", "'red'", REFUSED),
        ("Rank", "Rank.LOW", KEPT),
        ("Rank", "1", REFUSED),
        ("Shade", "Shade.DARK", KEPT),
        ("Access", "Access.READ | Access.WRITE", KEPT),
        ("Access", "Access(0)", KEPT),
        ("Half", "Half.HALF", UNDECLARED),
        ("Literal['a', 1]", "1", KEPT),
        ("Literal['a', 1]", "'b'", REFUSED),
        ("Literal[1]", "Rank.LOW", REFUSED),
        ("Literal[1]", "True", REFUSED),
        ("Literal['a'] | None", "None", KEPT),
        ("int | Rank", "Rank.LOW", UNDECLARED),
        ("UUID | str", "'a'", UNDECLARED),
        ("Fraction", "Fraction(1, 2)", UNDECLARED),
        ("complex", "1j", UNDECLARED),
    ],
    "Dates and times": [
        ("datetime", "datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)", KEPT),
        ("datetime", "datetime(2030, 1, 2)", KEPT),
        ("datetime", "datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30)))", KEPT),
        (
            "datetime",
            "datetime(2030, 1, 2, tzinfo=ZoneInfo('Europe/Berlin'))",
            "datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=1)))",
        ),
        ("datetime", "datetime(2030, 10, 27, 2, 30, fold=1)", "datetime(2030, 10, 27, 2, 30)"),
        ("datetime", "datetime(2030, 1, 1, tzinfo=timezone(timedelta(seconds=30)))", REFUSED),
        ("datetime", "date(2030, 1, 2)", REFUSED),
        ("datetime", "'2030-01-02T00:00:00Z'", REFUSED),
        ("datetime", "0", REFUSED),
        ("date", "date(2030, 1, 2)", KEPT),
        ("date", "datetime(2030, 1, 2)", REFUSED),
        ("time", "time(1, 2, 3, 4)", KEPT),
        ("time", "time(1, 2, tzinfo=UTC)", KEPT),
        ("time", "time(1, tzinfo=ZoneInfo('Europe/Berlin'))", REFUSED),
        ("timedelta", "timedelta(days=-1, microseconds=7)", KEPT),
        ("timedelta", "5", REFUSED),
        ("datetime | None", "None", KEPT),
        ("date | datetime", "date(2030, 1, 2)", UNDECLARED),
        ("ZoneInfo", "ZoneInfo('Europe/Berlin')", UNDECLARED),
    ],
    "Containers": [
        ("list[int]", "[1, 2]", KEPT),
        ("list", "[1, 'a', None]", KEPT),
        ("list[int]", "(1, 2)", "[1, 2]"),
        ("list[int]", "[1, 'a']", REFUSED),
        ("list[int]", "[Rank.LOW]", REFUSED),
        ("list[int]", "range(2)", REFUSED),
        ("list[float]", "[1, 2.5]", "[1.0, 2.5]"),
        ("Sequence[int]", "[1, 2]", KEPT),
        ("tuple[int, str]", "(1, 'a')", KEPT),
        ("tuple[int, ...]", "(1, 2)", KEPT),
        ("tuple[int, ...]", "[1, 2]", REFUSED),
        ("tuple[int, str]", "Row(1, 'a')", REFUSED),
        ("set[int]", "{1, 2}", KEPT),
        ("set[int]", "frozenset({1})", REFUSED),
        ("set[int]", "[1]", REFUSED),
        ("frozenset[tuple[int, str]]", "frozenset({(1, 'a')})", KEPT),
        ("set[frozenset[int]]", "{frozenset({1})}", KEPT),
        ("AbstractSet[int]", "{1}", KEPT),
        ("dict[str, int]", "{'a': 1}", KEPT),
        ("dict", "{'a': [1, {'b': None}]}", KEPT),
        ("dict[int, str]", "{-1: 'a'}", KEPT),
        ("dict[float, int]", "{1.5: 1}", KEPT),
        ("dict[UUID, int]", "{UUID(int=7): 1}", KEPT),
        ("dict[date, Decimal]", "{date(2030, 1, 2): Decimal('1.10')}", KEPT),
        ("dict[Rank, int]", "{Rank.LOW: 1}", KEPT),
        ("dict[Shade, int]", "{Shade.DARK: 1}", KEPT),
        ("dict[bytes, int]", "{b'\\x00': 1}", KEPT),
        ("dict[str, int]", "{1: 1}", REFUSED),
        ("dict[str, int]", "{Shade.DARK: 1}", REFUSED),
        ("dict[str, int]", "{'a': True}", REFUSED),
        ("dict[str, int]", "defaultdict(int, a=1)", REFUSED),
        ("dict[str, int]", "Counter('a')", REFUSED),
        ("dict[str, int]", "OrderedDict(a=1)", REFUSED),
        ("dict[tuple[int, int], str]", "{(1, 2): 'a'}", REFUSED),
        ("Mapping[str, int]", "{'a': 1}", KEPT),
        ("defaultdict[str, int]", "defaultdict(int, a=1)", UNDECLARED),
        ("Counter[str]", "Counter('a')", UNDECLARED),
        ("OrderedDict[str, int]", "OrderedDict(a=1)", UNDECLARED),
        ("deque[int]", "deque([1])", UNDECLARED),
        ("Iterator[int]", "iter([1])", UNDECLARED),
        ("range", "range(2)", UNDECLARED),
        ("list[int] | set[int]", "[1]", UNDECLARED),
    ],
    "Classes": [
        ("Address", "Address('High', [1, 2])", KEPT),
        ("Address", "Address('High', (1, 2))", "Address('High', [1, 2])"),
        ("Address", "Address('High', ['two'])", REFUSED),
        ("Address", "{'street': 'High', 'numbers': []}", REFUSED),
        ("Address", "HomeAddress('High')", REFUSED),
        ("HomeAddress", "HomeAddress('High', [1], 2)", KEPT),
        ("list[Address]", "[Address('High'), Address('Low')]", KEPT),
        ("list[Address]", "[HomeAddress('High')]", REFUSED),
        ("dict[str, Address | None]", "{'a': Address('High'), 'b': None}", KEPT),
        ("Row", "Row(1, 'a')", KEPT),
        ("Row", "(1, 'a')", REFUSED),
        ("list[Row]", "[Row(1, 'a')]", KEPT),
        ("Movie", "{'title': 'Metropolis'}", KEPT),
        ("Movie", "{'title': 'Metropolis', 'year': 1927}", KEPT),
        ("Movie", "{'year': 1927}", REFUSED),
        ("Movie", "{'title': 'Metropolis', 'by': 'Lang'}", REFUSED),
        ("Point", "Point(1.0)", KEPT),
        ("Point", "Point(1)", "Point(1.0)"),
        ("Point", "Point(float('nan'))", REFUSED),
        ("Square | Circle", "Circle(2)", KEPT),
        ("list[Square | Circle]", "[Circle(2), Square(1)]", KEPT),
        ("Point | Address", "Point(1.0)", UNDECLARED),
        ("Order", "Order()", UNDECLARED),
        ("list[Order]", "[Order()]", UNDECLARED),
        ("Order | None", "Order()", UNDECLARED),
        ("Path", "Path('a')", UNDECLARED),
        ("dict[str, Path]", "{'a': Path('a')}", UNDECLARED),
        ("IPv4Address", "IPv4Address('127.0.0.1')", UNDECLARED),
        ("Exception", "ValueError()", UNDECLARED),
        ("type[int]", "int", UNDECLARED),
        ("Callable[[], int]", "int", UNDECLARED),
        ("re.Pattern[str]", "re.compile('a')", UNDECLARED),
    ],
    "Pydantic models": [
        ("User", "User(name='Ada', age=36)", KEPT),
        ("User", "User(name=None)", KEPT),
        ("User", "User()", KEPT),
        ("User", "User(friends=[User(age=None), User(name='Bob')])", KEPT),
        ("User | None", "None", KEPT),
        ("list[User]", "[User(name='Ada'), User()]", KEPT),
        ("dict[str, User]", "{'a': User(age=1)}", KEPT),
        ("tuple[User, int]", "(User(age=1), 2)", KEPT),
        ("User", "Admin(name='Ada')", REFUSED),
        ("list[User]", "[Admin(name='Ada')]", REFUSED),
        ("Admin", "Admin(name='Ada')", KEPT),
        ("User", "{'name': 'Ada'}", REFUSED),
        ("User", "User.model_construct(name=5)", REFUSED),
        ("User", "Address('High')", REFUSED),
        ("Numbers", "Numbers([1, 2])", KEPT),
        ("Doubling", "Doubling(number=1)", REFUSED),
        ("Hidden", "Hidden(word='s3cret')", REFUSED),
        ("SecretStr", "SecretStr('s3cret')", UNDECLARED),
        ("Annotated[str, Secret]", "'s3cret'", KEPT),
        ("Cat | Dog", "Cat()", KEPT),
        ("Cat | Dog", "Dog(tricks=['sit'])", KEPT),
        ("Cat | Dog | None", "None", KEPT),
        ("Cat | Dog", "{'kind': 'cat'}", REFUSED),
        ("Cat | Dog", "User()", REFUSED),
        ("Pet", "Dog()", KEPT),
        ("list[Pet]", "[Cat(lives=7), Dog(kind='dog')]", KEPT),
        ("dict[str, Pet | None]", "{'a': Cat(), 'b': None}", KEPT),
        ("list[Cat | Dog]", "[Cat(lives=7), Dog()]", KEPT),
        ("User | str", "'Ada'", KEPT),
        ("User | str", "User(name='Ada')", KEPT),
        ("User | int", "True", REFUSED),
        ("date | str | User", "'2030-01-02'", REFUSED),
        ("UUID | str | User", "UUID(int=7)", KEPT),
        ("UUID | str | User", "str(UUID(int=7))", REFUSED),
        ("Annotated[str, AfterValidator(str.upper)] | None | User", "'a'", REFUSED),
        ("Annotated[User, AfterValidator(lambda user: None)] | None", "User()", REFUSED),
        ("Left | Right", "Right(number=1)", REFUSED),
        ("Cat | Point", "Cat()", UNDECLARED),
        ("Cat | Order", "Cat()", UNDECLARED),
    ],
    "Constraints": [
        ("Annotated[int, Field(ge=0)]", "0", KEPT),
        ("Annotated[int, Field(ge=0)]", "-1", REFUSED),
        ("Annotated[int, Field(ge=0)]", "'5'", REFUSED),
        ("PositiveInt", "1", KEPT),
        ("PositiveInt", "0", REFUSED),
        ("PositiveInt", "True", REFUSED),
        ("PositiveInt | None", "None", KEPT),
        ("list[PositiveInt]", "[1, 0]", REFUSED),
        ("Annotated[int, Ge(0)]", "-1", REFUSED),
        ("Annotated[list[int], Len(1, 2)]", "[1, 2, 3]", REFUSED),
        ("Annotated[int, msgspec.Meta(ge=0)]", "0", KEPT),
        ("Annotated[int, msgspec.Meta(ge=0)]", "-1", REFUSED),
        ("list[Annotated[str, msgspec.Meta(max_length=2)]]", "['abc']", REFUSED),
        ("Annotated[str, StringConstraints(max_length=2)]", "'ab'", KEPT),
        ("Annotated[str, StringConstraints(max_length=2)]", "'abc'", REFUSED),
        ("Annotated[str, StringConstraints(to_lower=True)]", "'ab'", KEPT),
        ("Annotated[str, StringConstraints(to_lower=True)]", "'AB'", REFUSED),
        ("Annotated[int, AfterValidator(abs)]", "1", KEPT),
        ("Annotated[int, AfterValidator(abs)]", "-1", REFUSED),
        ("AwareDatetime", "datetime(2030, 1, 2, tzinfo=UTC)", KEPT),
        ("AwareDatetime", "datetime(2030, 1, 2)", REFUSED),
        ("Counted", "Counted(0)", KEPT),
        ("Counted", "Counted(-1)", REFUSED),
        ("Annotated[User, Field(description='who')]", "User(name='Ada')", KEPT),
        ("Annotated[int, Field(ge=0), msgspec.Meta(le=9)]", "1", UNDECLARED),
        ("Annotated[Point, Field(description='where')]", "Point(1.0)", UNDECLARED),
    ],
}

INTRODUCTION = """
What becomes of {count} values, as arguments and as results. A value is *kept*: the handler, or the code that asks
for the result, receives an equal value of the same type, and pydantic models with the same fields set. Or it is
*refused*, with an error that names the parameter or the result and says what to do, as the table shows: where the
task is declared (`ConfigurationError`), at the enqueue (`ArgumentsError`), or where the handler returns it
(`ResultEncodingError`; the job is dead). Four kinds of values become another, and the table says which: an `int`
for a `float` or a `Decimal`, a `tuple` for a `list`, a datetime with a named zone, which keeps its offset, and one
without a zone that has a fold.

A test runs each row and writes this page. [Pass arguments](../howto/arguments.md) explains the rules. The tables
use these classes:
"""

ALL = [pytest.param(*case, id=f"{case[0]} of {case[1]}") for cases in CASES.values() for case in cases]


def taking(annotation: str) -> Arguments:
    def handler(value): ...

    handler.__annotations__["value"] = eval(annotation)
    return Arguments(handler, task="demo")


def returning(annotation: str) -> Arguments:
    def handler(): ...

    handler.__annotations__["return"] = eval(annotation)
    return Arguments(handler, task="demo")


def as_argument(annotation: str, value: Any) -> Any:
    taken = taking(annotation)
    return taken.decode(taken.encode((value,), {}))["value"]


def as_result(annotation: str, value: Any) -> Any:
    taken = returning(annotation)
    return decode_result(taken.results.encode(value), taken.result_type)


def written_out(value: Any) -> str:
    """Return a value with the types of all that is in it, and the fields of models that were set."""
    shown = repr(value).replace("TzInfo(0)", "datetime.timezone.utc")
    models = [f"{type(each).__name__} {sorted(each.model_fields_set)}" for each in models_in(value)]
    return f"{type(value)} {shown} {models}"


def models_in(value: Any) -> Iterator[pydantic.BaseModel]:
    if isinstance(value, pydantic.RootModel):
        return
    if isinstance(value, pydantic.BaseModel):
        yield value
        value = dict(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from models_in(each)


def verdict_on(there_and_back: Callable[[str, Any], Any], annotation: str, value: str) -> tuple[str, str]:
    """Return what becomes of a value, and what the error says that is to be done."""
    given = eval(value)
    try:
        received = there_and_back(annotation, given)
    except ConfigurationError as error:
        return UNDECLARED, remedy_in(str(error))
    except (ArgumentsError, ResultEncodingError) as error:
        return REFUSED, remedy_in(str(error))
    return (KEPT, "") if written_out(received) == written_out(given) else (written_out(received), "")


def remedy_in(said: str) -> str:
    assert re.match(r"(argument|parameter) 'value' of demo |the result,? |demo returns ", said), said
    assert "\n" not in said
    problem, semicolon, remedy = said.rpartition("; ")
    assert problem, said
    assert semicolon
    return remedy


@pytest.mark.parametrize("there_and_back", [as_argument, as_result])
@pytest.mark.parametrize(("annotation", "value", "expected"), ALL)
def test_a_value_is_kept_exactly_or_refused_with_a_remedy(there_and_back, annotation, value, expected):
    """Nothing is converted in silence: what does not stay as it is, is widened as the table says, or refused."""
    verdict, _ = verdict_on(there_and_back, annotation, value)
    if expected in {KEPT, REFUSED, UNDECLARED}:
        assert verdict == expected
    else:
        assert verdict == written_out(eval(expected))


def test_the_page_of_types_is_as_the_code_is():
    """With WRITE_DOCS=1 it is written anew, so that this holds."""
    page = "\n".join(lines_of_the_page())
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, (
        "write it anew: WRITE_DOCS=1 make test ARGS=tests/unit/model/test_types_table.py"
    )


def lines_of_the_page() -> Iterator[str]:
    yield "# Argument and result types"
    yield ""
    yield from INTRODUCTION.format(count=sum(map(len, CASES.values()))).strip().splitlines()
    yield ""
    yield "```python"
    yield from shown_source()
    yield "```"
    for heading, cases in CASES.items():
        yield ""
        yield f"## {heading}"
        yield ""
        yield "| annotation | value | as an argument | as a result |"
        yield "|------------|-------|----------------|-------------|"
        for annotation, value, expected in cases:
            ways = [cell(way, annotation, value, expected) for way in (as_argument, as_result)]
            yield f"| {code(annotation)} | {code(value)} | {' | '.join(ways)} |"
    yield ""


def cell(way: Callable[[str, Any], Any], annotation: str, value: str, expected: str) -> str:
    verdict, remedy = verdict_on(way, annotation, value)
    if remedy:
        return f"{verdict}: {remedy.replace('|', chr(92) + '|')}"
    return verdict if expected == KEPT else f"becomes {code(expected)}"


def code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def shown_source() -> Iterator[str]:
    own = inspect.getsource(inspect.getmodule(shown_source))
    classes = own.split("# -- shown on the page ")[1].partition("\n")[2].partition("# -- the cases")[0]
    yield "from dataclasses import dataclass, field"
    yield "from enum import Enum, Flag, IntEnum, StrEnum"
    yield "from typing import Annotated, Literal, NamedTuple, NewType, NotRequired, TypedDict"
    yield ""
    yield "import msgspec"
    yield "import pydantic"
    yield "from pydantic import Field, SecretStr"
    yield ""
    yield ""
    yield from classes.strip().splitlines()
