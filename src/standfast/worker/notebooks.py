"""What one attempt has written down and the store may not have yet.

gathered ─► under way ─► answered         a later writing of a name takes the place of what is gathered
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from standfast.core.memo import LAST_NUMBER, Memo, Save
from standfast.durable.notebook import LastWords, pending
from standfast.errors import LostClaimError
from standfast.worker.control import Control

log = logging.getLogger(__name__)


class EndOfNotebook(ABC):
    """What has gathered, and those who have a last word."""

    def __init__(self) -> None:
        self._gathered: dict[str, Memo] = {}
        self._at_end: list[LastWords] = []

    @abstractmethod
    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down."""

    def at_end(self, last_words: LastWords) -> None:
        """Ask this when the attempt ends."""
        self._at_end.append(last_words)

    def last_words(self) -> list[Memo]:
        """Return what is left to write, as far as it can be told."""
        memos: list[Memo] = []
        for tell in self._at_end:
            try:
                memos += tell()
            except Exception:  # values of the user's are encoded there
                log.exception("how far a handler got cannot be written down")
        return memos

    def take_last_words(self) -> None:
        """Write what is left, by those who have asked to be asked, and what has waited for others until now."""
        memos = self.last_words()
        if memos or self._gathered:
            self.write(*memos)


class ClaimNotebook(EndOfNotebook):
    """The notebook of one claim, in the process of its worker.

    `wake` hears that something was gathered, and whether it is in a hurry; `ask` reads the memos of a job.
    """

    def __init__(
        self,
        control: Control,
        wake: Callable[["ClaimNotebook", bool], None],
        ask: Callable[[str], "Future[Mapping[str, bytes]]"],
    ) -> None:
        super().__init__()
        self.control = control
        self.ref = control.claim.ref
        self._wake = wake
        self._ask = ask
        self._changing = threading.Lock()
        self._answer = pending()
        self._under_way: tuple[Save, Future[None]] | None = None
        self._number = 0

    def read(self) -> "Future[Mapping[str, bytes]]":
        """Return the memos by name as the store has them now."""
        return self._ask(self.ref.job_id)

    def write(self, *memos: Memo, hurry: bool = True) -> "Future[None]":
        """Write memos down with the next save."""
        with self._changing:
            first = not self._gathered
            self._gathered |= {memo.name: memo for memo in memos}
            answer = self._answer
        if first or hurry:
            self._wake(self, hurry)
        return answer

    @property
    def unanswered(self) -> "Future[None] | None":
        """The future of what was written last; None once the store has everything."""
        with self._changing:
            if self._gathered:
                return self._answer
            return None if self._under_way is None else self._under_way[1]

    def next_save(self) -> Save | None:
        """Return what is to be sent now: the same save until it is answered, then what has gathered since."""
        with self._changing:
            if self._under_way is None and self._gathered:
                self._number += 1
                save = Save(self.ref, self._number, tuple(self._gathered.values()))
                self._under_way = save, self._answer
                self._gathered, self._answer = {}, pending()
            return None if self._under_way is None else self._under_way[0]

    def answered(self, error: Exception | None = None) -> None:
        """Take note of what the store said to the save that was under way."""
        with self._changing:
            sent, self._under_way = self._under_way, None
        if sent is not None:
            _settle(sent[1], error)

    def unwritten(self) -> Save | None:
        """Return all that the store is not known to have, to be written with the end of the claim."""
        last = {memo.name: memo for memo in self.last_words()}
        with self._changing:
            sent = () if self._under_way is None else self._under_way[0].memos
            memos = {memo.name: memo for memo in sent} | self._gathered | last
        return Save(self.ref, LAST_NUMBER, tuple(memos.values())) if memos else None

    def written(self) -> None:
        """Take note that the store has it all."""
        with self._changing:
            answers = [self._answer, *([] if self._under_way is None else [self._under_way[1]])]
            self._gathered, self._answer = {}, pending()
        for answer in answers:
            _settle(answer)


def _settle(answer: "Future[None]", error: Exception | None = None) -> None:
    with suppress(InvalidStateError):  # a transaction of the handler may have written it meanwhile, in its thread
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)


def lost(job_id: str) -> LostClaimError:
    """Return the error of a write that the store refused."""
    return LostClaimError(f"job {job_id} was lost to another worker, which goes on with it; end the handler")
