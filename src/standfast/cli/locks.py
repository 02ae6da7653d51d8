"""`standfast locks`: who holds which lock; taking one from who does."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from standfast.cli.connection import StoreOptions, examples, store_options, yes_option
from standfast.cli.exit_codes import say_failed
from standfast.cli.inputs import confirm
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.durable.lockstate import Holder, LockState, free, look_at_all
from standfast.durable.sessionlock import held_by_sessions
from standfast.errors import LockStateError
from standfast.model.display import counted, dated, one_line
from standfast.model.phrases import Phrase
from standfast.stores.verb import run_procedure

Named = tuple[str, LockState]


@click.group(
    invoke_without_command=True,
    epilog=examples("standfast locks", "standfast locks --json", "standfast locks release nightly"),
)
@click.pass_context
@store_options
def locks(_wanted: StoreOptions, ctx: click.Context) -> None:
    """List locks and semaphores, take one from its holder."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@locks.command("list", epilog=examples("standfast locks list", "standfast locks list --json"))
@store_options
def list_command(wanted: StoreOptions) -> None:
    """List every lock that was held in the last 30 days, by name.

    Of one that is held with session=True, its session at the PostgreSQL server is named.
    """
    with wanted.store() as backend:
        now, rolls = run_procedure(backend.run, look_at_all(backend.verbs))
        sessions = held_by_sessions(backend, tuple(rolls))
    if wanted.as_json:
        say_json(_fields(rolls, sessions))
    elif not rolls:
        say("No lock was held in the last 30 days.")
    else:
        say_table(list(rolls.items()), _columns(now, sessions))


@locks.command(epilog=examples("standfast locks release nightly", "standfast locks release nightly --yes --json"))
@click.argument("name")
@yes_option
@store_options
def release(wanted: StoreOptions, name: str, *, yes: bool) -> None:
    """Take a lock from all who hold it, after asking.

    A holder that lives goes on until it notices, within a third of the lock's ttl, beside the next one: only what
    checks tokens is safe from that. The lock of a dead holder ends by itself. One that is held with session=True is
    its session's, and ends with it.
    """
    with wanted.store() as backend:
        _, rolls = run_procedure(backend.run, look_at_all(backend.verbs, (name,)))
        if name not in rolls:
            raise LockStateError(f"there is no lock '{name}' in {wanted.place}: `standfast locks` lists them")
        if session := held_by_sessions(backend, (name,)).get(name):
            raise LockStateError(Phrase("refusal.lock_of_session", lock=name, session=session))
        holders = rolls[name].holders
        if holders and not yes:
            owners = ", ".join(one_line(holder.owner) for holder in holders)
            say_failed(f"lock '{name}' is held by {owners}, which may go on for a while beside the next holder")
            confirm(f"Take it from {counted(len(holders), 'holder')}?")
        was = run_procedure(backend.run, free(backend.verbs, name))
    taken = () if was is None else was.holders
    if wanted.as_json:
        say_json({"name": name, "released": [_holder(each) for each in taken]})
    elif taken:
        say(f"Lock '{one_line(name)}' was taken from {counted(len(taken), 'holder')}.")
    else:
        say(f"Nobody holds lock '{one_line(name)}'.")


def _fields(rolls: Mapping[str, LockState], sessions: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "places": roll.places,
            "holders": [_holder(each) for each in roll.holders],
            "session": sessions.get(name),
            "waiting": len(roll.line),
            "last_token": roll.last_token,
        }
        for name, roll in rolls.items()
    ]


def _holder(holder: Holder) -> dict[str, Any]:
    return {"token": holder.token, "owner": holder.owner, "since": holder.since, "until": holder.until}


def _columns(now: datetime, sessions: Mapping[str, str]) -> list[Column[Named]]:
    def holders(named: Named) -> list[str]:
        return [*(each.owner for each in named[1].holders), *([sessions[named[0]]] if named[0] in sessions else [])]

    return [
        Column("LOCK", lambda named: cut(named[0]), shrinks=True),
        Column("HELD", lambda named: f"{len(holders(named))}/{named[1].places}", justify="right"),
        Column("BY", lambda named: cut(", ".join(holders(named))), shrinks=True),
        Column("SINCE", lambda named: _since(named[1], now)),
        Column("WAITING", lambda named: str(len(named[1].line)), justify="right"),
        Column("LAST TOKEN", lambda named: str(named[1].last_token), justify="right", from_width=110),
    ]


def _since(roll: LockState, now: datetime) -> str:
    return dated(min(each.since for each in roll.holders), now) if roll.holders else ""
