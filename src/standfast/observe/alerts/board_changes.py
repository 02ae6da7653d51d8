"""The board and the notices in the store: how alerts stand, what people have said about them, and were told.

The board is one record. Rounds and people change it by comparison of versions: whoever comes second reads it again.
What people are told is on it first, in its `outbox`, with the jobs that deliver it; then it is filed as a notice of
its own. So each notice exists once, whoever dies on the way.

Notices are records without a time at which they are due: beats tell of the earliest of all records, and each would
have every supervisor look, for a month after its own. Those that are old, or too many, are forgotten.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from standfast.errors import AlertNotFoundError, ConfigurationError, StoreUnavailableError
from standfast.model.alerts import Alert, AlertRule, AlertState, Notice, Silence
from standfast.model.job import NewJob
from standfast.model.phrases import Phrase
from standfast.model.records import Change, Kind, Record, read_body
from standfast.model.suggestions import hint
from standfast.observe.alerts.alert_rules import (
    DEFAULT_RULES,
    MOST_RULES,
    check_channels,
    check_rule,
    refuse_unused,
)
from standfast.observe.alerts.board import AMENDED, NAME, Board, LoadedBoard, Missed, load_board
from standfast.stores.contract import Store, ask_time
from standfast.stores.values import Worker
from standfast.stores.verb import Verbs, procedure

KEPT_FOR = timedelta(days=30)

KEPT = 1000  # how many are kept at most
AT_ONCE = 100  # so many are forgotten by one call
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
LONGEST_SILENCE = timedelta(days=30)
MOST_SILENCES = 200
TRIES = 20  # how often a change is tried that others come before
WORDS_LIMIT = 500  # characters of what a person gives as a reason

MISSED_FOR = timedelta(days=1)
"""So long a worker is missed at most: whoever has not done its work by then does not mean to."""

MOST_MISSED = 200
NOT_TOLD = (
    "no worker has told its rules yet, which they do a few seconds after they start unless alerts are switched off"
)

T = TypeVar("T")
Identified = TypeVar("Identified", Alert, Silence)


def filing(notice: Notice) -> Change:
    """Return the wish to file a notice; where it is filed already, nothing comes of it."""
    return Change(Kind.NOTICE, notice.id, 0, str(uuid4()), msgspec.json.encode(notice))


def read_all_notices(verbs: Store) -> Verbs[tuple[Notice, ...]]:
    """Return all that are filed."""
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    return tuple(notice for record in records if (notice := read_body(record, Notice)) is not None)


@procedure
def forget_old_notices(verbs: Store) -> Verbs[int]:
    """Forget those whose time is over, and the oldest beyond KEPT; tell how many."""
    asked = yield ask_time(verbs)
    records: Sequence[Record] = yield verbs.records(Kind.NOTICE)
    by_age = sorted(((_told_at(record), record) for record in records), key=lambda aged: aged[0])
    too_many = len(by_age) - KEPT
    over = [record for place, (at, record) in enumerate(by_age) if place < too_many or at <= asked.now - KEPT_FOR]
    if over:
        yield verbs.change_records(
            [
                Change(Kind.NOTICE, each.name, each.version, str(uuid4()), None, after=each.token)
                for each in over[:AT_ONCE]
            ]
        )
    return min(len(over), AT_ONCE)


def _told_at(record: Record) -> datetime:
    """Return when people were told; of what nobody can read, that it was long ago."""
    notice = read_body(record, Notice)
    return _LONG_AGO if notice is None else notice.at


@procedure
def read_board(verbs: Store) -> Verbs[Board]:
    """Return how the alerts stand, with the silences that are not over."""
    asked = yield ask_time(verbs)
    seen = yield from load_board(verbs)
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
    """Return a rule with what people have changed of it; nothing, where it looks at something else by now."""
    return replace(rule, **{name: getattr(board.overrides[rule.name], name) for name in _said_of(rule, board)})


def _said_of(rule: AlertRule, board: Board) -> tuple[str, ...]:
    said = board.overrides.get(rule.name)
    if said is None or said.check is not rule.check:
        return ()
    return board.amended.get(rule.name, ())


@procedure
def alert_history(verbs: Store, limit: int) -> Verbs[tuple[Notice, ...]]:
    """Return what people were told, as long as that is kept, the newest first."""
    asked = yield ask_time(verbs)
    seen = yield from load_board(verbs)
    filed = yield from read_all_notices(verbs)
    told = (*seen.board.outbox, *filed)
    every = {notice.id: notice for notice in told if notice.at > asked.now - KEPT_FOR}
    return tuple(sorted(every.values(), key=lambda notice: (notice.at, notice.id), reverse=True)[:limit])


def board_change(seen: LoadedBoard, board: Board, jobs: tuple[NewJob, ...] = ()) -> Change:
    """Return the wish to write the board that follows one that was seen, with the jobs that come of it."""
    return Change(
        Kind.BOARD, NAME, seen.version, str(uuid4()), msgspec.json.encode(board), jobs=jobs, after=seen.token
    )


def change_board(verbs: Store, change: Callable[[Board], tuple[Board, T]]) -> Verbs[T]:
    """Change the board as it is, again where others were faster; return what the change tells."""
    for _ in range(TRIES):
        seen = yield from load_board(verbs)
        board, told = change(seen.board)
        if board == seen.board:
            return told
        (made,) = yield verbs.change_records([board_change(seen, board)])
        if made:
            return told
    raise StoreUnavailableError("the alerts were changed by others again and again: try again")


@procedure
def acknowledge(verbs: Store, alert_id: str, by: str) -> Verbs[Alert]:
    """Note that somebody knows of an alert: only new incidents are told again. An end of its id is enough."""
    asked = yield ask_time(verbs)

    def change(board: Board) -> tuple[Board, Alert]:
        alert = find_alert(board, alert_id)
        if alert.acknowledged_at is not None:
            return board, alert
        known = replace(alert, acknowledged_at=asked.now, acknowledged_by=by[:WORDS_LIMIT], known=alert.happened)
        return _with_alert(board, alert, known), known

    return (yield from change_board(verbs, change))


@procedure
def unacknowledge(verbs: Store, alert_id: str) -> Verbs[Alert]:
    """Take back that somebody knows of an alert: it is told as if nobody had. An end of its id is enough."""

    def change(board: Board) -> tuple[Board, Alert]:
        alert = find_alert(board, alert_id)
        unknown = replace(alert, acknowledged_at=None, acknowledged_by=None)
        return _with_alert(board, alert, unknown), unknown

    return (yield from change_board(verbs, change))


def _with_alert(board: Board, alert: Alert, changed: Alert) -> Board:
    return replace(board, alerts=tuple(changed if each is alert else each for each in board.alerts))


def find_alert(board: Board, alert_id: str) -> Alert:
    """Return the alert with an id that ends so. Raises AlertNotFoundError."""
    return _found("alert", board.alerts, alert_id)


def _found(what: str, some: Sequence[Identified], id_end: str) -> Identified:
    meant = [each for each in some if id_end and each.id.endswith(id_end)]
    if not meant:
        raise AlertNotFoundError(Phrase(f"refusal.no_{what}", **{what: id_end}))
    if len(meant) > 1:
        ids = ", ".join(each.id for each in meant)
        raise AlertNotFoundError(Phrase("refusal.several_jobs", end=id_end, count=len(meant), ids=ids))
    return meant[0]


@procedure
def add_silence(
    verbs: Store, rule: str | None, subject: str | None, until: datetime | timedelta, *, why: str = "", by: str = ""
) -> Verbs[Silence]:
    """Let nobody be told of a rule, of a subject, or of a rule's subject, until a time or for a span."""
    if not (rule or subject):
        raise ConfigurationError(Phrase("refusal.nothing_silenced"))
    asked = yield ask_time(verbs)
    end = asked.now + until if isinstance(until, timedelta) else until
    if end <= asked.now:
        raise ConfigurationError("a silence ends in the future: give a later end, or a longer span")
    if end > asked.now + LONGEST_SILENCE:
        raise ConfigurationError(Phrase("refusal.long_silence", days=LONGEST_SILENCE.days))
    silence = Silence(
        id=uuid4().hex[:12], until=end, rule=rule, subject=subject, why=why[:WORDS_LIMIT], by=by[:WORDS_LIMIT]
    )

    def change(board: Board) -> tuple[Board, Silence]:
        standing = tuple(each for each in board.silences if each.until > asked.now)
        if len(standing) >= MOST_SILENCES:
            raise ConfigurationError(f"there are {MOST_SILENCES} silences already: end some of them first")
        return replace(board, silences=(*standing, silence)), silence

    return (yield from change_board(verbs, change))


