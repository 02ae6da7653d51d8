"""Schedules and windows declared in code, brought into the store when a worker starts.

They belong to an app and its release. A release that the store has not seen is newer than all it has; one that it
has seen before the last may change nothing while a worker of the last lives.

An app without a name of its own is known by the MODULE:APP of its workers, which another service may have too. So
what the code of any living worker declares stays, whichever release is the newest.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import compress

import msgspec
from msgspec.structs import replace

from standfast.errors import JobStateError, StoreError
from standfast.model.records import Change, Kind, Record, writing
from standfast.model.states import State
from standfast.schedules.closed_hours import ClosedHours, WindowChange, window_changes
from standfast.schedules.decision import decide, replan, retire, unfinished
from standfast.schedules.fires import TRIES, change_of, states_of, store_now
from standfast.schedules.rules import AnyRule
from standfast.schedules.schedule import Origin, Plan, Schedule, Template, read_schedules
from standfast.stores.contract import Store
from standfast.stores.values import Worker
from standfast.stores.verb import Verbs, procedure

MOST_RELEASES = 100
"""How many releases of an app are remembered."""


class Declaration(msgspec.Struct, frozen=True):
    """A schedule as code declares it."""

    name: str
    rule: AnyRule
    job: Template

    @property
    def mark(self) -> str:
        """What tells this declaration from another."""
        return hashlib.sha256(msgspec.json.encode((self.rule, self.job))).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Declarer:
    """Who declares: a worker of a release of an app, which may have jobs lie ready `ahead` of their time.

    One who insists is a person, whose word counts whichever release is the newest. `code`: for an app without a
    name of its own, what tells its schedules and windows from those of others.
    """

    app: str
    release: str
    worker: str
    ahead: timedelta
    insists: bool = False
    code: str | None = None

    @property
    def shares_its_name(self) -> bool:
        """Whether another service may have the same name, and what that declares is not this one's to retire."""
        return self.code is not None and not self.insists


class Standing(msgspec.Struct, frozen=True):
    """The code of an app without a name of its own: its release, its workers, the schedules that it declares."""

    release: str
    workers: tuple[str, ...]
    schedules: tuple[str, ...]


class Releases(msgspec.Struct, frozen=True):
    """The releases of an app that the store has seen, the last that counted last, and the workers of that one.

    `standing`: of an app without a name of its own, what its workers run.
    """

    names: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    standing: Mapping[str, Standing] = {}

    def with_last(self, who: Declarer, living: Collection[str]) -> "Releases":
        """Return them with that of this one as the last, whose workers stand for it as long as they live.

        Where a person insists, those who stood for the last one do: so that none of them undoes it.
        """
        names = (*(each for each in self.names if each != who.release), who.release)[-MOST_RELEASES:]
        others = self.workers if who.insists or self.names[-1:] == (who.release,) else ()
        return replace(
            self,
            names=names,
            workers=(*(each for each in others if each in living and each != who.worker), who.worker),
        )

    def with_standing(self, who: Declarer, declared: Sequence[str], living: Collection[str]) -> "Releases":
        """Return them with this worker standing for its code, and without code whose workers are gone."""
        standing = {
            code: replace(each, workers=workers)
            for code, each in self.standing.items()
            if (workers := tuple(worker for worker in each.workers if worker in living and worker != who.worker))
        }
        code = who.code or ""
        beside = standing[code].workers if code in standing else ()
        standing[code] = Standing(who.release, (*beside, who.worker), tuple(declared))
        return replace(self, standing=standing)

    def knows(self, who: Declarer) -> bool:
        """Tell whether nothing has to be written: its release is the last, and it stands for it."""
        if who.shares_its_name:
            own = self.standing.get(who.code or "")
            return own is not None and who.worker in own.workers
        return self.names[-1:] == (who.release,) and who.worker in self.workers

    def kept_by_others(self, who: Declarer, living: frozenset[str]) -> Mapping[str, str]:
        """Return the schedules that other living workers declare, each with their release."""
        if not who.shares_its_name:
            return {}
        return {
            schedule: each.release
            for code, each in self.standing.items()
            if code != who.code and not living.isdisjoint(each.workers)
            for schedule in each.schedules
        }


