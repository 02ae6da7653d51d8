"""What the tests of joined transactions on PostgreSQL do and look at."""

import psycopg

from connections import for_libpq
from standfast import Standfast
from standfast.stores.contract import count_states


def make_app(url, **settings):
    app = Standfast(url, **settings)

    @app.task
    def pack(order: int) -> None: ...

    return app


def jobs(app):
    return sum(app.call(count_states(app.verbs)).values())


def sql(url, statement):
    """Run a statement beside all transactions, and return its rows if there are any."""
    with psycopg.connect(**for_libpq(url), autocommit=True) as look:
        cursor = look.execute(statement)
        return cursor.fetchall() if cursor.description else []


def pack(app, own, order=1, **options):
    return own.enqueue(app.tasks["pack"], options=options, order=order)
