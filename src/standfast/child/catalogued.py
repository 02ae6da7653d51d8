"""Publishes what the app of a worker consists of, beside its work, for those who have the store alone."""

import asyncio
import logging
import socket

from standfast.app import Standfast
from standfast.catalogue.book import FRESH_FOR, other_signatures, publish
from standfast.catalogue.publishing import Publisher, catalogue_of
from standfast.errors import StoreError
from standfast.settings import Loaded
from standfast.store.backend import Backend
from standfast.store.errand import arun_errand
from standfast.worker.worker import Worker

log = logging.getLogger(__name__)

TRY_AGAIN = 60.0
"""Seconds after which it is tried again where the store did not answer."""

AGAIN = FRESH_FOR.total_seconds() + TRY_AGAIN
"""Seconds after which a worker that still lives says so again: what nobody publishes is forgotten some day."""


async def keep_published(app: Standfast, target: str, loaded: Loaded, backend: Backend, worker: Worker) -> None:
    """Publish now, and once a day. It is for people alone: where it fails that is told, and the worker goes on."""
    who = Publisher(target, socket.gethostname())
    while True:
        try:
            catalogue = catalogue_of(app, loaded, who, worker.now())
            if await arun_errand(backend.arun, publish(backend.verbs, catalogue)):
                others = await arun_errand(backend.arun, other_signatures(backend.verbs, catalogue))
                for task, other in others.items():
                    log.warning(
                        "task %s has other parameters in %s: a worker of one may get jobs of the other; give one of"
                        " them another name=, or raise its version= if it is newer",
                        task,
                        other,
                    )
        except StoreError as error:
            log.warning("what this app consists of is not published yet, and is tried again: %s", error)
            await asyncio.sleep(TRY_AGAIN)
        except Exception:
            log.exception("what this app consists of could not be published")
            return
        else:
            await asyncio.sleep(AGAIN)