def read_releases(records: Sequence[Record]) -> Releases:
    """Return what a store has of the releases of an app: one record, or none."""
    return msgspec.json.decode(records[0].body, type=Releases) if records else Releases()


@dataclass(slots=True)
class Synchronised:
    """What came of bringing declarations into the store.

    `foreign` are schedules of that name that somebody else has made; `newer` is the release that counts instead.
    `kept` are schedules that this release does not declare, each with the living release that does; `outlived` is
    the release whose workers live and declare what was retired all the same, as the app has a name of its own.
    """

    added: list[Schedule] = field(default_factory=list)
    changed: list[Schedule] = field(default_factory=list)
    retired: list[Schedule] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    windows: list[WindowChange] = field(default_factory=list)
    newer: str | None = None
    kept: dict[str, str] = field(default_factory=dict)
    outlived: str | None = None

    def take_over(self, before: "Synchronised", written: Collection[Change]) -> None:
        """Add what was written at a try before, of all that it was about."""
        names = {(change.kind, change.name) for change in written}
        self.added += [each for each in before.added if (Kind.SCHEDULE, each.name) in names]
        self.changed += [each for each in before.changed if (Kind.SCHEDULE, each.name) in names]
        self.retired += [each for each in before.retired if (Kind.SCHEDULE, each.name) in names]
        self.windows += [each for each in before.windows if each.change in written]
        if self.retired:
            self.outlived = self.outlived or before.outlived


def release_of(declarations: Sequence[Declaration], windows: Sequence[ClosedHours]) -> str:
    """Return a name for a release that was given none: it is another where its schedules or windows are."""
    marks = sorted(f"{each.name} {each.mark}" for each in declarations)
    marks += sorted(msgspec.json.encode(each).decode() for each in windows)
    return f"code-{hashlib.sha256(' '.join(marks).encode()).hexdigest()[:12]}"


@procedure
def synchronise(
    verbs: Store, who: Declarer, declarations: Sequence[Declaration], windows: Sequence[ClosedHours]
) -> Verbs[Synchronised]:
    """Add, change and retire schedules and windows as this release of the app declares them."""
    told = Synchronised()
    for _ in range(TRIES):
        tried = yield from _synchronise_once(verbs, who, declarations, windows)
        told.take_over(tried.done, tried.written)
        if tried.complete:
            told.foreign, told.newer, told.kept = tried.done.foreign, tried.done.newer, tried.done.kept
            return told
    raise StoreError(
        f"the schedules of {who.app} were changed by others again and again: restart the worker to try again"
    )


def _synchronise_once(
    verbs: Store, who: Declarer, declarations: Sequence[Declaration], windows: Sequence[ClosedHours]
) -> "Verbs[_Try]":
    """Try once; where others were faster, not all is written."""
    records = yield verbs.records(Kind.RELEASE, (who.app,))
    releases = read_releases(records)
    if not declarations and not windows and not releases.names:
        return _Try(Synchronised())
    living = frozenset[str]()
    is_older, outlived = False, None
    if not releases.knows(who) or (who.shares_its_name and releases.standing):
        living = _living((yield verbs.workers()), who.worker)
        newest = living.intersection(releases.workers)
        is_older = who.release in releases.names[:-1] and not who.insists and bool(newest)
        if is_older and not who.shares_its_name:
            return _Try(Synchronised(newer=releases.names[-1]))
        if newest and releases.names[-1] != who.release and not (who.insists or who.shares_its_name):
            outlived = releases.names[-1]
    kept = releases.kept_by_others(who, living)
    draft = yield from _compared(verbs, who, declarations, kept, is_older=is_older)
    draft.done.outlived = outlived
    published = yield verbs.records(Kind.WINDOW)
    told = [each for each in window_changes(who.app, windows, published) if not kept or each.what == "added"]
    draft.changes += [each.change for each in told]
    draft.done.windows += told
    if not releases.knows(who):
        known = releases if is_older else releases.with_last(who, living)
        if who.shares_its_name:
            known = known.with_standing(who, [each.name for each in declarations], living)
        draft.changes.insert(0, writing(Kind.RELEASE, who.app, known, before=records[0] if records else None))
    if not draft.changes:
        return _Try(draft.done)
    try:
        made = yield verbs.change_records(draft.changes)
    except JobStateError:  # a worker has taken a job meanwhile that was to be withdrawn
        return _Try(draft.done, complete=False)
    return _Try(draft.done, tuple(compress(draft.changes, made)), all(made))


