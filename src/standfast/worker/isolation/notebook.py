"""The notebook of an attempt in a cell: what is written and asked goes over the line to the worker, which saves it.

What the worker has heard is saved whatever becomes of the cell. What is in no hurry waits here while something is
on its way, so that a handler which writes all the time says little.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from standfast.durable.runtime import Notebook, pending
from standfast.errors import LostClaimError, StandfastError, StoreError, ValueNotStoredError
from standfast.model.job import ClaimRef
from standfast.model.memos import LAST_NUMBER, Memo, Save
from standfast.worker.isolation.messages import Asked, FromCell, Noted, Recalled, Wrote
from standfast.worker.progress import EndOfNotebook

T = TypeVar("T")

_ERRORS: dict[str, type[StandfastError]] = {
    error.__name__: error for error in (LostClaimError, ValueNotStoredError, StoreError)
}


class CellNotebook(EndOfNotebook):
    """The memos of one job, on the side of the cell."""

    def __init__(self, ref: ClaimRef, say: Callable[[FromCell], None]) -> None:
        super().__init__()
        self._ref = ref
        self._say = say
        self._changing = threading.Lock()
        self._tickets = 0
        self._answer = pending()
        self._writing: dict[int, tuple[tuple[Memo, ...], Future[None]]] = {}
        self._reading: dict[int, Future[Mapping[str, bytes]]] = {}

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Ask the worker for the memos as the store has them now."""
        answer: Future[Mapping[str, bytes]] = Future()
        answer.set_running_or_notify_cancel()
        with self._changing:
            self._tickets += 1
            ticket = self._tickets
            self._reading[ticket] = answer
        self._say(Asked(self._ref, ticket))
        return answer

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Have the worker write memos down."""
        with self._changing:
            self._gathered |= {memo.name: memo for memo in memos}
            answer = self._answer
            if hurry or not self._writing:
                self._send(hurry=hurry)
        return answer

    def _send(self, *, hurry: bool) -> None:
        """Say what has gathered: under the lock, so that the worker hears it in the order of the tickets."""
        self._tickets += 1
        memos = tuple(self._gathered.values())
        self._writing[self._tickets] = memos, self._answer
        self._gathered, self._answer = {}, pending()
        self._say(Wrote(self._ref, self._tickets, memos, hurry))

    def heed(self, answer: Noted | Recalled) -> None:
        """Pass on what the worker answers."""
        with self._changing:
            written = self._writing.pop(answer.ticket, None)
            read = self._reading.pop(answer.ticket, None)
            if self._gathered and not self._writing:
                self._send(hurry=False)
        error = _ERRORS.get(answer.kind, StoreError)(answer.error) if answer.error is not None else None
        if isinstance(answer, Recalled) and read is not None:
            _settle(read, {memo.name: memo.body for memo in answer.memos}, error)
        elif written is not None:
            _settle(written[1], None, error)

    def unwritten(self) -> Save | None:
        """Return all that the store is not known to have, to be written with the end of the claim."""
        last = {memo.name: memo for memo in self.last_words()}
        with self._changing:
            said = {memo.name: memo for written, _ in self._writing.values() for memo in written}
            memos = said | self._gathered | last
        return Save(self._ref, LAST_NUMBER, tuple(memos.values())) if memos else None

    def written(self) -> None:
        """Take note that the store has it all."""
        with self._changing:
            answers = [self._answer, *(answer for _, answer in self._writing.values())]
            self._writing, self._gathered, self._answer = {}, {}, pending()
        for answer in answers:
            answer.set_result(None)


def answer_cell(notebook: Notebook, message: Asked | Wrote, say: Callable[[Noted | Recalled], None]) -> None:
    """Do in the worker what a cell wants of its notebook, and say what came of it, on the event loop."""
    if isinstance(message, Wrote):
        notebook.write(*message.memos, hurry=message.hurry).add_done_callback(
            lambda done: say(Noted(message.ref, message.ticket, *_error_of(done.exception())))
        )
    else:
        notebook.read().add_done_callback(lambda done: say(_recalled(message, done)))


def _recalled(asked: Asked, done: "Future[Mapping[str, bytes]]") -> Recalled:
    error = done.exception()
    memos = () if error is not None else tuple(Memo(name, body) for name, body in done.result().items())
    return Recalled(asked.ref, asked.ticket, *_error_of(error), memos)


def _error_of(error: BaseException | None) -> tuple[str, str | None]:
    return ("", None) if error is None else (type(error).__name__, str(error))


def _settle(answer: "Future[T]", value: T, error: Exception | None) -> None:
    if error is None:
        answer.set_result(value)
    else:
        answer.set_exception(error)
