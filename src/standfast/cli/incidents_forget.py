"""`standfast incidents forget`: a person has read them, and wants to see them no more."""

import click

from standfast.cli.casebook import find_incident, read_casebook, read_since
from standfast.cli.confirming import confirm
from standfast.cli.connection import Wanted, about_a_store
from standfast.cli.failures import wrong_usage
from standfast.cli.options import examples, tz_option, yes_option
from standfast.cli.output import say, say_json
from standfast.incidents.book import forget_incidents
from standfast.store.errand import run_errand
from standfast.words import counted


@click.command(
    epilog=examples(
        "standfast incidents forget 3c2d1e0f",
        "standfast incidents forget --before 7d",
        "standfast incidents forget --all --yes",
    )
)
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--before", metavar="TIME", help="Those that last happened before this: 7d, or a date; after asking.")
@click.option("--all", "everything", is_flag=True, help="All incidents, after asking.")
@tz_option
@yes_option
@about_a_store
def forget(
    wanted: Wanted, /, *, ids: tuple[str, ...], before: str | None, everything: bool, tz: str | None, yes: bool
) -> None:
    """Forget incidents and their evidence in the store.

    Folders on the machines where they happened stay until they are too many or too old.
    """
    if sum(map(bool, (ids, before, everything))) != 1:
        raise wrong_usage("give the ids of incidents, or --before, or --all, and only one of these")
    until = read_since("--before", before, tz)
    with wanted.store() as backend:
        kept = read_casebook(backend)
        if ids:
            chosen = [find_incident(wanted, backend, kept, each) for each in ids]
        else:
            chosen = [incident for incident in kept if until is None or incident.last_at < until]
        if chosen and not ids and not yes:
            confirm(f"Forget {counted(len(chosen), 'incident')}?")
        names = list(dict.fromkeys(incident.id for incident in chosen))
        run_errand(backend.run, forget_incidents(backend.verbs, names))
    if wanted.as_json:
        say_json({"forgotten": names})
    else:
        say(f"{counted(len(names), 'incident')} forgotten." if names else "No incident matches.")
