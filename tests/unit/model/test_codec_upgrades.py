"""Payloads of older versions are brought up step by step before they are read."""

import traceback
from typing import Annotated, Any

import msgspec
import pytest

from standfast import ConfigurationError, Secret, Standfast
from standfast.errors import PayloadError
from standfast.model.arguments import Arguments


def send(to: str, subject: str) -> None: ...


def call(user: int, token: Annotated[str, Secret]) -> None: ...


def arguments(fn: Any = send, version: int = 3) -> Arguments:
    return Arguments(fn, task="demo", version=version)


def payload(version: int, args: dict[str, Any], **more: Any) -> bytes:
    return msgspec.json.encode({"v": version, "args": args, **more})


def named(args: dict[str, Any]) -> dict[str, Any]:
    return {"to": args["address"]}


def titled(args: dict[str, Any]) -> dict[str, Any]:
    args["subject"] = f"for {args['to']}"
    return args


def test_an_older_payload_goes_through_each_step():
    taken = arguments()
    taken.upgrades.declare(2, titled)
    taken.upgrades.declare(1, named)
    assert taken.decode(payload(1, {"address": "a"})) == {"to": "a", "subject": "for a"}
    assert taken.decode(payload(2, {"to": "b"})) == {"to": "b", "subject": "for b"}
    assert taken.decode(payload(3, {"to": "c", "subject": "s"})) == {"to": "c", "subject": "s"}


def test_a_step_without_an_upgrade_leaves_the_arguments_as_they_are():
    taken = arguments()
    taken.upgrades.declare(2, titled)
    assert taken.decode(payload(1, {"to": "a"})) == {"to": "a", "subject": "for a"}
    with pytest.raises(PayloadError, match="unknown field `address`"):
        taken.decode(payload(1, {"to": "a", "address": "a"}))


def test_a_damaged_version_far_below_one_costs_no_time():
    taken = arguments()
    taken.upgrades.declare(1, named)
    with pytest.raises(PayloadError, match="missing required field `subject`"):
        taken.decode(payload(-(10**15), {"address": "a"}))


def test_an_upgraded_payload_is_checked_like_any_other():
    taken = arguments()
    taken.upgrades.declare(2, lambda args: {**args, "subject": 7})
    with pytest.raises(PayloadError, match="does not fit demo: Expected `str`, got `int`"):
        taken.decode(payload(2, {"to": "a"}))


def broken(args: dict[str, Any]) -> dict[str, Any]:
    raise KeyError(args["to"])


@pytest.mark.parametrize(
    ("upgrade", "said"),
    [
        (broken, "the upgrade of demo from version 2 to 3 failed: KeyError: 'a'; correct it"),
        (lambda _args: None, "the upgrade of demo from version 2 to 3 returned NoneType, not a dict"),
        (list, "returned list, not a dict"),
        (lambda _args: {1: 2}, "returned dict, not a dict of arguments by name"),
        (lambda _args: {"to": object()}, "does not fit demo: objects of type object have no JSON form"),
    ],
)
def test_an_upgrade_that_fails_makes_the_payload_unreadable(upgrade, said):
    taken = arguments()
    taken.upgrades.declare(2, upgrade)
    with pytest.raises(PayloadError, match=said):
        taken.decode(payload(2, {"to": "a"}))


def test_where_an_upgrade_failed_can_be_seen():
    taken = arguments()
    taken.upgrades.declare(2, broken)
    with pytest.raises(PayloadError) as failed:
        taken.decode(payload(2, {"to": "a"}))
    assert "in broken" in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (3, "has version 3, so there is nothing to upgrade from version 3 to"),
        (4, "nothing to upgrade from version 4"),
        (0, "an integer from 1, not 0"),
        ("1", "an integer from 1, not '1'"),
        (True, "an integer from 1, not True"),
        (1, "already has an upgrade from version 1"),
    ],
)
def test_an_upgrade_that_makes_no_sense_is_refused_at_declaration(version, said):
    taken = arguments()
    taken.upgrades.declare(1, named)
    with pytest.raises(ConfigurationError, match=said):
        taken.upgrades.declare(version, titled)


async def awaited(args: dict[str, Any]) -> dict[str, Any]:
    return args


@pytest.mark.parametrize("upgrade", [awaited, None, 5])
def test_an_upgrade_is_a_plain_function(upgrade):
    with pytest.raises(ConfigurationError, match="must be a plain function"):
        arguments().upgrades.declare(1, upgrade)


def test_a_task_declares_its_upgrades_as_decorators():
    with Standfast("memory://") as app:
        task = app.task(version=2)(send)
        assert task.upgrade(1)(titled) is titled
        assert task.arguments.decode(payload(1, {"to": "a"})) == {"to": "a", "subject": "for a"}


def test_an_upgrade_without_its_version_is_refused():
    """As a bare decorator it would take the function for the version, and declare nothing."""
    with Standfast("memory://") as app:
        task = app.task(version=2)(send)
        with pytest.raises(ConfigurationError, match=r"write @send\.upgrade\(1\), with the version"):
            task.upgrade(titled)


def test_secrets_stay_secrets_through_upgrades():
    """An upgrade sees them among the others; what becomes of them is stored nowhere, and told by no error."""
    taken = arguments(call, version=2)
    taken.upgrades.declare(1, lambda args: {"user": args["user"], "token": args["key"]})
    old = payload(1, {"user": 7}, secret={"key": "tok-12345"})
    assert taken.decode(old) == {"user": 7, "token": "tok-12345"}
    assert taken.scrub_for(old, taken.decode(old)).text("sent tok-12345") == "sent ••••"


def test_a_failing_upgrade_tells_no_secret():
    taken = arguments(call, version=2)

    def failing(args: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"bad {args['token']}")

    taken.upgrades.declare(1, failing)
    with pytest.raises(PayloadError, match="failed: ValueError: bad ••••") as failed:
        taken.decode(payload(1, {"user": 7}, secret={"token": "tok-12345"}))
    assert (failed.value.__cause__, failed.value.__context__) == (None, None)


def test_a_parameter_may_become_secret():
    """What was stored openly before is read all the same, and kept out of texts from now on."""
    taken = arguments(call, version=1)
    old = payload(1, {"user": 7, "token": "tok-12345"})
    assert taken.decode(old) == {"user": 7, "token": "tok-12345"}
    assert taken.scrub_for(old).text("tok-12345") == "••••"
