"""How the jobs of a task are to be run, and how one job may differ: checked where it is declared, all at once.

Public parameters take seconds or timedeltas; what is kept here has one form only.
"""

from standfast.policy.isolation import Isolation
from standfast.policy.options import Options, declare_options
from standfast.policy.policy import DEFAULT, Policy, declare_policy
from standfast.policy.problems import MAX_DELAY, PRIORITIES
from standfast.policy.reading import ExceptionTypes, IsolationWord, OnConflictWord, OnLateWord, Seconds

__all__ = [
    "DEFAULT",
    "MAX_DELAY",
    "PRIORITIES",
    "ExceptionTypes",
    "Isolation",
    "IsolationWord",
    "OnConflictWord",
    "OnLateWord",
    "Options",
    "Policy",
    "Seconds",
    "declare_options",
    "declare_policy",
]