@procedure
def end_silence(verbs: Store, silence_id: str) -> Verbs[Silence]:
    """End a silence now; an end of its id is enough. Raises AlertNotFoundError."""

    def change(board: Board) -> tuple[Board, Silence]:
        meant = _found("silence", board.silences, silence_id)
        return replace(board, silences=tuple(each for each in board.silences if each is not meant)), meant

    return (yield from change_board(verbs, change))


class Amended(NamedTuple):
    """A rule before and after; `changed`: it differs from what its app declares; `added`: no app declares it."""

    before: AlertRule
    after: AlertRule
    changed: bool
    added: bool = False


@procedure
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


@procedure
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


@procedure
def add_rule(verbs: Store, rule: AlertRule) -> Verbs[AlertRule]:
    """Let a rule count for the whole fleet from its next look on, until it is removed.

    Should an app declare one of the same name later, that one counts instead. Raises ConfigurationError where there
    is one already, where it means nothing, and where it tells a channel that no app has.
    """
    check_rule(rule)
    refuse_unused(rule)

    def change(board: Board) -> tuple[Board, AlertRule]:
        declared = board.declared or DEFAULT_RULES  # before apps have told theirs, those from the start are known
        if rule.name in board.added or rule.name in {each.name for each in declared}:
            raise ConfigurationError(Phrase("refusal.rule_there", rule=rule.name))
        check_channels(rule, board.channels)
        if len(declared) + len(board.added) >= MOST_RULES:
            raise ConfigurationError(Phrase("refusal.many_rules", most=MOST_RULES))
        anew = without_overrides(board, rule.name)  # of a rule that somebody declared under this name, long ago
        return replace(anew, added={**board.added, rule.name: rule}), rule

    return (yield from change_board(verbs, change))


