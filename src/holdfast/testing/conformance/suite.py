"""The whole suite as one class. The promises that matter most come first."""

from holdfast.testing.conformance.claiming import Claiming
from holdfast.testing.conformance.crashing import Crashing, Suspects
from holdfast.testing.conformance.deciding import Cancelling, Reviving
from holdfast.testing.conformance.driving import Driving
from holdfast.testing.conformance.ending import EndingClaims
from holdfast.testing.conformance.fencing import Fencing
from holdfast.testing.conformance.idempotence import Idempotence
from holdfast.testing.conformance.leasing import Beating, Burying
from holdfast.testing.conformance.looking import Draining, Looking
from holdfast.testing.conformance.moves import Moves
from holdfast.testing.conformance.reconciling import Reconciling
from holdfast.testing.conformance.waiting import Adopting, Pausing


class StoreConformance(
    Fencing,
    Moves,
    Idempotence,
    Claiming,
    Pausing,
    Adopting,
    Crashing,
    Suspects,
    Burying,
    Beating,
    Reconciling,
    Cancelling,
    Reviving,
    EndingClaims,
    Looking,
    Draining,
    Driving,
):
    """Every promise of `Store`. A store's tests subclass it and give the `harness` fixture."""
