"""The whole suite as one class. The promises that matter most come first."""

from standfast.testing.conformance.accepting import Accepting
from standfast.testing.conformance.agreeing import Agreeing
from standfast.testing.conformance.bulk import Bulk
from standfast.testing.conformance.changing import WhatComesOfChanges, Withdrawing
from standfast.testing.conformance.claiming import Claiming
from standfast.testing.conformance.crashing import Crashing, Suspects
from standfast.testing.conformance.deciding import Cancelling, Reviving
from standfast.testing.conformance.driving import Driving
from standfast.testing.conformance.ending import EndingClaims
from standfast.testing.conformance.fencing import Fencing
from standfast.testing.conformance.firing import Firing
from standfast.testing.conformance.forgetting import Forgetting
from standfast.testing.conformance.glancing import Glancing
from standfast.testing.conformance.idempotence import Idempotence
from standfast.testing.conformance.keys import Keys, RefusingKeys, RevivingKeys
from standfast.testing.conformance.late import LateStarts
from standfast.testing.conformance.leasing import Beating, Burying
from standfast.testing.conformance.looking import Draining, Looking
from standfast.testing.conformance.memos import KeepingMemos, WritingDown
from standfast.testing.conformance.moves import Moves
from standfast.testing.conformance.one_at_a_time import OneAtATime
from standfast.testing.conformance.passing_over import PassingOver
from standfast.testing.conformance.reconciling import Reconciling
from standfast.testing.conformance.recording import (
    ComparingVersions,
    HavingAnIdentity,
    KeepingRecords,
    RacingForRecords,
)
from standfast.testing.conformance.replacing import GivingBack, ReplacingTheClaimed, ReplacingTheWaiting
from standfast.testing.conformance.rescheduling import Rescheduling
from standfast.testing.conformance.results import KeepingLogs, KeepingResults
from standfast.testing.conformance.searching import Searching
from standfast.testing.conformance.sharing import Sharing, WaitingLongEnough
from standfast.testing.conformance.signalling import Signalling
from standfast.testing.conformance.superseding import Superseding
from standfast.testing.conformance.suspending import Suspending
from standfast.testing.conformance.tagging import Tagging
from standfast.testing.conformance.taking_turns import TakingTurns, TellingOfPolls, TellingOfRecords
from standfast.testing.conformance.vitals import TellingHowTheyAre
from standfast.testing.conformance.waiting import Adopting, Closing, Pausing, Unknown


class StoreConformance(
    Fencing,
    Moves,
    Idempotence,
    Accepting,
    Claiming,
    Sharing,
    WaitingLongEnough,
    Pausing,
    Closing,
    PassingOver,
    Adopting,
    Bulk,
    Unknown,
    Crashing,
    Suspects,
    Burying,
    Beating,
    TakingTurns,
    TellingOfPolls,
    TellingOfRecords,
    TellingHowTheyAre,
    Reconciling,
    Cancelling,
    Reviving,
    Superseding,
    Rescheduling,
    Keys,
    RefusingKeys,
    RevivingKeys,
    ReplacingTheWaiting,
    ReplacingTheClaimed,
    GivingBack,
    OneAtATime,
    LateStarts,
    EndingClaims,
    KeepingResults,
    KeepingLogs,
    WritingDown,
    KeepingMemos,
    Suspending,
    Signalling,
    Forgetting,
    KeepingRecords,
    HavingAnIdentity,
    ComparingVersions,
    RacingForRecords,
    WhatComesOfChanges,
    Withdrawing,
    Firing,
    Looking,
    Searching,
    Glancing,
    Tagging,
    Draining,
    Driving,
    Agreeing,
):
    """Every promise of `Store`. A store's tests subclass it and give the `harness` fixture."""
