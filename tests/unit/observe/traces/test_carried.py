"""What a payload carries is beside the arguments: without tracing there is nothing, not a byte."""

import json
from contextlib import closing
from typing import Annotated

import msgspec
import pytest

from standfast import Secret, Standfast
from standfast.admin.executor import AdminSession
from standfast.admin.fields import args_seen
from standfast.admin.job_details import changed_payload
from standfast.admin.jobs import WhichJob, show_job
from standfast.admin.operation import User
from standfast.model.arguments import Arguments
from standfast.model.codec import MOST, add_trace_context, read_trace_context, trace_id_in

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CARRIED = {"traceparent": PARENT, "tracestate": "shop=blue"}


def send(to: str, count: int = 1, token: Annotated[str, Secret] = "") -> None: ...


ARGUMENTS = Arguments(send, task="send")


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        ({"to": "a"}, b'{"v":1,"args":{"to":"a"}}'),
        ({"to": "a", "token": "hush-hush"}, b'{"v":1,"args":{"to":"a"},"secret":{"token":"hush-hush"}}'),
    ],
)
def test_without_tracing_a_payload_is_what_it_always_was(given, payload):
    """To the byte: releases that know nothing of traces wrote the same."""
    app = Standfast("memory://")
    task = app.task(send)
    assert task.enqueue(**given).job().payload == payload
    assert add_trace_context(payload, {}) == payload
    app.close()


@pytest.mark.parametrize("given", [{"to": "a"}, {"to": "a", "count": 2, "token": "hush-hush"}])
def test_what_is_carried_changes_no_argument(given):
    """The handler receives what was given, the views show it, and secrets stay secret."""
    payload = ARGUMENTS.encode((), given)
    carries = add_trace_context(payload, CARRIED)
    assert json.loads(carries) == {**json.loads(payload), "trace": CARRIED}
    assert ARGUMENTS.decode(carries) == ARGUMENTS.decode(payload) == given
    assert args_seen(carries) == args_seen(payload)
    assert read_trace_context(carries) == CARRIED
    assert trace_id_in(carries) == "0af7651916cd43dd8448eb211c80319c"
    assert bool(ARGUMENTS.scrub_for(carries)) == ("token" in given)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"v":1,"args":{"to":"a"}}',
        b'{"v":1,"args":{"to":",\\"trace\\":{"}}',
        b'{"v":1,"args":{"to":"a","trace":{"traceparent":"no"}}}',
        b'{"v":1,"args":{},"trace":{"traceparent":7}}',
        b'{"v":1,"args":{},"trace":{',
        b"no JSON",
        b"",
    ],
)
def test_a_payload_that_carries_nothing_readable_has_no_trace(payload):
    """An argument that is called so is an argument; what is broken is as if it were not there."""
    assert read_trace_context(payload) == {}
    assert trace_id_in(payload) is None


@pytest.mark.parametrize("parent", ["", "00-xyz", f"00-{'0' * 32}-b7ad6b7169203331-01", PARENT.upper()])
def test_a_trace_that_is_none_has_no_id(parent):
    assert trace_id_in(add_trace_context(b'{"v":1,"args":{}}', {"traceparent": parent})) is None


def test_too_much_is_not_carried_but_for_the_trace_itself():
    """A baggage of a megabyte would be stored with every job."""
    payload = b'{"v":1,"args":{}}'
    assert read_trace_context(add_trace_context(payload, {**CARRIED, "baggage": "x" * MOST})) == {
        "traceparent": PARENT
    }
    for name in ("baggage", "traceparent"):
        assert add_trace_context(payload, {name: "x" * MOST}) == payload
    assert add_trace_context(payload, {"traceparent": "x" * MOST, "baggage": "y"}) == payload


def test_it_is_found_behind_long_arguments():
    payload = ARGUMENTS.encode((), {"to": "x" * 100_000})
    assert read_trace_context(add_trace_context(payload, CARRIED)) == CARRIED


def test_changed_arguments_stay_in_their_trace():
    """Edit and retry goes on with the trace of the job, and the secret."""
    payload = add_trace_context(ARGUMENTS.encode((), {"to": "a", "token": "hush-hush"}), CARRIED)
    changed = changed_payload(payload, {"to": msgspec.Raw(b'"b"')}, whole=True)
    assert read_trace_context(changed) == CARRIED
    assert ARGUMENTS.decode(changed) == {"to": "b", "token": "hush-hush"}
    plain = ARGUMENTS.encode((), {"to": "a"})
    assert changed_payload(plain, {"to": msgspec.Raw(b'"a"')}, whole=True) == plain


def test_a_view_of_a_job_has_its_trace(stage):
    stage.app.task(send)
    with stage.tracer.start_as_current_span("request") as request:
        job = stage.app.tasks["send"].enqueue("a").job()
    with closing(AdminSession(stage.app, User("ada"), "test")) as admin:
        seen = admin.run(show_job, WhichJob(id=job.id))
    assert seen.trace_id == f"{request.get_span_context().trace_id:032x}"
    assert set(seen.args) == {"to"}
