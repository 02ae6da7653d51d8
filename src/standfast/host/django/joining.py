"""Whether a transaction of Django's can be joined: its database has to be the one that the jobs are in."""

from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from standfast.app import Standfast
from standfast.errors import ConfigurationError

_KNOWN: WeakKeyDictionary[Standfast, dict[tuple[str, str], bool]] = WeakKeyDictionary()
_LOOKING = Lock()


def in_transaction(connection: Any) -> bool:
    """Tell whether what is written through a connection waits for a commit.

    It does in an atomic block, and with autocommit off. A connection that nobody has used is not opened to see.
    """
    unused = connection.connection is None
    commits = connection.settings_dict["AUTOCOMMIT"] if unused else connection.autocommit
    return bool(connection.in_atomic_block or not commits)


def begun(connection: Any) -> Any:
    """Return a connection whose transaction is open: SQLite's begins only with a write where autocommit is off."""
    connection.ensure_connection()
    if connection.vendor == "sqlite" and not connection.connection.in_transaction:
        connection._start_transaction_under_autocommit()  # noqa: SLF001 - in the mode that the settings say
    return connection


def can_join(app: Standfast, connection: Any) -> bool:
    """Tell whether jobs of this app can be part of the transaction that is open on a connection of Django's.

    It is found out by trying, once for each database. Raises TransactionManagementError where a query has failed in
    the atomic block, which Django will roll back.
    """
    connection.validate_no_broken_transaction()
    place = (connection.alias, str(connection.settings_dict["NAME"]))
    with _LOOKING:
        known = _KNOWN.setdefault(app, {})
    if place not in known:
        known[place] = _is_home(app, connection)
    return known[place]


def _is_home(app: Standfast, connection: Any) -> bool:
    """Look around through the connection, and change nothing."""
    if connection.vendor == "sqlite":
        app.prepare()  # its tables cannot be made inside a transaction
    try:
        app.call(app.verbs.glance(()), connection)
    except ConfigurationError:
        return False
    return True
