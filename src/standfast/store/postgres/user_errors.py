"""What the libraries of the user raise becomes our own errors, whichever of them it was."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import DiagnosticField

from standfast.errors import (
    ConfigurationError,
    StandfastError,
    StoreUnavailableError,
    ValueNotStoredError,
)
from standfast.store.foreign import comes_from
from standfast.store.postgres.address import Address
from standfast.store.postgres.translate import translate

_LAYERS = ("sqlalchemy", "django")
_DRIVERS = ("psycopg", "asyncpg", "psycopg2")

NO_TRANSACTION = (
    "this connection is in autocommit mode and no transaction is open, so there is none to join: begin one, as in"
    " `with connection.transaction():` of psycopg and, with async, of asyncpg, `connection.autocommit = False` of"
    " psycopg2, `with transaction.atomic():` of Django, or `with engine.begin() as connection:` of SQLAlchemy"
)
FAILED = "a statement has failed in this transaction, which can only be rolled back: do that, and begin again"
CLOSED = "this connection is closed or lost: give one that is open"

_OF_THE_TRANSACTION = {
    "25P01": NO_TRANSACTION,
    "25P02": FAILED,
    "25006": "this transaction is read-only, or its server is a replica: give one that may write",
}
_REPEAT = {
    "40001": "another one changed the same rows at the same time",
    "40P01": "it and another one waited for each other",
}


@contextmanager
def translated(address: Address, *, is_async: bool) -> Iterator[None]:
    """Let no error of a driver, or of a layer above one, escape.

    Of the drivers only asyncpg raises OSErrors. In sync code an OSError comes from elsewhere: a signal handler may
    raise a TimeoutError, for example.
    """
    try:
        yield
    except StandfastError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and not is_async:
            raise
        told = _told(error, address)
        if told is None:
            raise
        raise told from error


def code_of(error: BaseException) -> str | None:
    """Return the state by which the server names an error, whatever driver brought it."""
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return found if isinstance(found, str) else None


def _told(error: Exception, address: Address) -> StandfastError | None:
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return _not_stored(error)
    if isinstance(error, OSError):
        return _lost(address)
    if any(comes_from(layer, error) for layer in _LAYERS):
        below = getattr(error, "orig", None) or error.__cause__
        return (isinstance(below, Exception) and _told(below, address)) or _unusable(error)
    if not any(comes_from(driver, error) for driver in _DRIVERS):
        return None
    code = code_of(error)
    return _without_code(error, address) if code is None else _with_code(error, code, address)


def _with_code(error: Exception, code: str, address: Address) -> StandfastError:
    if code in _OF_THE_TRANSACTION:
        return ConfigurationError(_OF_THE_TRANSACTION[code])
    if code in _REPEAT:
        return StoreUnavailableError(
            f"{address.name} refuses to go on with this transaction, as {_REPEAT[code]}: roll back and repeat it"
        )
    if code.startswith("22") and not isinstance(error, psycopg.Error):
        return _not_stored(error)
    return translate(_as_psycopg(error, code), address)


def _without_code(error: Exception, address: Address) -> StandfastError:
    """Return our error for what a driver raised by itself; the names of its classes are those of PEP 249."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "DataError" in names:
        return _not_stored(error)
    return _lost(address) if "OperationalError" in names else _unusable(error)


def _as_psycopg(error: Exception, code: str) -> psycopg.Error:
    if isinstance(error, psycopg.Error):
        return error
    words = getattr(getattr(error, "diag", None), "message_primary", None) or str(
        error.args[0] if error.args else ""
    )
    try:
        kind = psycopg.errors.lookup(code)
    except KeyError:
        kind = psycopg.errors.lookup("XX000")
    return kind(words, info={DiagnosticField.MESSAGE_PRIMARY: words.encode()}, encoding="utf-8")


def _not_stored(error: Exception) -> ValueNotStoredError:
    # Without its words: they may quote the value.
    return ValueNotStoredError(f"PostgreSQL cannot store a value of this call ({type(error).__name__})")


def _lost(address: Address) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"your connection to {address.name} is lost: open another, and repeat the transaction"
    )


def _unusable(error: Exception) -> ConfigurationError:
    words: Any = str(error).strip() or type(error).__name__
    return ConfigurationError(f"this connection cannot be used here: {words.splitlines()[0]}")
