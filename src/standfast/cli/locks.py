"""`standfast locks`: who holds which lock; taking one from who does."""

from datetime import datetime

import click

from standfast.admin.fields import Named
from standfast.admin.locks import LockSeen, list_locks, release_lock
from standfast.cli.connection import StoreOptions, examples, store_options, yes_option
from standfast.cli.exit_codes import say_failed
from standfast.cli.inputs import confirm
from standfast.cli.output import Column, cut, say, say_json, say_table
from standfast.model.display import counted, dated, one_line


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
    seen = wanted.run(list_locks)
    if wanted.as_json:
        say_json(seen.locks)
    elif not seen.locks:
        say("No lock was held in the last 30 days.")
    else:
        say_table(seen.locks, _columns(seen.now))


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
    with wanted.admin() as admin:
        held = [] if yes else [lock for lock in admin.run(list_locks).locks if lock.name == name and lock.holders]
        if held and not held[0].session:
            owners = held[0].holders
            names = ", ".join(one_line(holder.owner) for holder in owners)
            say_failed(f"lock '{name}' is held by {names}, which may go on for a while beside the next holder")
            confirm(f"Take it from {counted(len(owners), 'holder')}?")
        done = admin.run(release_lock, Named(name=name))
    if wanted.as_json:
        say_json(done)
    elif done.released:
        say(f"Lock '{one_line(name)}' was taken from {counted(len(done.released), 'holder')}.")
    else:
        say(f"Nobody holds lock '{one_line(name)}'.")


def _holders(lock: LockSeen) -> list[str]:
    return [*(each.owner for each in lock.holders), *([lock.session] if lock.session else [])]


def _columns(now: datetime) -> list[Column[LockSeen]]:
    return [
        Column("LOCK", lambda lock: cut(lock.name), shrinks=True),
        Column("HELD", lambda lock: f"{len(_holders(lock))}/{lock.places}", justify="right"),
        Column("BY", lambda lock: cut(", ".join(_holders(lock))), shrinks=True),
        Column("SINCE", lambda lock: _since(lock, now)),
        Column("WAITING", lambda lock: str(lock.waiting), justify="right"),
        Column("LAST TOKEN", lambda lock: str(lock.last_token), justify="right", from_width=110),
    ]


def _since(lock: LockSeen, now: datetime) -> str:
    return dated(min(each.since for each in lock.holders), now) if lock.holders else ""
