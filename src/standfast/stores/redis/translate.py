"""Why a server and we do not come to terms over TLS, in words that say what to do. Pure."""

import re
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ClusterDownError,
    DataError,
    InvalidResponse,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from standfast.errors import StoreError, StoreFullError, StoreUnavailableError, ValueNotStoredError
from standfast.stores.redis.connect import ClosedError
from standfast.stores.redis.url import TLS_FILES, Address, Kind
from standfast.stores.refusals import brief, in_doubt, refuse_foreign

_ANOTHER_HOST = frozenset({62, 64})
"""Codes of OpenSSL: the certificate does not name the host, or not its address."""
_EXPIRED = 10
_UNREADABLE = frozenset({"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE", "PEM_LIB"})
"""Reasons that are about our own files, before anything was sent."""

_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

UNCERTAIN = "give ?ssl_certfile= and &ssl_keyfile= if it asks for a certificate of ours"
"""What may help where a server hangs up: whom it does not let in, it may not say so."""


def is_disagreement(error: ssl.SSLError) -> bool:
    """Tell whether trying again does not help: not where the line was cut, which TLS has errors of its own for."""
    return not isinstance(error, _HUNG_UP)


def disagreement(error: ssl.SSLError) -> str:
    """Return what is wrong and the remedy, to stand behind the name of the server."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error.verify_code)
    if reason in _UNREADABLE:
        return (
            "cannot be reached over TLS with these files: check that ssl_ca_certs and ssl_certfile hold"
            " certificates, and ssl_keyfile the key of ours"
        )
    if "ALERT" in reason:
        return (
            "does not take our part in TLS: where it asks for a certificate, give one that it trusts with"
            " ?ssl_certfile= and &ssl_keyfile= in the URL"
        )
    return f"and we do not agree on TLS ({reason}): check host and port, and write redis:// where it has no TLS"


def _distrust(code: int) -> str:
    if code in _ANOTHER_HOST:
        return (
            "has a certificate for another host: write the host that it names in the URL, or"
            " ?ssl_check_hostname=false where you trust the network"
        )
    if code == _EXPIRED:
        return "has a certificate that has expired: renew it there"
    return (
        "has a certificate of an authority that is not trusted here: name the file with the authority's own in"
        " the URL, as in ?ssl_ca_certs=/path/ca.pem"
    )


# The boundary: what the library raises becomes our own errors, one line with the server and what to do.

_CODES: Mapping[type[RedisError], str] = MappingProxyType(
    {
        MovedError: "MOVED",
        AskError: "ASK",
        TryAgainError: "TRYAGAIN",
        ReadOnlyError: "READONLY",
        MasterDownError: "MASTERDOWN",
        ClusterDownError: "CLUSTERDOWN",
        ClusterCrossSlotError: "CROSSSLOT",
        OutOfMemoryError: "OOM",
        BusyLoadingError: "LOADING",
        NoScriptError: "NOSCRIPT",
        NoPermissionError: "NOPERM",
        AuthenticationError: "WRONGPASS",
    }
)
_SAID = re.compile(r"^-?(?P<code>[A-Z]{2,}) ")
_SAID_IN_A_SCRIPT = re.compile(r"@user_script: ?\d+: -?(?P<code>[A-Z]{2,}) ")

_TLS_OR_NOT = "check host and port, and that rediss:// is written for TLS and redis:// without"
_SLOT_MOVES = "moves the slot of these jobs to another node: try again when it is done"

_SAYS: Mapping[str, tuple[type[StoreError], str]] = MappingProxyType(
    {
        "OOM": (
            StoreFullError,
            (
                "has no memory left, nothing of this call was stored: raise its `maxmemory`, or keep finished jobs"
                " for less time (maxmemory-policy stays noeviction)"
            ),
        ),
        "NOSPACE": (
            StoreFullError,
            "has no disk space left, nothing of this call was stored: make room on its disk",
        ),
        "MISCONF": (
            StoreUnavailableError,
            "cannot write its data to disk: mend that as its log says, then try again",
        ),
        "LOADING": (StoreUnavailableError, "loads its data from disk after a start: try again when it is done"),
        "READONLY": (
            StoreUnavailableError,
            "is a replica, which takes no writes: name the master in the URL, or wait for the failover",
        ),
        "MASTERDOWN": (
            StoreUnavailableError,
            "is a replica that has lost its master: name the master in the URL, or wait for the failover",
        ),
        "CLUSTERDOWN": (
            StoreUnavailableError,
            "is a cluster that does not serve all its slots: see `redis-cli --cluster check`",
        ),
        "TRYAGAIN": (StoreUnavailableError, _SLOT_MOVES),
        "ASK": (StoreUnavailableError, _SLOT_MOVES),
        "BUSY": (
            StoreUnavailableError,
            "is busy with a slow script of somebody else: try again, or end it with `redis-cli SCRIPT KILL`",
        ),
        "NOREPLICAS": (
            StoreUnavailableError,
            "has too few replicas to take a write: start them, or lower its `min-replicas-to-write`",
        ),
        "NOSCRIPT": (
            StoreUnavailableError,
            "forgets scripts as soon as they are loaded: stop whoever runs SCRIPT FLUSH, then try again",
        ),
        "MOVED": (StoreError, "is a node of a cluster: write redis+cluster:// in the URL, without a database"),
        "CROSSSLOT": (StoreError, "refuses keys of several slots: write redis+cluster:// in the URL"),
        "DENIED": (
            StoreError,
            "runs in protected mode: set `requirepass` there, and write the password in the URL",
        ),
        "WRONGTYPE": (StoreError, "has keys of somebody else by our names: name another database or namespace"),
        "NOAUTH": (StoreError, "asks for a password: write it in the URL, redis://user:password@host:6379/0"),
        "WRONGPASS": (
            StoreError,
            (
                "refuses the user or the password in the URL: check both; other characters than letters and digits"
                " are written as %40 for @, %2F for /, %23 for #"
            ),
        ),
        "NOPASSWORD": (
            StoreError,
            "has no password, and the URL gives one: leave it out, or set `requirepass` there",
        ),
        "NOPERM": (
            StoreError,
            (
                "does not let this user do what is needed: `ACL SETUSER <user> ~{standfast* +@read +@write"
                " +@scripting +@connection +select +cluster +time +info` lets it"
            ),
        ),
    }
)
"""What an error of the server means, by the word that it begins with."""

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "cluster support disabled": "is no cluster: write redis:// in the URL",
        "DB index is out of range": "has no database of this number: write a smaller one, or raise its `databases`",
        "SELECT is not allowed": _SAYS["MOVED"][1],
        "The user executing the script can't": _SAYS["NOPERM"][1],
        "unknown command": "lacks a command that is needed: use Redis 6.2 or newer, with EVALSHA and SCRIPT",
    }
)
"""What an error of the server without such a word means, by a part of it."""

_CAUSES: tuple[tuple[type[OSError], type[StoreError], str], ...] = (
    (socket.gaierror, StoreUnavailableError, "cannot be found, no address is known for the host: check its name"),
    (FileNotFoundError, StoreUnavailableError, "has no such socket: start the server, or check the path"),
    (PermissionError, StoreUnavailableError, "does not let this user open its socket: check its `unixsocketperm`"),
    (
        ConnectionRefusedError,
        StoreUnavailableError,
        "refused the connection: start the server, or check host and port",
    ),
    (
        TimeoutError,
        StoreUnavailableError,
        "did not answer within {timeout:g} s: check it and the network, try again",
    ),
)
"""What an error of the system means."""


_NO_FILE = (FileNotFoundError, PermissionError, IsADirectoryError)


class Translated:
    """Lets no error of the library escape from what is done within."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout

    def __enter__(self) -> None:
        """Do nothing: it may be entered anew at any time, by any thread."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.reword(error)

    def reword(self, error: BaseException | None) -> None:
        """Raise our error for one of the library's, if it is one."""
        if isinstance(error, UnicodeEncodeError):
            raise ValueNotStoredError(f"Redis cannot store a value of this call ({error.reason})") from error
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            refuse_foreign(error)
        if isinstance(error, RedisError | OSError):
            ours = translate(error, self._address, self._timeout)
            raise (in_doubt(ours) if is_left_open(error) else ours) from _cause(error)