def _compared(
    verbs: Store, who: Declarer, declarations: Sequence[Declaration], kept: Mapping[str, str], *, is_older: bool
) -> "Verbs[_Draft]":
    """Return what has to change for the store to hold what is declared.

    `kept` is what other releases declare; `is_older`: one of them is newer, and what both declare is as it says.
    """
    found = yield verbs.records(Kind.SCHEDULE)
    schedules, _ = read_schedules(found)
    known = {schedule.name: schedule for schedule in schedules}
    now = yield from store_now(verbs)
    states = yield from states_of(verbs, known.values())
    draft = _Draft(who, now, states)
    unreadable = {record.name for record in found} - known.keys()
    for declaration in declarations:
        if declaration.name in unreadable:
            draft.done.foreign.append(declaration.name)
        elif not (is_older and declaration.name in kept):
            draft.declare(declaration, known.get(declaration.name))
    declared = {declaration.name for declaration in declarations}
    for name, schedule in known.items():
        if name in kept and name not in declared:
            draft.done.kept[name] = kept[name]
        elif name not in declared:
            draft.leave_out(schedule)
    return draft


def _living(workers: Sequence[Worker], worker: str) -> frozenset[str]:
    """Return the workers that live, but for those of the same supervisor as this one: they are of its release."""
    ours = {each.info.supervisor for each in workers if each.info.id == worker}
    return frozenset(each.info.id for each in workers if each.info.supervisor not in ours and each.is_live)


@dataclass(frozen=True, slots=True)
class _Try:
    """What came of a try: what it was about, which of its changes were written, and whether that is all."""

    done: Synchronised
    written: tuple[Change, ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Draft:
    """All changes that bring declarations into the store, while they are collected."""

    who: Declarer
    now: datetime
    states: Mapping[str, State]
    changes: list[Change] = field(default_factory=list)
    done: Synchronised = field(default_factory=Synchronised)

    def declare(self, declaration: Declaration, known: Schedule | None) -> None:
        """Add a schedule, or change the one that is known."""
        origin = Origin(self.who.app, self.who.release, declaration.mark)
        if known is None:
            plan = Plan(declaration.rule, declaration.job, created_at=self.now, cursor=self.now, origin=origin)
            new = Schedule(declaration.name, 0, plan)
            decided = decide(new, self.now, self.who.ahead, {})
            self.changes.append(change_of(new, decided))
            self.done.added.append(replace(new, plan=decided.plan))
            return
        before = known.plan.origin
        if before is None or before.app != self.who.app:
            self.done.foreign.append(declaration.name)
            return
        if before.mark == declaration.mark and known.plan.retired_at is None:
            return
        plan = replace(known.plan, rule=declaration.rule, job=declaration.job, origin=origin, retired_at=None)
        if known.plan.retired_at is not None:
            plan = replace(plan, runs=unfinished(plan.runs, self.states))
        decided = replan(known, plan, self.now, self.who.ahead, self.states)
        self.changes.append(change_of(known, decided))
        self.done.changed.append(replace(known, plan=decided.plan))

    def leave_out(self, known: Schedule) -> None:
        """Retire a schedule of this app that is declared no more."""
        plan = known.plan
        if plan.origin is None or plan.origin.app != self.who.app or plan.retired_at is not None:
            return
        decided = retire(known, self.now, self.states)
        self.changes.append(change_of(known, decided))
        self.done.retired.append(replace(known, plan=decided.plan))
