"""A secret argument is stored apart, and no text of ours has it."""

import json
import logging
import sys
import traceback
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from standfast import ArgumentsError, Secret
from standfast.errors import PayloadError
from standfast.model.arguments import Arguments
from standfast.model.secrets import MASK, NO_SECRETS, Scrub

TOKEN = "tok-'12\"3\\45/ü"


@dataclass
class Login:
    user: str
    password: Annotated[str, Secret]


@dataclass(slots=True)
class Slotted:
    user: str


@dataclass(slots=True)
class Derived(Slotted):
    password: str


class Loose(Slotted):
    """Has a slot from another class, and a `__dict__`."""

    def __init__(self, user: str, password: str) -> None:
        super().__init__(user)
        self.password = password


class Sealed(msgspec.Struct):
    login: Login


class Named(NamedTuple):
    token: Annotated[str, Secret()]


class Typed(TypedDict):
    token: Annotated[str, Secret]


class Model(pydantic.BaseModel):
    token: Annotated[str, Secret]


class Outer(pydantic.BaseModel):
    models: list[Model]


@dataclass
class Tree:
    children: "list[Tree]"


Token = NewType("Token", Annotated[str, Secret])


def call(user: str, token: Annotated[str, Secret], note: str = "") -> None: ...


def arguments(fn: Any = call, **how: Any) -> Arguments:
    return Arguments(fn, task="demo", **how)


def taking(annotation: Any) -> Arguments:
    def handler(value, shown=1): ...

    handler.__annotations__["value"] = annotation
    return arguments(handler)


def test_a_secret_is_stored_apart():
    payload = arguments().encode(("ada",), {"token": "abc"})
    assert payload == b'{"v":1,"args":{"user":"ada"},"secret":{"token":"abc"}}'
    assert arguments().decode(payload) == {"user": "ada", "token": "abc"}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Annotated[str, Secret], "abcd"),
        (Annotated[str, Secret()], "abcd"),
        (Annotated[int | None, Secret], None),
        (Annotated[str, Secret] | None, "abcd"),
        (list[Annotated[str, Secret]], ["abcd"]),
        (dict[str, dict[str, Annotated[bytes, Secret]]], {"a": {"b": b"c"}}),
        (Login, Login("ada", "abcd")),
        (Sealed, Sealed(Login("ada", "abcd"))),
        (list[Sealed] | None, [Sealed(Login("ada", "abcd"))]),
        (Named, Named("abcd")),
        (Typed, {"token": "abcd"}),
        (Model, Model(token="abcd")),
        (Outer, Outer(models=[Model(token="abcd")])),
        (Token, "abcd"),
    ],
)
def test_a_type_with_a_secret_anywhere_inside_is_secret_as_a_whole(annotation, value):
    taken = taking(annotation)
    payload = taken.encode((value,), {})
    assert msgspec.json.decode(payload)["args"] == {}
    assert taken.decode(payload) == {"value": value}


@pytest.mark.parametrize(
    ("annotation", "value"), [(str, "a"), (Any, "a"), (Tree, Tree([Tree([])])), (list[Any], [])]
)
def test_other_types_are_not(annotation, value):
    assert b"secret" not in taking(annotation).encode((value,), {})


def test_without_its_secret_a_payload_has_no_secret_part():
    def handler(user: str, token: Annotated[str, Secret] = "") -> None: ...

    assert arguments(handler).encode(("ada",), {}) == b'{"v":1,"args":{"user":"ada"}}'
    assert arguments(handler).decode(b'{"v":1,"args":{"user":"ada"}}') == {"user": "ada"}


class Known(StrEnum):
    ADA = "ada"


class Far(Enum):
    AWAY = "away"


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, 123456),
        (int, "hidden-word"),
        (Known, "hidden-word"),
        (Literal["a", "b"], "hidden-word"),
        (Any, {"hidden-word"}),
        (str, b"hidden-word"),
        (str, "hidden-word \ud800"),
        (str, object()),
        (Login, {"user": "ada", "password": "hidden-word"}),
        (Model, {"token": "hidden-word"}),
        (str, ["hidden-word", float("nan")]),
    ],
)
def test_no_error_at_the_enqueue_tells_a_secret(annotation, value):
    with pytest.raises(ArgumentsError, match="argument 'value' of demo") as refused:
        taking(Annotated[annotation, Secret]).encode((value,), {})
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)
    told = "".join(traceback.format_exception(refused.value))
    assert "hidden-word" not in told
    assert "123456" not in told


@pytest.mark.parametrize(
    ("annotation", "stored"),
    [
        (int, '"hidden-word"'),
        (Known, '"hidden-word"'),
        (Model, '{"token": ["hidden-word"]}'),
        (str, "[hidden-word"),
    ],
)
def test_no_error_at_the_worker_tells_a_secret(annotation, stored):
    with pytest.raises(PayloadError, match="does not fit demo") as failed:
        taking(Annotated[annotation, Secret]).decode(
            f'{{"v":1,"args":{{}},"secret":{{"value":{stored}}}}}'.encode()
        )
    assert "hidden-word" not in "".join(traceback.format_exception(failed.value))


def test_a_parameter_that_is_secret_no_more_is_still_kept_out_of_errors():
    with pytest.raises(PayloadError, match="Invalid enum value '••••'") as failed:
        taking(Known).decode(b'{"v":1,"args":{},"secret":{"value":"hidden-word"}}')
    assert (failed.value.__cause__, failed.value.__context__) == (None, None)


