"""`ctx.save_file` and `ctx.files`: the bytes go to the shelf, and then a memo to the store.

A file goes when the store is known to have a later one of its name, or to have forgotten the job. That its memo was
refused is no reason: an earlier try to write it may have been accepted, and only its answer lost.
"""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from standfast.awaiting import must_not_block
from standfast.core.job import ClaimRef
from standfast.core.memo import MEMOS_LIMIT, Memo
from standfast.durable.files import Kept, SavedFile, check_name, file_memo, files_among
from standfast.durable.recall import Recall
from standfast.durable.shelf import Shelf, Source
from standfast.errors import ArgumentsError


class Filing:
    """The files of one attempt. Every member may be used from any thread."""

    def __init__(self, recall: Recall, shelf: Shelf, ref: ClaimRef) -> None:
        self._waiting = recall.waiting
        self._recall = recall
        self._shelf = shelf
        self._ref = ref
        self._writing = threading.Lock()
        self._saved: dict[str, Kept] = {}

    def save(self, name: str, source: Source) -> SavedFile:
        """Save a file; when this returns, the store knows of it."""
        must_not_block("ctx.save_file()", "await ctx.asave_file()", ArgumentsError)
        kept = self._put(name, source)
        before, answer = self._write(kept)
        self._waiting.answer(answer)
        return self._settled(kept, before)

    async def asave(self, name: str, source: Source) -> SavedFile:
        """Save a file without blocking the event loop."""
        kept = await asyncio.to_thread(self._put, name, source)
        before, answer = self._write(kept)
        await self._waiting.await_answer(answer)
        return await asyncio.to_thread(self._settled, kept, before)

    def all(self) -> Mapping[str, SavedFile]:
        """Return the files of the job, those of earlier attempts included."""
        if not self._recall.is_done:
            must_not_block("ctx.files", "await ctx.afiles()", ArgumentsError)
        return self._known(self._recall.get())

    async def aall(self) -> Mapping[str, SavedFile]:
        """Return the files of the job without blocking the event loop."""
        return self._known(await self._recall.aget())

    def _put(self, name: str, source: Source) -> Kept:
        if check_name(name) not in self._saved and len(self._saved) >= MEMOS_LIMIT:
            raise ArgumentsError(
                f"a job keeps at most {MEMOS_LIMIT:,} files: put several into one, as in an archive"
            )
        return self._shelf.put(self._ref, name, source)

    def _write(self, kept: Kept) -> "tuple[Kept | None, Future[None]]":
        """Have the store told of a file; return which one of this attempt it takes the place of."""
        with self._writing:  # two threads may save one name: the last one to come here counts
            before = self._saved.get(kept.name)
            answer = self._waiting.notebook.write(file_memo(kept))
            self._saved[kept.name] = kept
        return before, answer

    def _settled(self, kept: Kept, before: Kept | None) -> SavedFile:
        if before is not None:
            self._shelf.drop(before)
        self._shelf.drop_earlier(self._ref, kept)
        return self._shelf.find(kept)

    def _known(self, memos: Mapping[str, bytes]) -> Mapping[str, SavedFile]:
        kept = {**files_among(Memo(name, body) for name, body in memos.items()), **self._saved}
        return {name: self._shelf.find(kept[name]) for name in sorted(kept)}
