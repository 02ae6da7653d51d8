"""A thread that is there for as long as there is something to do.

    called ─► starts ─► attends, and is woken by each call ─► has nothing to do for a moment ─► leaves

After it left, the next call starts another.
"""

import threading
from collections.abc import Callable


class Attendant:
    """The thread of one owner, who also guards by its `lock` what both of them change.

    `live` is what it does until it has left; `failed` hears what that raises, and has to `leave` for it.
    """

    def __init__(self, name: str, live: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self.lock = threading.RLock()  # a signal's handler may call it too, in the thread that has the lock
        self._name = name
        self._live = live
        self._failed = failed
        self._thread: threading.Thread | None = None
        self._previous: threading.Thread | None = None
        self._attends = False
        self._wake: Callable[[], object] | None = None

    def call(self) -> None:
        """Have it look at what there is to do, and start it unless it is there."""
        with self.lock:
            if not self._attends:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._begin(thread)
            self._call()

    def attend(self, wake: Callable[[], object]) -> None:
        """Let it be woken like this from now on."""
        with self.lock:
            self._wake = wake

    def leave(self) -> None:
        """Let it go: who calls from now on starts another."""
        with self.lock:
            self._attends, self._wake = False, None

    def join(self) -> None:
        """Wake it for the last time, and wait for its end."""
        with self.lock:
            self._call()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _call(self) -> None:
        if self._wake is not None:
            self._wake()

    def _begin(self, thread: threading.Thread) -> bool:
        """Let a thread attend unless another does.

        Its starter calls this, and so does the thread itself, because the starter may be interrupted before.
        """
        with self.lock:
            if not self._attends:
                self._previous, self._thread, self._attends = self._thread, thread, True
            return self._thread is thread

    def _run(self) -> None:
        if not self._begin(threading.current_thread()):
            return
        if self._previous is not None:
            self._previous.join()  # it has left and is tidying up
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - whoever counts on it has to hear of that
            self._failed(error)
