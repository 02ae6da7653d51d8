"""`ctx.cursor`: a value that a job saves for its later attempts."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar, overload

import msgspec

from standfast.awaiting import must_not_block
from standfast.codec import decode_result
from standfast.core.memo import Memo
from standfast.durable.positions import (
    CURSOR,
    OnVersion,
    OnVersionWord,
    Position,
    check_on_version,
    check_version,
    encode,
    from_bytes,
    other_version,
    to_bytes,
)
from standfast.durable.recall import Recall
from standfast.errors import CursorError, PayloadError

T = TypeVar("T")

_PLAIN = (str, int, float, bool, list, dict, type(None))
"""What JSON carries as it is: a default of such a type says nothing about what was saved."""


class Cursor:
    """One value of the job, which outlives the attempt. Every member may be used from any thread."""

    def __init__(self, recall: Recall) -> None:
        self._waiting = recall.waiting
        self._recall = recall
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
        if self._saved is None and not self._recall.is_done:
            must_not_block("ctx.cursor.load()", "await ctx.cursor.aload()", CursorError)
        known = self._saved or self._stored(self._recall.get())
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
        known = self._saved or self._stored(await self._recall.aget())
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
        self._answer = self._waiting.notebook.write(Memo(CURSOR, body), hurry=False)

    def flush(self) -> None:
        """Wait until the store has what was saved last. Raises LostClaimError where the job is another's by now."""
        must_not_block("ctx.cursor.flush()", "await ctx.cursor.aflush()", CursorError)
        if (answer := self._hurried()) is not None:
            self._waiting.answer(answer)

    async def aflush(self) -> None:
        """Wait until the store has what was saved last, without blocking the event loop."""
        if (answer := self._hurried()) is not None:
            await self._waiting.await_answer(answer)

    def _hurried(self) -> "Future[None] | None":
        """Have what was saved go now; return what tells of it."""
        if self._saved is not None and self._answer is not None and not self._answer.done():
            self._answer = self._waiting.notebook.write(Memo(CURSOR, to_bytes(self._saved)))
        return self._answer

    def _stored(self, memos: Mapping[str, bytes]) -> Position | None:
        body = memos.get(CURSOR)
        return None if body is None else from_bytes("ctx.cursor", body)

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
