"""What a person asked of `standfast worker`."""

from dataclasses import dataclass, field
from pathlib import Path

from standfast.watch.options import LogOptions
from standfast.worker.served import ServedQueues


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where metrics are served, and who may ask for them: the networks, and anybody with the token."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The command line, parsed; None leaves the matter to the app's settings. Spans are seconds.

    target: the app as MODULE:APP; app_dir: where MODULE is looked for first; queues: only these, by weight
    or in the order given; concurrency: jobs at a time in each of `processes` children; drain: stop when nothing is
    left to do; logs: what is told on stderr; reload: replace the children when the code of the app changes;
    alive_file: touched every few seconds while a child is ready; metrics: where they are served;
    metrics_dir: the folder in which children count for metrics that are served elsewhere.
    """

    target: str
    drain: bool
    processes: int
    concurrency: int | None
    queues: ServedQueues | None
    grace: float | None
    lease: float | None
    app_dir: str
    url: str | None
    logs: LogOptions
    reload: bool = False
    alive_file: Path | None = None
    metrics: MetricsOptions | None = None
    metrics_dir: str | None = None
