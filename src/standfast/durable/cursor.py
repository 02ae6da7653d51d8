"""How far a job got, as its memo has it: JSON, of a version that only code of the same version reads."""

from collections.abc import Mapping
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, Literal, TypeVar, overload

import msgspec

from standfast.durable.memo_cache import MemoCache, read_memo
from standfast.durable.runtime import Waiting
from standfast.errors import ArgumentsError, CursorError, PayloadError, ResultEncodingError
from standfast.model.codec import decode_result, encode_value
from standfast.model.concurrency import refuse_in_event_loop
from standfast.model.memos import MEMO_LIMIT, Memo
from standfast.model.validation import is_int

CURSOR = "cursor"
"""The name of the memo of `ctx.cursor`; those of `ctx.resume` have a name of their own after it."""

LONGEST_NAME = 100


class By(StrEnum):
    """How `ctx.resume` finds the item after which it goes on."""

    KEY = "key"
    INDEX = "index"


class OnVersion(StrEnum):
    """What becomes of a cursor that was saved under another version."""

    RAISE = "raise"
    RESTART = "restart"


OnVersionWord = Literal["raise", "restart"]


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cursor. Of `ctx.resume` it is the key of the last item that is done, and how many are done."""

    version: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    by: By | None = None
    done: int = 0


_position = msgspec.json.Decoder(Position)


def memo_of(name: str) -> str:
    """Return the name of the memo of a `ctx.resume` of this name."""
    if not name or ":" in name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ArgumentsError(
            f"a name for ctx.resume has 1 to {LONGEST_NAME} printable characters and no colon, not {name!r}"
        )
    return f"{CURSOR}:{name}"


def encode(what: str, value: Any) -> bytes:
    """Return a cursor's value as JSON. Raises CursorError, which names its type, if it cannot be stored."""
    try:
        return encode_value(value, what, "use", MEMO_LIMIT)
    except ResultEncodingError as error:
        raise CursorError(str(error)) from error.__cause__


def to_bytes(position: Position) -> bytes:
    """Return a cursor as its memo has it. Raises CursorError if it is too large."""
    body = msgspec.json.encode(position)
    if len(body) > MEMO_LIMIT:
        raise CursorError(
            f"the cursor takes {len(body):,} bytes and at most {MEMO_LIMIT:,} are stored; save what is needed to"
            " find the place again, and keep the rest elsewhere"
        )
    return body


def read_position(name: str, body: bytes) -> Position:
    """Return what a memo has of a cursor."""
    return read_memo(_position, name, body)


def check_version(version: int) -> None:
    """Refuse what is no version."""
    if not is_int(version) or version < 1:
        raise ArgumentsError(f"version must be a whole number, 1 or more, not {version!r}")


def check_on_version(word: str) -> OnVersion:
    """Return what becomes of a cursor of another version. Refuses what is no such word."""
    try:
        return OnVersion(word)
    except ValueError:
        raise ArgumentsError(f'on_version must be "raise" or "restart", not {word!r}') from None


def other_version(name: str, saved: int, version: int) -> CursorError:
    """Return the error of a cursor that other code has saved."""
    return CursorError(
        f"{name} was saved under version {saved}, and this code has version {version}: it is not used. Pass"
        ' on_version="restart" to begin anew with such jobs, or run them with the code of that version'
    )


T = TypeVar("T")

_PLAIN = (str, int, float, bool, list, dict, type(None))
"""What JSON carries as it is: a default of such a type says nothing about what was saved."""


