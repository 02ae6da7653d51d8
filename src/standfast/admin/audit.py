"""What was done by whom."""

from datetime import datetime
from typing import Annotated

import msgspec

from standfast.admin.audit_trail import read_trail
from standfast.admin.executor import OperationContext
from standfast.admin.fields import AnswerStruct, Limit, RequestStruct, Word
from standfast.admin.operation import reads
from standfast.model.phrases import Phrase, stored_phrase

Place = Annotated[str, msgspec.Meta(max_length=20, extra_json_schema={"pattern": r"^(|[0-9]{1,9}\.[0-9]{1,3})$"})]


class AuditAsked(RequestStruct, frozen=True, kw_only=True):
    """One page of what was done, the newest first; `before` is the `next` of the page before."""

    before: Place | None = None
    who: Word | None = None
    what: Word | None = None
    limit: Limit = 50


class EntrySeen(AnswerStruct, frozen=True, kw_only=True):
    """Who did what, when, and how it was before and after."""

    at: datetime
    who: str
    what: str
    asked: dict[str, str]
    before: Phrase | None
    after: Phrase | None
    error: Phrase | None
    by: str


class AuditSeen(AnswerStruct, frozen=True, kw_only=True):
    """What was done."""

    entries: tuple[EntrySeen, ...]
    next: str | None = None


# What was done by whom.

_RULES = ("rule_problem", "above_takes")
_WORDS = ("refused", "noted", *_RULES, "refusal", "state", "schedule_state", "role_name", "severity_name")
"""Of what is written down."""


@reads("audit.list", "/audit")
async def list_audit(desk: OperationContext, asked: AuditAsked) -> AuditSeen:
    """List what was done by whom, the newest first."""
    page = await desk.ask(
        read_trail(desk.verbs, asked.before or None, limit=asked.limit, who=asked.who or "", what=asked.what or "")
    )
    entries = tuple(
        EntrySeen(
            at=each.at,
            who=each.who,
            what=each.what,
            asked=dict(each.asked),
            before=_told(each.before),
            after=_told(each.after),
            error=_told(each.error),
            by=each.by,
        )
        for each in page.entries
    )
    return AuditSeen(entries=entries, next=page.next)


def _told(text: str | None) -> Phrase | None:
    return None if text is None else stored_phrase(text, *_WORDS)
