"""The rules that count from the start. An app may replace each, or switch it off, by its name."""

from standfast.core.alert import AlertRule, Check, Severity

HOUR = 3600.0

SOON = 60.0
"""The cool-down of what is critical, or may be: the next outage is not to wait for long."""

DEFAULT_RULES: tuple[AlertRule, ...] = (
    AlertRule(name="worker_silent", check=Check.WORKER_SILENT, above=30.0, cool_down=SOON),
    AlertRule(name="queue_age", check=Check.QUEUE_AGE, above=300.0),
    AlertRule(name="task_unknown", check=Check.TASK_UNKNOWN, above=300.0),
    AlertRule(name="failure_rate", check=Check.FAILURE_RATE, above=0.5, over=300.0, at_least=10),
    AlertRule(name="dead_letters", check=Check.DEAD_LETTERS, above=0.0, over=300.0),
    AlertRule(name="dead_backlog", check=Check.DEAD_BACKLOG, repeat=24 * HOUR),
    AlertRule(name="schedule_missed", check=Check.SCHEDULE_MISSED, above=0.0, over=900.0),
    AlertRule(name="schedule_late", check=Check.SCHEDULE_LATE, above=60.0),
    AlertRule(name="job_too_long", check=Check.JOB_TOO_LONG),
    AlertRule(
        name="budget_burn_fast",
        check=Check.BUDGET_BURN,
        above=14.4,
        over=HOUR,
        severity=Severity.CRITICAL,
        cool_down=SOON,
    ),
    AlertRule(name="budget_burn_slow", check=Check.BUDGET_BURN, above=6.0, over=6 * HOUR),
    AlertRule(name="incident", check=Check.INCIDENT, above=0.0, over=600.0),
    AlertRule(name="store_slow", check=Check.STORE_SLOW, above=1.0, hold=30.0),
    AlertRule(
        name="keep_alive",
        check=Check.KEEP_ALIVE,
        above=0.0,
        over=600.0,
        severity=Severity.CRITICAL,
        cool_down=SOON,
    ),
    AlertRule(
        name="not_durable",
        check=Check.NOT_DURABLE,
        severity=Severity.CRITICAL,
        cool_down=SOON,
        repeat=24 * HOUR,
    ),
    AlertRule(name="disk_full", check=Check.DISK_FULL, above=0.9, repeat=24 * HOUR),
)


def with_defaults(rules: tuple[AlertRule, ...]) -> tuple[AlertRule, ...]:
    """Return the default rules, with those that are declared in the place of the ones whose names they have."""
    declared = {rule.name: rule for rule in rules}
    kept = tuple(declared.pop(rule.name, rule) for rule in DEFAULT_RULES)
    return (*kept, *(rule for rule in rules if rule.name in declared))
