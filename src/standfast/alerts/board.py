"""The board: how the alerts of a fleet stand, and what people have said about them. It is one record.

Rounds and people change it by comparison of versions: whoever comes second reads it again. What people are told is
on it first, in its `outbox`, with the jobs that deliver it; then it is filed as a notice of its own
(`notices.py`). So each notice exists once, whoever dies on the way.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.alerts.checking import check_channels, check_rule
from standfast.alerts.notices import KEPT_FOR, read_all_notices
from standfast.alerts.seeing import NAME, Seen, see
from standfast.alerts.standing import AMENDED, Board
from standfast.core.alert import Alert, AlertRule, Notice, Silence
from standfast.core.job import NewJob
from standfast.core.record import Change, Kind
from standfast.errors import AlertNotFoundError, ConfigurationError, StoreUnavailableError
from standfast.phrases import Phrase
from standfast.spelling import hint
from standfast.store.errand import Verbs, errand
from standfast.store.protocol import Store, ask_time

LONGEST_SILENCE = timedelta(days=30)

MOST_SILENCES = 200

TRIES = 20
"""How often a change is tried that others come before."""

WORDS_LIMIT = 500
"""Characters of what a person gives as a reason."""

NOT_TOLD = (
    "no worker has told its rules yet, which they do a few seconds after they start unless alerts are switched off"
)

T = TypeVar("T")


# -- reading ---------------------------------------------------------------------------------------------------


@errand
def read_board(verbs: Store) -> Verbs[Board]:
    """Return how the alerts stand, with the silences that are not over."""
    asked = yield ask_time(verbs)
    seen = yield from see(verbs)
    standing = tuple(each for each in seen.board.silences if each.until > asked.now)
    return replace(seen.board, silences=standing)


def effective_rules(rules: Iterable[AlertRule], board: Board) -> tuple[AlertRule, ...]:
    """Return the rules as they are declared, with what was changed of them at run time; those switched off too.

    With them are those that were added at run time, unless somebody declares one of the same name. A rule that was
    changed at run time, and that nobody declares any more, counts no longer.
    """
    counting = {rule.name: _amended(rule, board) for rule in rules}
    return tuple({**board.additions, **counting}.values())


def counting_rules(board: Board) -> tuple[AlertRule, ...]:
    """Return all rules of the fleet as they count, by name."""
    return tuple(sorted(effective_rules(board.declared, board), key=lambda rule: rule.name))


def _amended(rule: AlertRule, board: Board) -> AlertRule:
    """Return a rule with what people have changed of it: all else is as its app declares it by now.

    Of a rule that looks at something else by now, what people said about it means nothing.
    """
    return replace(rule, **{name: getattr(board.overrides[rule.name], name) for name in _said_of(rule, board)})


def _said_of(rule: AlertRule, board: Board) -> tuple[str, ...]:
    said = board.overrides.get(rule.name)
    if said is None or said.check is not rule.check:
        return ()
    return board.amended.get(rule.name, ())


@errand
def alert_history(verbs: Store, limit: int) -> Verbs[tuple[Notice, ...]]:
    """Return what people were told, as long as that is kept, the newest first."""
    asked = yield ask_time(verbs)
    seen = yield from see(verbs)
    filed = yield from read_all_notices(verbs)
    told = (*seen.board.outbox, *filed)
    every = {notice.id: notice for notice in told if notice.at > asked.now - KEPT_FOR}
    return tuple(sorted(every.values(), key=lambda notice: (notice.at, notice.id), reverse=True)[:limit])


# -- writing ---------------------------------------------------------------------------------------------------


def writing(seen: Seen, board: Board, jobs: tuple[NewJob, ...] = ()) -> Change:
    """Return the wish to write the board that follows one that was seen, with the jobs that come of it."""
    return Change(
        Kind.BOARD, NAME, seen.version, str(uuid4()), msgspec.json.encode(board), jobs=jobs, after=seen.token
    )


def change_board(verbs: Store, change: Callable[[Board], tuple[Board, T]]) -> Verbs[T]:
    """Change the board as it is, again where others were faster; return what the change tells."""
    for _ in range(TRIES):
        seen = yield from see(verbs)
        board, told = change(seen.board)
        if board == seen.board:
            return told
        (made,) = yield verbs.change_records([writing(seen, board)])
        if made:
            return told
    raise StoreUnavailableError("the alerts were changed by others again and again: try again")


@errand
def acknowledge(verbs: Store, alert_id: str, by: str) -> Verbs[Alert]:
    """Note that somebody knows of an alert: it is not told again while it lasts, unless there are new incidents.

    An end of its id is enough.
    """
    asked = yield ask_time(verbs)

    def change(board: Board) -> tuple[Board, Alert]:
        alert = find_alert(board, alert_id)
        if alert.acknowledged_at is not None:
            return board, alert
        known = replace(alert, acknowledged_at=asked.now, acknowledged_by=by[:WORDS_LIMIT], known=alert.happened)
        return replace(board, alerts=tuple(known if each is alert else each for each in board.alerts)), known

    return (yield from change_board(verbs, change))


@errand
def unacknowledge(verbs: Store, alert_id: str) -> Verbs[Alert]:
    """Take back that somebody knows of an alert: it is told as if nobody had. An end of its id is enough."""

    def change(board: Board) -> tuple[Board, Alert]:
        alert = find_alert(board, alert_id)
        unknown = replace(alert, acknowledged_at=None, acknowledged_by=None)
        return replace(board, alerts=tuple(unknown if each is alert else each for each in board.alerts)), unknown

    return (yield from change_board(verbs, change))


def find_alert(board: Board, alert_id: str) -> Alert:
    """Return the alert with an id that ends so. Raises AlertNotFoundError."""
    meant = [each for each in board.alerts if alert_id and each.id.endswith(alert_id)]
    if not meant:
        raise AlertNotFoundError(f"no alert has the id {alert_id!r}: `standfast alerts list` shows those there are")
    if len(meant) > 1:
        raise AlertNotFoundError(f"{len(meant)} alerts have an id that ends in {alert_id!r}: give more of it")
    return meant[0]


@errand
def add_silence(
    verbs: Store,
    rule: str | None,
    subject: str | None,
    until: datetime | timedelta,
    *,
    why: str = "",
    by: str = "",
) -> Verbs[Silence]:
    """Let nobody be told of a rule, of a subject, or of a rule's subject, until a time or for a span."""
    if not (rule or subject):
        raise ConfigurationError(
            "a silence is about a rule, a subject or both: name one; it never covers everything"
        )
    asked = yield ask_time(verbs)
    end = asked.now + until if isinstance(until, timedelta) else until
    if end <= asked.now:
        raise ConfigurationError("a silence ends in the future: give a later end, or a longer span")
    if end > asked.now + LONGEST_SILENCE:
        raise ConfigurationError(
            f"a silence lasts {LONGEST_SILENCE.days} days at most: give an earlier end, or switch the rule off"
        )
    silence = Silence(
        id=uuid4().hex[:12], until=end, rule=rule, subject=subject, why=why[:WORDS_LIMIT], by=by[:WORDS_LIMIT]
    )

    def change(board: Board) -> tuple[Board, Silence]:
        standing = tuple(each for each in board.silences if each.until > asked.now)
        if len(standing) >= MOST_SILENCES:
            raise ConfigurationError(f"there are {MOST_SILENCES} silences already: end some of them first")
        return replace(board, silences=(*standing, silence)), silence

    return (yield from change_board(verbs, change))


