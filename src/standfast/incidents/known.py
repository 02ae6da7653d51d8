"""The secrets of the jobs of an incident: the store has them apart in each payload, and no evidence may."""

from collections.abc import Iterable
from typing import Any

import msgspec

from standfast.codec import NO_SECRETS, Scrub
from standfast.codec.redaction import scrub_of, texts_in
from standfast.core.incident import Evidence, InvolvedJob
from standfast.core.job import Job
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store

_MOST_JOBS = 50
"""Jobs whose payloads are read for it."""


class _Payload(msgspec.Struct):
    secret: dict[str, Any] = {}


@errand
def secrets_of(verbs: Store, jobs: Iterable[InvolvedJob]) -> Verbs[Scrub]:
    """Return what removes the secret arguments of jobs, as far as these are in the store."""
    secrets: set[str] = set()
    for job_id in list(dict.fromkeys(job.job_id for job in jobs))[:_MOST_JOBS]:
        job: Job | None = yield verbs.get(job_id)
        if job is not None and b'"secret"' in job.payload:
            secrets.update(texts_in(_secret_part(job.payload)))
    return scrub_of(secrets) if secrets else NO_SECRETS


def without(scrub: Scrub, evidence: Evidence) -> Evidence:
    """Return evidence without these secrets; the same where it has none of them."""
    cleaned = Evidence({name: scrub.text(text) for name, text in evidence.parts.items()}) if scrub else evidence
    return evidence if cleaned == evidence else cleaned


def _secret_part(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=_Payload).secret
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}  # what cannot be read was given to no handler
