"""What happens by itself to a store in the minutes after jobs were written, done at once.

Workers fold the counters of PostgreSQL as they go, and its server notes by itself which rows are dead and which
everybody sees. What is measured while it does that is the server's tidying, and not the pages.
"""

from places import Place
from standfast import Standfast


def settle(app: Standfast, place: Place) -> str:
    """Let a store come to rest; return in words what was done."""
    app.call(app.verbs.forget_results(1))
    if not place.url.startswith("postgresql"):
        return "as it was written"
    import psycopg  # noqa: PLC0415 - only where it is measured

    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    return "after VACUUM (ANALYZE), as autovacuum leaves it"
