"""Whose code it is that raised or blocks: the attempt behind a task, a callback or a thread, where that is known.

Code of an attempt finds it in a context variable, which its coroutines and its thread have by themselves. A thread
that a handler starts has it only in newer Pythons, so it is noted who started it (`logtail.py`); such a thread may
outlive its attempt.
"""

import asyncio
import gc
import threading
from contextvars import Context

import msgspec

from standfast.codec import Scrub
from standfast.core.incident import InvolvedJob
from standfast.durable.here import attempt_here
from standfast.worker.logtail import Logged, starter_noted


class Whose(msgspec.Struct, frozen=True):
    """The attempt that something belongs to, and what takes its secrets out of a text."""

    job: InvolvedJob
    scrub: Scrub


def attempt_of(attempt: Logged | None) -> Whose | None:
    """Return an attempt in few words: what is kept of it must not keep its arguments."""
    if attempt is None:
        return None
    claim = attempt.claim
    return Whose(InvolvedJob(claim.job_id, claim.fence, claim.task, claim.attempt + 1), attempt.scrub)


def attempt_behind(thing: object) -> Whose | None:
    """Return the attempt in whose context a task or a callback of the event loop runs."""
    get_context = getattr(thing, "get_context", None)
    if get_context is not None:
        context = get_context()
    elif isinstance(thing, asyncio.Task | asyncio.Handle):
        # Python 3.11 has no word for it; but what a thing refers to can be asked for.
        context = next((each for each in gc.get_referents(thing) if isinstance(each, Context)), None)
    else:
        context = None
    return None if context is None else attempt_of(context.get(attempt_here))


def starter_of(thread: threading.Thread | None) -> Whose | None:
    """Return the attempt that has started a thread."""
    return attempt_of(starter_noted(thread))
