"""The whole suite as one class. The promises that matter most come first."""

from conformance.accepting import Accepting
from conformance.agreeing import Agreeing
from conformance.bulk import Bulk
from conformance.changing import WhatComesOfChanges, Withdrawing
from conformance.claiming import Claiming
from conformance.crashing import Crashing, Suspects
from conformance.deciding import Cancelling, Reviving
from conformance.driving import Driving
from conformance.ending import EndingClaims
from conformance.fencing import Fencing
from conformance.firing import Firing
from conformance.forgetting import Forgetting
from conformance.glancing import Glancing
from conformance.idempotence import Idempotence
from conformance.keys import Keys, RefusingKeys, RevivingKeys
from conformance.late import LateStarts
from conformance.leasing import Beating, Burying
from conformance.looking import Draining, Looking
from conformance.memos import KeepingMemos, WritingDown
from conformance.moves import Moves
from conformance.one_at_a_time import OneAtATime
from conformance.passing_over import PassingOver
from conformance.reconciling import Reconciling
from conformance.recording import ComparingVersions, HavingAnIdentity, KeepingRecords, RacingForRecords
from conformance.replacing import GivingBack, ReplacingTheClaimed, ReplacingTheWaiting
from conformance.rescheduling import Rescheduling
from conformance.results import KeepingLogs, KeepingResults
from conformance.searching import Searching
from conformance.sharing import Sharing, WaitingLongEnough
from conformance.signalling import Signalling
from conformance.superseding import Superseding
from conformance.suspending import Suspending
from conformance.tagging import Tagging
from conformance.taking_turns import TakingTurns, TellingOfPolls, TellingOfRecords
from conformance.vitals import TellingHowTheyAre
from conformance.waiting import Adopting, Closing, Pausing, Unknown


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