def _cause(error: Exception) -> Exception | None:
    if "with args beginning" in str(error):
        return None  # a server that does not know a command repeats the arguments, payloads among them
    return brief(error) if is_cut(error) or code_of(error) else error


def code_of(error: Exception) -> str:
    """Return the word that a server's error begins with, also where a script passes it on; "" if there is none."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return _which_login(str(error)) if kind is AuthenticationError else code
    said = _SAID.search(str(error)) or _SAID_IN_A_SCRIPT.search(str(error))
    if said is None:
        return ""
    return "NOSPACE" if said["code"] == "MISCONF" and "No space left" in str(error) else said["code"]


def _which_login(text: str) -> str:
    if "Authentication required" in text:
        return "NOAUTH"
    return "NOPASSWORD" if "without any password" in text else "WRONGPASS"


def is_cut(error: Exception) -> bool:
    """Tell whether nothing more can come over the connection on which this happened."""
    return isinstance(error, RedisConnectionError | RedisTimeoutError | InvalidResponse | OSError)


def leave_open(error: Exception) -> None:
    """Mark the error of a call that the server may have carried out: no answer says whether it did."""
    error.is_left_open = True  # type: ignore[attr-defined] # they are of others


def is_left_open(error: Exception) -> bool:
    """Tell whether the server may have carried out the call that failed with this error."""
    return getattr(error, "is_left_open", False)


def translate(error: Exception, address: Address, timeout: float) -> StoreError:
    """Return our error for one of the library's."""
    name, code = f"Redis {address.name}", code_of(error)
    if code == "MOVED" and address.kind is Kind.CLUSTER:
        code = "TRYAGAIN"
    if code in _SAYS:
        kind, says = _SAYS[code]
        return kind(f"{name} {says}")
    if isinstance(error, ClosedError):
        return StoreError(f"the store on {name} was closed: open a new store")
    if isinstance(error, DataError):
        return ValueNotStoredError("Redis cannot store a value of this call: it is no text, number or bytes")
    if isinstance(error, InvalidResponse):
        return StoreError(f"{name} does not answer like a Redis: {_TLS_OR_NOT}")
    if is_cut(error):
        return _unreachable(error, name, address, timeout)
    text = " ".join(str(error).split())
    says = next((says for words, says in _WORDS.items() if words in text), f"refused a command ({text})")
    return StoreError(f"{name} {says}")


