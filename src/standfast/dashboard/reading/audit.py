"""What was done by whom."""

from standfast.dashboard.audit.trail import read_trail
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.shapes.audit import AuditAsked, AuditSeen, EntrySeen
from standfast.phrases import Phrase, stored_phrase

_RULES = ("rule_problem", "above_takes")
_WORDS = ("refused", "noted", *_RULES, "refusal", "state", "schedule_state", "role_name", "severity_name")
"""Of what is written down."""


@reads("audit.list", "/audit")
async def list_audit(desk: Desk, asked: AuditAsked) -> AuditSeen:
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