@procedure
def remove_rule(verbs: Store, name: str) -> Verbs[AlertRule]:
    """Remove a rule that was added at run time. Raises ConfigurationError if there is none, or it is declared."""

    def change(board: Board) -> tuple[Board, AlertRule]:
        if name not in board.added:
            rule_named(counting_rules(board), name)
            raise ConfigurationError(Phrase("refusal.rule_declared", rule=name))
        others = {each: rule for each, rule in board.added.items() if each != name}
        return replace(board, added=others), board.added[name]

    return (yield from change_board(verbs, change))


@procedure
def note_missed(verbs: Store, worker: Worker, watched_since: datetime) -> Verbs[None]:
    """Note that a worker is about to be buried because it beats no more; by one who has watched since a time."""
    asked = yield ask_time(verbs)
    beat_at = asked.now - worker.beat_age

    def change(board: Board) -> tuple[Board, None]:
        others = [each for each in board.missed if each.info.id != worker.info.id]
        fresh = [each for each in others if asked.now - each.beat_at < MISSED_FOR]
        watched = any(each.watched for each in board.missed if each not in others) or beat_at >= watched_since
        missed = Missed(worker.info, beat_at, watched)
        return replace(board, missed=(*fresh, missed)[-MOST_MISSED:]), None

    yield from change_board(verbs, change)


def missed_now(board: Board, workers: Iterable[Worker]) -> tuple[Missed, ...]:
    """Return who is missed, with the rules that have fired because of it; not who lives after all."""
    living = {worker.info.id for worker in workers if worker.is_live}
    fired: dict[str, set[str]] = {}
    for alert in board.alerts:
        if alert.state is not AlertState.PENDING:
            fired.setdefault(alert.subject, set()).add(alert.rule)
    return tuple(
        replace(each, told=tuple(sorted({*each.told, *fired.get(each.info.id, ())})))
        for each in board.missed
        if each.info.id not in living
    )