# -- texts ------------------------------------------------------------------------------------------------------


def forms(secret: str) -> dict[str, str]:
    return {
        "plain": f"it is {secret}.",
        "repr": repr(secret),
        "repr of a repr": repr(repr(secret)),
        "in a list": repr([f"{secret}'\""]),
        "ascii": ascii(secret),
        "json": json.dumps({"a": secret}),
        "json of json": json.dumps(json.dumps(secret)),
        "utf-8 json": json.dumps(secret, ensure_ascii=False),
        "bytes": repr(secret.encode()),
        "hex": f"x{secret.encode().hex()}",
        "HEX": secret.encode().hex().upper(),
        "key error": str(KeyError(secret)),
        "twice": f"{secret}{secret}",
    }


@pytest.mark.parametrize("form", forms(TOKEN))
def test_a_secret_is_found_however_it_is_written(form):
    cleaned = Scrub([TOKEN]).text(forms(TOKEN)[form])
    assert MASK in cleaned
    assert "tok-" not in cleaned
    assert "45" not in cleaned
    assert "746f6b" not in cleaned.lower()


def test_a_secret_is_found_in_a_url():
    assert Scrub(["a b/c+d"]).text("?x=a%20b/c%2Bd&y=a%20b%2Fc%2Bd&z=a+b%2Fc%2Bd") == "?x=••••&y=••••&z=••••"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\xffbytes\x00", repr(b"\xffbytes\x00")),
        (b"readable", "readable"),
        (b"readable", b"readable".hex()),
        (123456, "123456"),
        (Decimal("12.345"), "12.345"),
        (UUID(int=2**100), UUID(int=2**100).hex),
        (UUID(int=2**100), repr(UUID(int=2**100))),
        (Far.AWAY, "away"),
        (Far.AWAY, repr(Far.AWAY)),
        ({"name": ["deep", {"deeper"}]}, "deep deeper name"),
        (Login("adalovelace", "pass"), "adalovelace pass"),
        (Sealed(Login("adalovelace", "pass")), repr(Sealed(Login("adalovelace", "pass")))),
        (Outer(models=[Model(token="pass")]), "pass"),
        (Derived("adalovelace", "pass"), repr(Derived("adalovelace", "pass"))),
        (Loose("adalovelace", "pass"), "adalovelace pass"),
        (PurePosixPath("/away/p/ada"), "in /away/p/ada"),
        ("line one\n  line two", "| line one\n| line two"),
    ],
)
def test_each_text_of_which_a_value_consists_is_a_secret(value, text):
    cleaned = Scrub([value]).text(text)
    for word in (
        "bytes",
        "readable",
        b"readable".hex(),
        "123456",
        "12.345",
        UUID(int=2**100).hex,
        "away",
        "deep",
        "name",
        "ada",
        "pass",
        "line",
    ):
        assert word not in cleaned


def test_the_longer_secret_goes_first():
    assert Scrub(["pass", "password"]).text("password pass") == "•••• ••••"


@pytest.mark.parametrize("value", ["abc", True, None, 12, ""])
def test_what_is_too_short_or_common_stays(value):
    assert Scrub([value]).text("abc True None 12") == "abc True None 12"


def test_without_secrets_nothing_is_done():
    text = "as it is"
    assert not NO_SECRETS
    assert NO_SECRETS.text(text) is text


def test_an_argument_that_is_only_called_secret_is_none():
    def handler(secret: str) -> None: ...

    taken = arguments(handler)
    assert taken.scrub_for(taken.encode(("abcd",), {}), {"secret": "abcd"}) is NO_SECRETS


def record(message: str, *args: Any, error: BaseException | None = None, **extra: Any) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    return logging.getLogger("shop").makeRecord("shop", 20, __file__, 1, message, args, info, extra=extra)


def test_a_log_record_is_cleaned_for_all_who_hear_it():
    with pytest.raises(ValueError, match="tok-12345") as raised:
        int("tok-12345")
    extra = {"header": "tok-12345", "all": ["tok-12345"], "n": 5}
    made = record("sent %s to %s", "tok-12345", 7, error=raised.value, **extra)
    Scrub(["tok-12345"]).record(made)
    told = logging.Formatter("%(message)s %(header)s %(all)s %(n)d").format(made)
    assert told.startswith("sent •••• to 7 •••• ['••••'] 5\nTraceback (most recent call last):")
    assert told.endswith("invalid literal for int() with base 10: '••••'")
    assert "tok-12345" not in repr(vars(made))


def test_a_record_whose_arguments_do_not_fit_is_cleaned_all_the_same():
    made = record("sent %d", "tok-12345")
    Scrub(["tok-12345"]).record(made)
    assert made.getMessage() == "sent %d ('••••',)"


def test_without_secrets_a_record_stays_as_it_is():
    made = record("sent %s", "tok-12345")
    NO_SECRETS.record(made)
    assert (made.msg, made.args) == ("sent %s", ("tok-12345",))


def test_a_mark_must_be_importable_from_the_package():
    assert sys.modules["standfast"].Secret is Secret


def test_the_names_of_fields_are_no_secrets():
    """A traceback stays readable: only the values of a secret model are taken out of it."""

    def sign_in(login: Login) -> None: ...

    arguments = Arguments(sign_in, task="sign_in")
    payload = arguments.encode((Login("adalovelace", "hunter22"),), {})
    scrub = arguments.scrub_for(payload, arguments.decode(payload))
    assert scrub.text("user=adalovelace, password=hunter22") == f"user={MASK}, password={MASK}"
