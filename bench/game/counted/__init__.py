"""Any other store, with each call of it written down: for measuring what workers ask of a store.

Processes that import this package know its URLs. `environment` is for those that they start.
"""

import os
from pathlib import Path

from standfast.stores.url import SCHEMES

PREFIX = "counted+"

SCHEMES.update({PREFIX + scheme: f"{__name__}.door" for scheme in tuple(SCHEMES) if not scheme.startswith(PREFIX)})

_HERE = Path(__file__).parent


def environment() -> dict[str, str]:
    """Return the variable with which every Python that is started knows counted URLs."""
    folders = [str(_HERE / "startup"), str(_HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
