"""Collects evidence: jobs, the machine, this installation, and a living child; each collector has a time limit."""

import asyncio
import os
import platform
import re
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from standfast.errors import ConfigurationError, StoreError
from standfast.model.display import counted, with_note
from standfast.model.incidents import InvolvedJob
from standfast.model.job import ClaimRef, Job, Progress
from standfast.model.redaction import redact_environment, redact_text
from standfast.model.states import State
from standfast.stores.url import public_name
from standfast.stores.values import JobFilter
from standfast.supervisor.child import Child
from standfast.supervisor.incidents.death import megabytes, sizes_in
from standfast.worker.loops import users_line
from standfast.worker.storecalls import StoreCalls


async def gather(collectors: Mapping[str, Awaitable[str]], within: float) -> dict[str, str]:
    """Return what each has found by then; nothing stands for nothing found."""
    texts = await asyncio.gather(*(_found(each, within) for each in collectors.values()))
    return {name: text for name, text in zip(collectors, texts, strict=True) if text}


async def _found(collector: Awaitable[str], within: float) -> str:
    try:
        async with asyncio.timeout(within):
            return await collector
    except TimeoutError:
        return "(not known: there was no answer in time)"
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        return f"(not known: {type(error).__name__}: {error})"


MOST_ASKED = 50  # jobs that the store is asked about for one incident; of more, the ids alone are told
MOST_RUNNING = 1000  # running jobs of the whole fleet among which those of a lost worker are looked for
MOST_NAMED = 5  # tasks that the words about an incident name
JOBS_WITHIN = 2.0  # seconds for the store to answer


async def involved(calls: StoreCalls | None, refs: Iterable[ClaimRef]) -> tuple[InvolvedJob, ...]:
    """Return the jobs behind these claims; only their ids where the store cannot be asked."""
    wanted = sorted(refs)
    told: dict[str, Job] = {}
    if calls is not None:
        try:
            async with asyncio.timeout(JOBS_WITHIN):
                for ref in wanted[:MOST_ASKED]:
                    job = await calls.once(calls.verbs.get(ref.job_id))
                    told |= {} if job is None else {job.id: job}
        except (StoreError, TimeoutError):
            pass
    return tuple(_involved(ref, told.get(ref.job_id)) for ref in wanted)


async def jobs_of(calls: StoreCalls, worker: str) -> tuple[InvolvedJob, ...]:
    """Return the jobs that are marked as running on a worker."""
    running = (await calls.once(calls.verbs.list_jobs(JobFilter(states=(State.RUNNING,), limit=MOST_RUNNING)))).jobs
    return tuple(_involved(ClaimRef(job.id, job.fence), job) for job in running if job.worker == worker)


def running(jobs: Sequence[InvolvedJob]) -> str:
    """Return what ran, to follow what happened: ` while it ran send_email 0197…`."""
    return f" while it ran {words_of(jobs)}" if jobs else " with no job running"


def words_of(jobs: Sequence[InvolvedJob]) -> str:
    """Return these jobs, of which there is one at least: `send_email 0197…`, or `2 jobs of crash, send_email`.

    Of several nobody knows which is to blame: so none is named before the others.
    """
    if len(jobs) == 1:
        return f"{jobs[0].task or 'job'} {jobs[0].job_id}"
    tasks = sorted({job.task for job in jobs if job.task})
    more = len(tasks) - MOST_NAMED
    named = f" of {', '.join(tasks[:MOST_NAMED])}" if tasks else ""
    return f"{counted(len(jobs), 'job')}{named}{f' and {more} more' if more > 0 else ''}"


def _involved(ref: ClaimRef, job: Job | None) -> InvolvedJob:
    if job is None:
        return InvolvedJob(ref.job_id, ref.fence)
    same = job.fence == ref.fence
    # Once it was given back, nobody can tell whether that was charged.
    attempt = job.attempt + 1 if same and job.state in {State.HELD, State.RUNNING} else 0
    return InvolvedJob(ref.job_id, ref.fence, job.task, attempt, _progress(job.progress) if same else None)