class Cursor:
    """One value of the job, which outlives the attempt. Every member may be used from any thread."""

    def __init__(self, waiting: Waiting, memos: MemoCache) -> None:
        self._waiting = waiting
        self._memos = memos
        self._version = 1
        self._saved: Position | None = None
        self._answer: Future[None] | None = None

    @overload
    def load(
        self, default: None = None, *, type: None = None, version: int = 1, on_version: OnVersionWord = "raise"
    ) -> Any: ...

    @overload
    def load(
        self, default: Any = None, *, type: type[T], version: int = 1, on_version: OnVersionWord = "raise"
    ) -> T: ...

    @overload
    def load(
        self, default: T, *, type: None = None, version: int = 1, on_version: OnVersionWord = "raise"
    ) -> T: ...

    def load(
        self,
        default: Any = None,
        *,
        type: Any = None,  # noqa: A002 - the word that msgspec uses too
        version: int = 1,
        on_version: OnVersionWord = "raise",
    ) -> Any:
        """Return what was saved last, by this attempt or one before; `default` where nothing was.

        It comes back as `type` or, without one, as the class of the default if that is one of your own, else as
        plain JSON. The store is asked once in an attempt, and this thread waits for it: in async code `aload`.

        A cursor that was saved under another version raises CursorError, or is left aside with
        `on_version="restart"`. What is saved after this has its `version`.
        """
        if self._saved is None and not self._memos.is_read:
            refuse_in_event_loop("ctx.cursor.load()", "await ctx.cursor.aload()", CursorError)
        known = self._saved or self._stored(self._memos.get(self._waiting))
        return self._value(known, default, type, version, on_version)

    @overload
    async def aload(
        self, default: None = None, *, type: None = None, version: int = 1, on_version: OnVersionWord = "raise"
    ) -> Any: ...

    @overload
    async def aload(
        self, default: Any = None, *, type: type[T], version: int = 1, on_version: OnVersionWord = "raise"
    ) -> T: ...

    @overload
    async def aload(
        self, default: T, *, type: None = None, version: int = 1, on_version: OnVersionWord = "raise"
    ) -> T: ...

    async def aload(
        self,
        default: Any = None,
        *,
        type: Any = None,  # noqa: A002 - the word that msgspec uses too
        version: int = 1,
        on_version: OnVersionWord = "raise",
    ) -> Any:
        """Return what was saved last, as `load` does, without blocking the event loop."""
        known = self._saved or self._stored(await self._memos.aget(self._waiting))
        return self._value(known, default, type, version, on_version)

    def save(self, value: Any) -> None:
        """Save a value for later attempts; it takes the place of the one before. Returns at once, from any thread.

        It is in the store a moment later, and surely when the attempt ends: saved in a loop, only the latest value
        goes there each time. `flush` waits for it. Raises CursorError, which names the type, for what JSON cannot
        carry or what is too large, and LostClaimError where the job is known to be another's.
        """
        position = Position(self._version, msgspec.Raw(encode("cursor", value)))
        body = to_bytes(position)
        if self._answer is not None and self._answer.done():
            self._answer.result()
        self._saved = position
        self._answer = self._waiting.port.notebook.write(Memo(CURSOR, body), hurry=False)

    def flush(self) -> None:
        """Wait until the store has what was saved last. Raises LostClaimError where the job is another's by now."""
        refuse_in_event_loop("ctx.cursor.flush()", "await ctx.cursor.aflush()", CursorError)
        if (answer := self._hurried()) is not None:
            self._waiting.answer(answer)

    async def aflush(self) -> None:
        """Wait until the store has what was saved last, without blocking the event loop."""
        if (answer := self._hurried()) is not None:
            await self._waiting.await_answer(answer)

    def _hurried(self) -> "Future[None] | None":
        """Have what was saved go now; return what tells of it."""
        if self._saved is not None and self._answer is not None and not self._answer.done():
            self._answer = self._waiting.port.notebook.write(Memo(CURSOR, to_bytes(self._saved)))
        return self._answer

    def _stored(self, memos: Mapping[str, bytes]) -> Position | None:
        body = memos.get(CURSOR)
        return None if body is None else read_position("ctx.cursor", body)

    def _value(
        self, known: Position | None, default: Any, kind: Any, version: int, on_version: OnVersionWord
    ) -> Any:
        check_version(version)
        restart = check_on_version(on_version) is OnVersion.RESTART
        self._version = version
        if known is None:
            return default
        if known.version != version:
            if not restart:
                raise other_version("ctx.cursor", known.version, version)
            self._waiting.host.log.warning(
                "begins anew: its cursor has version %d, and the code version %d", known.version, version
            )
            return default
        own = kind is None and default is not None and not isinstance(default, _PLAIN)
        try:
            return decode_result(bytes(known.value), type(default) if own else Any if kind is None else kind)
        except PayloadError as error:
            raise CursorError(
                f"ctx.cursor was saved as something else than {type(default) if own else kind}: {error.__cause__};"
                " give it another version"
            ) from error
