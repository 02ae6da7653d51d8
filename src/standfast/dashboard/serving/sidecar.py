"""The dashboard beside the workers of `standfast up`: a process of its own, which is started again if it dies.

It ends with us, however we end: it holds one end of a pipe, and hears when nobody has the other any more.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

log = logging.getLogger(__name__)

STAYS_WITH = "_STANDFAST_STARTER"
"""Names the end of the pipe in the environment of the process."""

_RUN = "from standfast.cli.main import main; main()"
_CONFIGURATION = 2
"""The exit code of what somebody has to put right first."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_LEAVE = 5.0


@contextmanager
def dashboard_sidecar(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Keep `standfast dashboard` with these arguments running inside the block.

    What may be secret goes into its environment: arguments are seen by everybody on the machine.
    """
    beside = _Sidecar([sys.executable, "-c", _RUN, "dashboard", *arguments], environment)
    beside.start()
    try:
        yield
    finally:
        beside.stop()


class _Sidecar:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._changing = threading.Lock()
        self._keeping = threading.Thread(target=self._keep, name="standfast-dashboard", daemon=True)

    def start(self) -> None:
        self._keeping.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._changing:
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_LEAVE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._keeping.join(_LEAVE)

    def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            code = self._run_once()
            if self._stopping.is_set() or code is None:
                return
            if code in {0, _CONFIGURATION}:
                log.warning("the dashboard is not there, the workers go on without it")
                return
            log.warning("the dashboard ended with %d, and is started again in %g s", code, pause)
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _run_once(self) -> int | None:
        theirs, ours = os.pipe()
        with self._changing:
            if self._stopping.is_set():
                os.close(theirs)
                os.close(ours)
                return None
            # In a session of its own: Ctrl-C is for the workers, which may take a while, and be watched meanwhile.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs,),
                env={**os.environ, **self._environment, STAYS_WITH: str(theirs)},
                start_new_session=True,
            )
        os.close(theirs)
        try:
            return self._process.wait()
        finally:
            os.close(ours)


def end_with_starter(end: Callable[[], None]) -> None:
    """In the process itself: call `end` when whoever started it is gone. One that was started by hand stays."""
    number = os.environ.pop(STAYS_WITH, None)
    if number is not None:
        threading.Thread(
            target=_wait_for_end, args=(int(number), end), name="standfast-starter", daemon=True
        ).start()


def _wait_for_end(number: int, end: Callable[[], None]) -> None:
    while os.read(number, 1):
        pass
    end()
