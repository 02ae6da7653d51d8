"""What a person asked of `holdfast worker`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The command line, parsed; None leaves the matter to the app's settings. Spans are seconds.

    target: the app as MODULE:APP; app_dir: where MODULE is looked for first; queues: only these, the first
    before the others; concurrency: jobs at a time in each of `processes` children; drain: stop when nothing is
    left to do; console: tell each event on stderr.
    """

    target: str
    drain: bool
    processes: int
    concurrency: int | None
    queues: tuple[str, ...] | None
    grace: float | None
    lease: float | None
    app_dir: str
    url: str | None
    console: bool