@errand
def end_silence(verbs: Store, silence_id: str) -> Verbs[Silence]:
    """End a silence now; an end of its id is enough. Raises AlertNotFoundError."""

    def change(board: Board) -> tuple[Board, Silence]:
        meant = [each for each in board.silences if silence_id and each.id.endswith(silence_id)]
        if not meant:
            raise AlertNotFoundError(
                f"no silence has the id {silence_id!r}: `standfast alerts list` shows those there are"
            )
        if len(meant) > 1:
            raise AlertNotFoundError(
                f"{len(meant)} silences have an id that ends in {silence_id!r}: give more of it"
            )
        return replace(board, silences=tuple(each for each in board.silences if each is not meant[0])), meant[0]

    return (yield from change_board(verbs, change))


class Amended(NamedTuple):
    """A rule as it counted, and as it counts now; `changed`: whether that is otherwise than its app declares it.

    `added`: whether no app declares it, as it was added at run time.
    """

    before: AlertRule
    after: AlertRule
    changed: bool
    added: bool = False


@errand
def amend_rule(verbs: Store, name: str, amend: Callable[[AlertRule], AlertRule | None]) -> Verbs[Amended]:
    """Let a rule count as it is amended, for the whole fleet from its next look on; None: as it is declared.

    `amend` is given the rule as it counts, and is asked again if others have changed it meanwhile: of two people
    who change one rule at once, none undoes what the other has done. What nobody has changed of a rule is as its
    app declares it, also later. A rule that was added at run time is changed itself.
    """

    def change(board: Board) -> tuple[Board, Amended]:
        before = rule_named(counting_rules(board), name)
        after = amend(before)
        is_added = name in board.additions
        if after is None and is_added:
            raise ConfigurationError(Phrase("refusal.rule_not_declared", rule=name))
        if after is None:
            return without_overrides(board, name), Amended(before, rule_named(board.declared, name), changed=False)
        differing = _differing(before, after, board)
        if is_added:
            return replace(board, added={**board.added, name: after}), Amended(
                before, after, changed=False, added=True
            )
        earlier = _said_of(rule_named(board.declared, name), board)
        amended = tuple(each for each in AMENDED if each in earlier or each in differing)
        if not amended:
            return board, Amended(before, after, changed=False)
        overrides, fields = {**board.overrides, name: after}, {**board.amended, name: amended}
        return replace(board, overrides=overrides, amended=fields), Amended(before, after, changed=True)

    return (yield from change_board(verbs, change))