def _progress(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    words = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    return with_note(words, progress.note)


_URL = "--url"
_SHOWN = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")


@cache
def versions() -> str:
    """Return the versions of Python, this package, the system, and every package that is installed."""
    from importlib.metadata import PackageNotFoundError, distributions, version  # noqa: PLC0415 - slow to import

    try:
        ours = version("standfast")
    except PackageNotFoundError:
        ours = "not installed as a package"
    about = {
        "standfast": ours,
        "python": f"{platform.python_implementation()} {sys.version}",
        "executable": sys.executable,
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
    }
    packages = {str(each.metadata["Name"]): each.version for each in distributions() if each.metadata["Name"]}
    return f"{_lines(about)}\n\n{_lines(dict(sorted(packages.items(), key=lambda each: each[0].lower())))}"


def machine() -> str:
    """Return how the machine is doing."""
    about = {"host": platform.node(), "processors": str(os.cpu_count())}
    if hasattr(os, "getloadavg"):
        about["load"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    meminfo = Path("/proc/meminfo")
    sizes = sizes_in(meminfo.read_text()) if meminfo.exists() else {}
    about |= {name: megabytes(sizes[name]) for name in _SHOWN if name in sizes}
    return _lines(about)


def own_limits() -> str:
    """Return what the system allows this process, which its children inherit."""
    import resource  # noqa: PLC0415 - not on Windows, where this module is imported and never used

    def words(number: int) -> str:
        return " of ".join("unlimited" if each < 0 else str(each) for each in resource.getrlimit(number))

    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return _lines({name: words(getattr(resource, name)) for name in names})


def command_line(words: Sequence[str]) -> str:
    """Return the command line without what is secret in it: of a URL only what people may see."""
    shown, last = [], ""
    for word in words:
        name, equals, value = word.partition("=")
        if last == _URL:
            shown.append(_public(word))
        elif equals and name == _URL:
            shown.append(f"{name}={_public(value)}")
        else:
            shown.append(word)
        last = word
    return " ".join(shown)


def _public(url: str) -> str:
    try:
        return public_name(url)
    except (ConfigurationError, ValueError):
        return "(hidden)"


def _lines(about: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in about.items())


MACHINE_WITHIN = 1.0  # seconds for all of it


async def surroundings(supervisor: Callable[[], str]) -> dict[str, str]:
    """Return texts by name; `supervisor` tells how the one who tells is doing."""
    collectors: dict[str, Callable[[], str]] = {
        "supervisor": supervisor,
        "machine": machine,
        "limits": own_limits,
        "command": lambda: redact_text(command_line(sys.orig_argv)),
        "environment": _environment,
        "versions": versions,
    }
    return await gather({name: asyncio.to_thread(each) for name, each in collectors.items()}, MACHINE_WITHIN)


def _environment() -> str:
    return "\n".join(f"{name}={value}" for name, value in redact_environment(os.environ).items())


FACTS_WITHIN, PY_SPY_WITHIN = 0.5, 2.0  # seconds for each
MOST_THREADS = 64
MOST_CHARACTERS = 256 * 1024  # how much of what py-spy says is kept
PY_SPY = "py-spy"

_OF_PROCESS = ("status", "stat", "wchan", "stack", "limits", "io")
_OF_THREAD = ("comm", "wchan")


async def seen_from_outside(pid: int) -> dict[str, str]:
    """Return what can be seen of a living process, within seconds: texts by name."""
    facts = await gather({"process": asyncio.to_thread(process_facts, pid)}, FACTS_WITHIN)
    return facts | await gather({"native_stacks": py_spy(pid)}, PY_SPY_WITHIN)  # last, as it holds the process up


def process_facts(pid: int, proc: Path = Path("/proc")) -> str:
    """Return what the kernel tells of a process and its threads, as far as we may read it."""
    own = proc / str(pid)
    parts = [f"{name}:\n{text}" for name in _OF_PROCESS if (text := _read(own / name))]
    threads = list(_threads(own / "task"))
    return "\n\n".join([*parts, *(["threads:\n" + "\n".join(threads)] if threads else [])])


def _threads(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for thread in sorted(folder.iterdir())[:MOST_THREADS]:
            words = [_read(thread / name) or "?" for name in _OF_THREAD]
            state = next((line for line in _read(thread / "status").splitlines() if line.startswith("State:")), "")
            yield f"{thread.name} {words[0]}: {state.removeprefix('State:').strip()}, waits in {words[1]}"


def find_py_spy() -> str | None:
    """Return where py-spy is: on PATH or beside this interpreter; None where it is not installed."""
    return shutil.which(PY_SPY) or shutil.which(PY_SPY, path=str(Path(sys.executable).parent))


async def py_spy(pid: int, command: str | None = None) -> str:
    """Return the stacks of a process with native frames; nothing where py-spy is not installed."""
    command = command or find_py_spy()
    if command is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        command,
        *("dump", "--native", "--pid", str(pid)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.decode(errors="replace")[:MOST_CHARACTERS]


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


PICTURED_WITHIN = 0.5  # seconds for its event loop to answer; one that is blocked never does
STACKS_WITHIN = 1.5  # seconds for its stacks, whose own limit is shorter


async def take_portrait(child: Child) -> dict[str, str]:
    """Return texts by name, within seconds and whatever is wrong with it."""
    itself = {"stacks": child.process.stacks(), "coroutines": child.picture(PICTURED_WITHIN)}
    told = await gather(itself, STACKS_WITHIN)
    try:
        return {**told, **await child.process.seen_from_outside()}
    except Exception as error:  # noqa: BLE001 - evidence is never worth another failure
        return {**told, "process": f"(not known: {type(error).__name__}: {error})"}


_THREAD = re.compile(r"^(?=Thread 0x|Current thread 0x)", re.MULTILINE)
_CURRENT = "Current thread"


def where_it_hangs(stacks: str) -> str:
    """Return the innermost line of the user's code; nothing where none of it runs.

    The main thread, which takes the signal, is to blame if it is there: it turns the event loop. Else one of the
    others holds the interpreter, and where several are in the user's code nobody can tell which.
    """
    threads = sorted(_THREAD.split(stacks), key=lambda thread: not thread.startswith(_CURRENT))
    if threads[0].startswith(_CURRENT) and (where := users_line(threads[0])):
        return where
    first, *others = list(filter(None, map(users_line, threads))) or [""]
    return f"{first}, or in {counted(len(others), 'other thread')}" if others else first
