"""What is wrong now, and what people were told."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from standfast.alerts.board import alert_history
from standfast.alerts.delivery import Undelivered, undelivered
from standfast.alerts.notices import KEPT
from standfast.alerts.standing import Board
from standfast.core.alert import Alert, AlertState, Notice, Severity, Silence, Silenced
from standfast.core.states import FINAL
from standfast.dashboard.desk import Desk
from standfast.dashboard.operation import reads
from standfast.dashboard.reading.shared_looks import SELDOM, all_workers, board, store_now
from standfast.dashboard.shapes.alerts import (
    AlertRow,
    AlertsSeen,
    HistoryAsked,
    HistorySeen,
    NoticeRow,
    SilenceSeen,
    UndeliveredSeen,
)
from standfast.dashboard.shapes.words import NothingAsked


@reads("alerts.list", "/alerts")
async def list_alerts(desk: Desk, asked: NothingAsked) -> AlertsSeen:  # noqa: ARG001 - there is nothing to ask
    """List what is wrong now, firing and critical first, with what is silenced and who can be told."""
    seen, now = await board(desk), await store_now(desk)
    living = any(worker.is_live and not worker.info.is_courier for worker in await all_workers(desk))
    return AlertsSeen(
        now=now,
        living=living,
        watched=living and seen.is_said(now),
        alerts=alert_rows(worst_first(seen, AlertState.FIRING, AlertState.PENDING)),
        silences=tuple(silence_seen(each) for each in sorted(seen.silences, key=lambda each: each.until)),
        channels=seen.channels,
    )


@reads("alerts.history", "/alerts/history")
async def show_history(desk: Desk, asked: HistoryAsked) -> HistorySeen:
    """List what people were told, the newest first, and through which channels it has not arrived."""
    told = await desk.recall("notices", lambda: desk.ask(alert_history(desk.verbs, KEPT)), SELDOM)
    missing = await desk.recall("undelivered", lambda: desk.ask(undelivered(desk.verbs)), SELDOM) if told else {}
    ids = [each.id for each in told]
    start = ids.index(asked.before) + 1 if asked.before in ids else 0
    page = told[start : start + asked.limit]
    return HistorySeen(
        now=await store_now(desk),
        rows=tuple(_notice_row(each, missing.get(each.id, ())) for each in page),
        next=page[-1].id if page and start + asked.limit < len(told) else None,
    )


def worst_first(seen: Board, *states: AlertState) -> list[Alert]:
    """Return the alerts in these states: by state as named, then critical ones, then the oldest first.

    Each is silenced or not as it is now, which supervisors note at their next look.
    """
    silenced = Silenced(seen.silences)
    found = (replace(each, silenced=each in silenced) for each in seen.in_state(*states))
    return sorted(found, key=lambda each: (states.index(each.state), each.severity is not Severity.CRITICAL))


def alert_rows(alerts: Iterable[Alert]) -> tuple[AlertRow, ...]:
    """Return alerts as they are shown."""
    return tuple(msgspec.convert(each, AlertRow, from_attributes=True) for each in alerts)


def silence_seen(silence: Silence) -> SilenceSeen:
    """Return a silence as it is shown."""
    return msgspec.convert(silence, SilenceSeen, from_attributes=True)


def _notice_row(notice: Notice, missing: Iterable[Undelivered]) -> NoticeRow:
    lacking = tuple(
        UndeliveredSeen(channel=each.channel, job=each.job, state=each.state, final=each.state in FINAL)
        for each in missing
    )
    told = msgspec.structs.asdict(notice) | {"alerts": alert_rows(notice.alerts), "undelivered": lacking}
    return NoticeRow(**{name: told[name] for name in NoticeRow.__struct_fields__})
