"""The checkpoints of one attempt: its cursor, and the loops that it resumes."""

from collections.abc import AsyncIterable, Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from standfast.core.memo import MEMOS_LIMIT
from standfast.durable.cursor import Cursor
from standfast.durable.loops import Loops
from standfast.durable.positions import OnVersionWord, check_on_version, check_version, memo_of
from standfast.durable.recall import Recall
from standfast.durable.resuming import Plan, Resume
from standfast.errors import ArgumentsError, CursorError
from standfast.policy.reading import as_seconds, is_int, is_number

T = TypeVar("T")


class Checkpoints:
    """What an attempt saves of how far it got. Nothing is read or written before it is used."""

    def __init__(self, recall: Recall, loops: Callable[[], Loops]) -> None:
        self._recall = recall
        self._loops = loops
        self._names: set[str] = set()
        self.cursor = Cursor(recall)
        """The value that the handler itself loads and saves."""

    def resume(
        self,
        items: Iterable[T] | AsyncIterable[T],
        *,
        key: Callable[[T], Any] | None,
        every: int,
        seconds: timedelta | float,
        version: int,
        name: str,
        on_version: OnVersionWord,
    ) -> Resume[T]:
        """Return the items that are still to be done."""
        if not isinstance(items, Iterable | AsyncIterable):
            raise ArgumentsError(f"ctx.resume needs items to loop over, not {type(items).__name__}")
        if key is not None and not callable(key):
            raise ArgumentsError(f"key must be a function that gives the key of an item, not {key!r}")
        if not is_int(every) or every < 1:
            raise ArgumentsError(f"every must be a whole number of items, 1 or more, not {every!r}")
        check_version(version)
        plan = Plan(name, memo_of(name), key, every, _seconds(seconds), version, check_on_version(on_version))
        if name in self._names:
            raise CursorError(
                f"this handler resumes two loops as {name!r}, and one would go on where the other was: give each a"
                ' name, as in ctx.resume(items, name="orders")'
            )
        if len(self._names) >= MEMOS_LIMIT:
            raise CursorError(
                f"this handler resumes more than {MEMOS_LIMIT:,} loops, and each has a cursor of its own in the"
                " store: make one loop of them, or enqueue a job for each part"
            )
        self._names.add(name)
        return Resume(items, plan, self._recall, self._loops())


def _seconds(span: timedelta | float) -> float:
    seconds = as_seconds(span)
    if not is_number(seconds) or not seconds > 0:
        raise ArgumentsError(f"seconds must be a span greater than 0, not {span!r}")
    return float(seconds)
