"""The hooks by which a child hears of exceptions that nobody else could: all that Python has, chained.

    sys.excepthook            what ends the main thread, or is handed to the hook by a library
    threading.excepthook      what ends a thread
    the event loop's handler  what a callback raises, and a task that nobody awaits
    sys.unraisablehook        what is raised where nothing can be: in `__del__`, in a collector's callback
    warnings.showwarning      a coroutine that was never awaited, where the filters let that be shown

A hook that was there before is called as before; Python's own, which print, are replaced by the log, so that it has
one form and a flood does not drown it. Whoever sets a hook later has it: we do not look.
"""

import asyncio
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType, TracebackType
from typing import Any, TextIO

from standfast.durable.runtime import current_attempt
from standfast.observe.logs.job_log import note_starters
from standfast.worker.unhandled import ErrorSource, Lines, attempt_behind, attempt_of, lines_from, starter_of

_NEVER_AWAITED = "was never awaited"
LongForm = dict[str, Any]  # what an event loop tells its handler


Hear = Callable[..., bool]  # `UnhandledErrors.heard`: takes an exception, tells whether it will be told


def install_excepthooks(hear: Hear, loop: asyncio.AbstractEventLoop | None = None) -> Callable[[], None]:
    """Set all hooks; return what puts back those that are still ours."""
    ended = ExitStack()
    for hook in (_main_thread, hear_threads, _unraisable, _warnings):
        ended.callback(hook(hear))
    if loop is not None:
        ended.callback(hear_loop(hear, loop))
    ended.callback(note_starters())
    return ended.close


def _here() -> ErrorSource | None:
    return attempt_of(current_attempt.get())


def _main_thread(hear: Hear) -> Callable[[], None]:
    former = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        by_person = isinstance(error, KeyboardInterrupt | SystemExit)
        heard = not by_person and hear(error, lambda: {"where": "what was given to sys.excepthook"}, _here)
        if not heard or former is not sys.__excepthook__:
            former(kind, error, trace)

    sys.excepthook = hook
    return partial(_put_back, sys, "excepthook", hook, former)


def hear_threads(hear: Hear, *, of_attempts: bool = False) -> Callable[[], None]:
    """Set the hook of threads, or of those that handlers have started alone; return what puts it back."""
    former = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        thread, error, heard = args.thread, args.exc_value, False
        if error is not None and not isinstance(error, SystemExit):  # by which a thread may end itself

            def about() -> dict[str, str]:
                return {"where": f"thread {thread.name!r}" if thread is not None else "a thread that has ended"}

            whose = _here() or starter_of(thread)
            heard = (whose is not None or not of_attempts) and hear(error, about, lambda: whose)
        if not heard or former is not threading.__excepthook__:
            former(args)

    threading.excepthook = hook
    return partial(_put_back, threading, "excepthook", hook, former)


def _unraisable(hear: Hear) -> Callable[[], None]:
    former = sys.unraisablehook

    def hook(args: "sys.UnraisableHookArgs") -> None:
        error, heard = args.exc_value, False
        if error is not None:

            def about() -> dict[str, str]:
                # Of the object only its name is taken: to keep it would bring it back to life.
                name = getattr(args.object, "__qualname__", None) or type(args.object).__qualname__
                return {"where": f"{name}, where Python ignores exceptions", "said": args.err_msg or ""}

            heard = hear(error, about, _here)
        if not heard or former is not sys.__unraisablehook__:
            former(args)

    sys.unraisablehook = hook
    return partial(_put_back, sys, "unraisablehook", hook, former)


def _warnings(hear: Hear) -> Callable[[], None]:
    former = warnings.showwarning

    def hook(  # noqa: PLR0917 - as Python calls it
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, RuntimeWarning) and _NEVER_AWAITED in str(message):
            frame = _without_carriers(sys._getframe(1))  # noqa: SLF001 - the documented way
            hear(
                message,
                lambda: {"where": f"{filename}:{lineno}, where it was let go"},
                _here,
                lines=(*lines_from(frame), (str(message), lineno)),
                trace=lambda: "".join([*traceback.format_stack(frame), f"{category.__name__}: {message}\n"]),
            )
        former(message, category, filename, lineno, file, line)

    warnings.showwarning = hook
    return partial(_put_back, warnings, "showwarning", hook, former)


def _without_carriers(frame: FrameType | None) -> FrameType | None:
    """Return the frame in which a warning arose, without those that carry it here."""
    while frame is not None and frame.f_code.co_filename == warnings.__file__:
        frame = frame.f_back
    return frame


def hear_loop(hear: Hear, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Set the hook of an event loop; return what puts it back."""
    former = loop.get_exception_handler()

    def hook(loop: asyncio.AbstractEventLoop, told: LongForm) -> None:
        thing = told.get("task") or told.get("future") or told.get("handle")
        error = told.get("exception")
        lines: Lines | None = None
        if not isinstance(error, BaseException):  # e.g. a task that was destroyed while it waited
            error = RuntimeError(told.get("message", "the event loop met an error"))
            lines = ((_name_of(thing), 0),)

        def about() -> dict[str, str]:
            return {"where": _name_of(thing), "said": str(told.get("message", ""))}

        heard = hear(error, about, lambda: attempt_behind(thing) or _here(), lines=lines)
        if former is not None:
            former(loop, told)
        elif not heard:
            loop.default_exception_handler(told)

    loop.set_exception_handler(hook)

    def put_back() -> None:
        if loop.get_exception_handler() is hook:
            loop.set_exception_handler(former)

    return put_back


def _name_of(thing: object) -> str:
    """Return what a task or a callback of the event loop is called."""
    if isinstance(thing, asyncio.Task):
        code = getattr(thing.get_coro(), "__qualname__", "")
        return f"task {thing.get_name()!r} ({code})"
    callback = getattr(thing, "_callback", None)
    while isinstance(callback, partial):
        callback = callback.func
    if callback is not None:
        return f"callback {getattr(callback, '__qualname__', type(callback).__qualname__)}"
    return "no task and no callback" if thing is None else type(thing).__qualname__


def _put_back(home: Any, name: str, ours: object, former: object) -> None:
    """Undo a hook, unless somebody has set another one since."""
    if getattr(home, name) is ours:
        setattr(home, name, former)
