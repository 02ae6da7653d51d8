"""What is accepted is what the handler receives; anything else is refused by name before it is stored."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Optional
from uuid import UUID

import msgspec
import pytest

from standfast.context import Context
from standfast.errors import ArgumentsError, ConfigurationError, PayloadError, ResultEncodingError
from standfast.model.arguments import Arguments
from standfast.model.codec import MAX_BYTES, decode_result, encode_result
from standfast.model.outcomes import Snooze
from standfast.model.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Callable


class Colour(Enum):
    RED = "red"


class Shade(StrEnum):
    DARK = "dark"


@dataclass(frozen=True)
class Address:
    street: str
    numbers: list[int]


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


def arguments(fn: "Callable[..., Any]", version: int = 1) -> Arguments:
    return Arguments(fn, task="demo", version=version)


def round_trip(annotation: Any, value: Any) -> Any:
    def handler(value): ...

    handler.__annotations__["value"] = annotation
    taken = arguments(handler)
    return taken.decode(taken.encode((value,), {}))["value"]


def send(to: str, count: int = 1, *, subject: str = "hi") -> str:
    return f"{to} {count} {subject}"


def test_the_payload_is_the_documented_envelope_and_holds_only_what_was_given():
    payload = arguments(send, version=3).encode(("a",), {"subject": "x"})
    assert msgspec.json.decode(payload) == {"v": 3, "args": {"to": "a", "subject": "x"}}


def test_decoding_leaves_defaults_to_the_handler():
    taken = arguments(send)
    assert taken.decode(taken.encode(("a",), {})) == {"to": "a"}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "naïve ☂"),
        (int, -5),
        (int, 2**70 + 1),
        (Any, 2**70 + 1),
        (float, 2.5),
        (float, 3),
        (bool, True),
        (bytes, b"\x00\xff"),
        (type(None), None),
        (datetime, datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
        (datetime, datetime(2030, 1, 2)),  # noqa: DTZ001 - a naive one stays naive
        (date, date(2030, 1, 2)),
        (timedelta, timedelta(days=-1, microseconds=7)),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (Colour, Colour.RED),
        (Shade, Shade.DARK),
        (Address, Address("High", [1, 2])),
        (Point, Point(1.0)),
        (list[Point], [Point(1.0), Point(2.0, 3.0)]),
        (dict[int, set[str]], {1: {"a"}}),
        (tuple[int, str], (1, "a")),
        (int | None, None),
        (Annotated[int, msgspec.Meta(gt=0)], 1),
        (Any, {"a": [1, 2.5, None, True]}),
    ],
)
def test_a_value_arrives_as_it_was_given(annotation, value):
    assert round_trip(annotation, value) == value


@pytest.mark.parametrize("value", [(1, 2), [1, 2]])
def test_a_tuple_may_arrive_as_a_list(value):
    assert round_trip(list[int], value) == [1, 2]
    assert round_trip(Any, {"deep": [value]}) == {"deep": [[1, 2]]}


def test_a_dataclass_with_a_tuple_for_a_list_is_accepted():
    assert round_trip(Address, Address("High", (1, 2))) == Address("High", [1, 2])


def test_unannotated_parameters_take_any_json_value():
    def handler(anything): ...

    taken = arguments(handler)
    assert taken.decode(taken.encode(({"a": 1},), {})) == {"anything": {"a": 1}}


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "needs 'to', which has no default; pass it"),
        (("a",), {"to": "b"}, "got 'to' twice"),
        (("a",), {"cc": "b"}, "has no parameter 'cc'"),
        (("a", 1, "x"), {}, "takes 2 positional arguments, not 3"),
        ((5,), {}, "argument 'to' of demo does not fit: Expected `str`, got `int`"),
        (("a", "5"), {}, "argument 'count' of demo does not fit: Expected `int`, got `str`"),
        (("a", True), {}, "argument 'count' of demo does not fit: Expected `int`, got `bool`"),
        ((object(),), {}, "argument 'to' of demo cannot be stored as JSON"),
        (("\ud800",), {}, "argument 'to' of demo cannot be stored as JSON"),
        ((datetime(2030, 1, 1, tzinfo=UTC),), {}, "argument 'to' of demo was given as datetime but would arrive"),
        ((Colour.RED,), {}, "argument 'to' of demo was given as Colour but would arrive as str"),
        ((b"raw",), {}, "argument 'to' of demo was given as bytes but would arrive as str"),
    ],
)
def test_bad_arguments_are_refused_by_name(args, kwargs, said):
    with pytest.raises(ArgumentsError, match=said):
        arguments(send).encode(args, kwargs)


def test_missing_arguments_are_named_in_the_order_of_the_signature():
    def book(when: str, at: str, blob: bytes, note: str = "") -> None: ...

    with pytest.raises(
        ArgumentsError, match=r"^demo needs 'when', 'at', 'blob', which have no default; pass them$"
    ):
        arguments(book).encode((), {})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, math.nan),
        (float | None, math.nan),
        (Any, math.nan),
        (Any, [1.0, math.inf]),
        (Any, {1: "number as a key"}),
        (Any, {"when": date(2030, 1, 1)}),
        (Any, Point(1.0)),
        (Any, {1, 2}),
        (datetime, "2030-01-01T00:00:00Z"),
        (list[str], [UUID(int=1)]),
        (Address, {"street": "High", "numbers": []}),
        (Annotated[int, msgspec.Meta(gt=0)], 0),
    ],
)
def test_a_value_that_would_arrive_changed_is_refused(annotation, value):
    with pytest.raises(ArgumentsError, match="argument 'value' of demo"):
        round_trip(annotation, value)


def test_the_place_inside_an_argument_is_named():
    with pytest.raises(
        ArgumentsError, match=r"argument 'value' of demo does not fit \(inside it, at numbers\[1\]\)"
    ):
        round_trip(Address, Address("High", [1, "two"]))


def test_a_value_that_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ArgumentsError, match="argument 'value' of demo cannot be stored"):
        round_trip(Any, loop)


def test_a_payload_over_the_limit_is_refused_and_one_below_it_is_not():
    with pytest.raises(ArgumentsError, match=r"1,048,600 bytes.*1,048,576.*pass a reference"):
        arguments(send).encode(("a" * (MAX_BYTES + 24 - len(b'{"v":1,"args":{"to":""}}')),), {})
    arguments(send).encode(("a" * (MAX_BYTES - 24),), {})


def with_args(*args: int) -> None: ...
def with_kwargs(**kwargs: int) -> None: ...
def positional_only(a: int, /) -> None: ...


@pytest.mark.parametrize(
    ("fn", "said"), [(with_args, r"\*args"), (with_kwargs, r"\*\*kwargs"), (positional_only, "a: int")]
)
def test_parameters_without_a_name_are_refused_at_declaration(fn, said):
    with pytest.raises(ConfigurationError, match=f"demo declares {said}.*give each parameter a name"):
        arguments(fn)


def test_a_type_that_json_cannot_tell_apart_is_refused_at_declaration():
    def handler(value: list[int] | set[int]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"type that JSON cannot carry.*use plain types"):
        arguments(handler)


def context_first(ctx: Context, to: str) -> None: ...
def context_last(to: str, *, ctx: Context) -> None: ...
def context_optional(to: str, ctx: Context | None = None) -> None: ...
def context_old_style(to: str, ctx: Optional[Context] = None) -> None: ...  # noqa: UP045 - people write it


@pytest.mark.parametrize("fn", [context_first, context_last, context_optional, context_old_style])
def test_the_context_is_no_argument(fn):
    taken = arguments(fn)
    assert taken.context_parameter == "ctx"
    assert taken.decode(taken.encode(("a",), {})) == {"to": "a"}
    with pytest.raises(ArgumentsError, match="has no parameter 'ctx'"):
        taken.encode(("a",), {"ctx": None})


def test_two_contexts_are_refused():
    def handler(one: Context, two: Context) -> None: ...

    with pytest.raises(ConfigurationError, match="2 Context parameters; keep one"):
        arguments(handler)


def test_annotations_may_name_what_is_defined_later():
    def handler(later: "Later", ctx: "Context") -> "Later": ...  # noqa: F821 - defined below

    taken = arguments(handler)
    globals()["Later"] = Point
    try:
        assert taken.context_parameter == "ctx"
        assert taken.result_type is Point
        assert taken.decode(taken.encode((Point(1.0),), {})) == {"later": Point(1.0)}
    finally:
        del globals()["Later"]


def test_an_annotation_that_never_resolves_is_named_at_first_use():
    def handler(value: "Nowhere") -> None: ...  # noqa: F821 - the point of the test

    taken = arguments(handler)
    with pytest.raises(ConfigurationError, match="annotation of demo cannot be resolved: name 'Nowhere'"):
        taken.encode((1,), {})


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "does not fit demo"),
        (b'{"v":1,"args":', "does not fit demo"),
        (b"[]", "does not fit demo"),
        (b'{"v":1,"args":{}}', "missing required field `to`"),
        (b'{"v":1,"args":{"to":"a","gone":1}}', "unknown field `gone`"),
        (b'{"v":1,"args":{"to":7}}', "Expected `str`, got `int`"),
        (b'{"v":2,"args":{"to":"a"}}', "version 2 and demo knows up to 1; deploy the newer task"),
    ],
)
def test_a_payload_that_cannot_be_read_says_why(payload, said):
    with pytest.raises(PayloadError, match=said):
        arguments(send).decode(payload)


def test_an_older_payload_that_still_fits_is_read():
    assert arguments(send, version=2).decode(b'{"v":1,"args":{"to":"a"}}') == {"to": "a"}


@pytest.mark.parametrize(
    ("value", "kind"), [(None, type(None)), ("a", str), (Point(1.0), Point), ([1, 2], list[int]), ({"a": 1}, Any)]
)
def test_a_result_comes_back_typed(value, kind):
    assert decode_result(encode_result(value), kind) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [(object(), "of type object, cannot be stored as JSON"), ("x" * MAX_BYTES, "return a reference")],
)
def test_a_result_that_cannot_be_stored_says_why(value, said):
    with pytest.raises(ResultEncodingError, match=said):
        encode_result(value)


def test_a_result_of_another_type_is_not_passed_off_as_the_annotated_one():
    with pytest.raises(PayloadError, match="return annotation: Expected `int`, got `str`"):
        decode_result(b'"a"', int)


def test_outcomes_are_no_part_of_the_result_type():
    def sometimes() -> int | Snooze: ...
    def never() -> Snooze: ...
    def unsaid(): ...

    assert arguments(sometimes).result_type is int
    assert arguments(never).result_type is Any
    assert arguments(unsaid).result_type is Any


def test_arguments_of_a_person_are_read_as_the_handler_receives_them():
    def report(ctx: Context, day: date, to: str = "all", token: Annotated[str, Secret] = "") -> None: ...

    taken = arguments(report)
    raw = {"day": msgspec.Raw(b'"2026-02-03"'), "token": msgspec.Raw(b'"s3cret"')}
    assert taken.read((), raw) == {"day": date(2026, 2, 3), "token": "s3cret"}
    assert taken.read((raw["day"],), {}) == {"day": date(2026, 2, 3)}
    with pytest.raises(ArgumentsError, match="argument 'day' of demo does not fit"):
        taken.read((msgspec.Raw(b"3"),), {})
    with pytest.raises(ArgumentsError, match="demo needs 'day'"):
        taken.read((), {})
    with pytest.raises(ArgumentsError, match="argument 'token' of demo, a secret, does not fit") as refused:
        taken.read((raw["day"],), {"token": msgspec.Raw(b"12345")})
    assert "12345" not in str(refused.value)


def test_an_integer_of_so_many_digits_is_read_back_or_refused() -> None:
    """A sign counts as a digit: one more was accepted, and its job was dead where it should have run."""

    def f(number: int) -> int: ...

    arguments = Arguments(f, task="f")
    for number in (-(10**4298), 10**4299):
        assert arguments.decode(arguments.encode((number,), {})) == {"number": number}
        assert decode_result(arguments.results.encode(number), int) == number
    with pytest.raises(ArgumentsError, match="argument 'number' of f does not fit"):
        arguments.encode((-(10**4299),), {})
    with pytest.raises(ResultEncodingError, match="out of range"):
        arguments.results.encode(-(10**4299))


def test_a_set_of_what_arrives_as_lists_is_refused_by_name() -> None:
    """A list is no member of a set, so nothing could be read back."""

    def f(plain: int, pairs: set[Any]) -> None: ...

    with pytest.raises(ArgumentsError, match=r"argument 'pairs' of f does not fit.*unhashable"):
        Arguments(f, task="f").encode((1, {(1, 2)}), {})
