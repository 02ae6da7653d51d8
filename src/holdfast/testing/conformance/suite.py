"""The whole suite as one class. The promises that matter most come first."""

from holdfast.testing.conformance.accepting import Accepting
from holdfast.testing.conformance.agreeing import Agreeing
from holdfast.testing.conformance.bulk import Bulk
from holdfast.testing.conformance.changing import WhatComesOfChanges, Withdrawing
from holdfast.testing.conformance.claiming import Claiming
from holdfast.testing.conformance.crashing import Crashing, Suspects
from holdfast.testing.conformance.deciding import Cancelling, Reviving
from holdfast.testing.conformance.driving import Driving
from holdfast.testing.conformance.ending import EndingClaims
from holdfast.testing.conformance.fencing import Fencing
from holdfast.testing.conformance.firing import Firing
from holdfast.testing.conformance.forgetting import Forgetting
from holdfast.testing.conformance.glancing import Glancing
from holdfast.testing.conformance.idempotence import Idempotence
from holdfast.testing.conformance.keys import Keys, RefusingKeys, RevivingKeys
from holdfast.testing.conformance.late import LateStarts
from holdfast.testing.conformance.leasing import Beating, Burying
from holdfast.testing.conformance.looking import Draining, Looking
from holdfast.testing.conformance.memos import KeepingMemos, WritingDown
from holdfast.testing.conformance.moves import Moves
from holdfast.testing.conformance.one_at_a_time import OneAtATime
from holdfast.testing.conformance.passing_over import PassingOver
from holdfast.testing.conformance.reconciling import Reconciling
from holdfast.testing.conformance.recording import (
    ComparingVersions,
    HavingAnIdentity,
    KeepingRecords,
    RacingForRecords,
)
from holdfast.testing.conformance.replacing import GivingBack, ReplacingTheClaimed, ReplacingTheWaiting
from holdfast.testing.conformance.rescheduling import Rescheduling
from holdfast.testing.conformance.results import KeepingLogs, KeepingResults
from holdfast.testing.conformance.searching import Searching
from holdfast.testing.conformance.sharing import Sharing, WaitingLongEnough
from holdfast.testing.conformance.signalling import Signalling
from holdfast.testing.conformance.superseding import Superseding
from holdfast.testing.conformance.suspending import Suspending
from holdfast.testing.conformance.tagging import Tagging
from holdfast.testing.conformance.taking_turns import TakingTurns, TellingOfPolls, TellingOfRecords
from holdfast.testing.conformance.vitals import TellingHowTheyAre
from holdfast.testing.conformance.waiting import Adopting, Closing, Pausing, Unknown


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
