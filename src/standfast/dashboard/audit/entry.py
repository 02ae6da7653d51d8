"""One thing that somebody did."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """Who did what, when by the store's time, and how it was before and after, as far as that can be told.

    `asked` is what the operation was asked, without anything secret; `error` says why it was not done. `id` is
    given when it is written down: that is how it is told from others, and not written twice. `so_far` is for the
    operation itself: where it goes on, if it is not done.
    """

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    who: str
    what: str
    asked: Mapping[str, str] = {}
    before: str | None = None
    after: str | None = None
    error: str | None = None
    by: str = "page"
    id: str = ""
    so_far: str = ""
