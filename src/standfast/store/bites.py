"""Long lists in pieces that one statement can take."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_bites(things: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[list[T]]:
    """Yield things in their order, in lists of at most so much together; what is larger by itself comes alone."""
    bite: list[T] = []
    total = 0
    for thing, size in zip(things, sizes, strict=True):
        if bite and total + size > most:
            yield bite
            bite, total = [], 0
        bite.append(thing)
        total += size
    if bite:
        yield bite