def _differing(before: AlertRule, after: AlertRule, board: Board) -> set[str]:
    """Return what differs between two states of a rule. Raises ConfigurationError where the second cannot be."""
    fields = AlertRule.__struct_fields__
    differing = {each for each in fields if getattr(before, each) != getattr(after, each)}
    if fixed := differing - set(AMENDED):
        raise ConfigurationError(
            f"{', '.join(sorted(fixed))} of rule {before.name!r} cannot be changed while the fleet runs: only"
            f" {', '.join(AMENDED)} can; change the others where its app declares it, or add another rule"
        )
    check_rule(after)
    if "channels" in differing:
        check_channels(after, board.channels)
    return differing


def without_overrides(board: Board, name: str) -> Board:
    """Return the board without what people have changed of a rule."""
    overrides = {each: said for each, said in board.overrides.items() if each != name}
    amended = {each: fields for each, fields in board.amended.items() if each != name}
    return replace(board, overrides=overrides, amended=amended)


@errand
def withdraw(verbs: Store, app: str) -> Verbs[None]:
    """Take away what an app has declared: nobody goes by it any more."""

    def change(board: Board) -> tuple[Board, None]:
        return replace(board, apps={name: said for name, said in board.apps.items() if name != app}), None

    yield from change_board(verbs, change)


def rule_named(rules: Iterable[AlertRule], name: str) -> AlertRule:
    """Return a rule. Raises ConfigurationError with the name that may have been meant."""
    known = {rule.name: rule for rule in rules}
    if not known:
        raise ConfigurationError(f"{NOT_TOLD}: start one first, and say this again")
    if name not in known:
        raise ConfigurationError(f"no rule is named {name!r}; {hint(name, known)}")
    return known[name]