def _unreachable(error: Exception, name: str, address: Address, timeout: float) -> StoreError:
    if "max number of clients" in str(error):
        return StoreUnavailableError(f"{name} has too many clients: raise its `maxclients`, or try again")
    cause = TimeoutError() if isinstance(error, RedisTimeoutError) else _os_error(error)
    if isinstance(cause, _NO_FILE) and (files := [option for option in TLS_FILES if option in address.tls_options]):
        return StoreError(f"{name}: a file for TLS cannot be read: check the path in {' and '.join(files)}")
    if isinstance(cause, ssl.SSLError) and is_disagreement(cause):
        return StoreError(f"{name} {disagreement(cause)}")
    # A server without TLS waits for the rest of what it takes for a long command.
    also = f"; {_TLS_OR_NOT}" if address.tls and isinstance(cause, TimeoutError) else ""
    for kind, ours, says in _CAUSES:
        if isinstance(cause, kind):
            return ours(f"{name} {says.format(timeout=timeout)}{also}")
    certificate = f", and {UNCERTAIN}" if address.tls else ""
    return StoreUnavailableError(
        f"{name} closed the connection: see whether it was restarted, then try again; {_TLS_OR_NOT}{certificate}"
    )


def _os_error(error: BaseException | None) -> BaseException | None:
    """Return the error of the system behind one of the library's, which raises its own while handling that."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error
