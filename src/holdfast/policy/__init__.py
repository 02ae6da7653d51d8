"""How the jobs of a task are to be run, and how one job may differ: checked where it is declared, all at once.

Public parameters take seconds or timedeltas; what is kept here has one form only.
"""

from holdfast.policy.isolation import Isolation
from holdfast.policy.options import Options, declare_options
from holdfast.policy.policy import DEFAULT, Policy, declare_policy
from holdfast.policy.problems import MAX_DELAY, PRIORITIES
from holdfast.policy.reading import ExceptionTypes, IsolationWord, OnConflictWord, OnLateWord, Seconds

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
