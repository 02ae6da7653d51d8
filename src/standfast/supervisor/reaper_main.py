"""The guard process itself: `python -I -S reaper_main.py PATIENCE`, started by a supervisor. It uses Python's own.

    hearing ─(the supervisor's end of the pipe is closed)─► waiting ─► killing ─► over
                                                                └─(none is left)──►┘

On its standard input it hears which children there are, `+PID` and `-PID`, and of another PATIENCE, `=SECONDS`, a
line each. Whatever children have started it finds by itself, also in process groups of their own. When the pipe is
closed the supervisor is gone: children that are well leave by themselves, and what is left after PATIENCE seconds
is killed. A pid that was given to another process meanwhile is told by when that process was started.
"""

import os
import select
import signal
import sys
import time

KILL_WITHIN = 3.0  # seconds for which what is left is killed, again and again: it may start more
LEARN_EVERY = 1.0
POLL = 0.1
Known = dict[int, tuple[str, int]]  # when each process was started, and from which child it comes
_STATE, _PARENT, _STARTED = 0, 1, 19


def main() -> None:
    """Guard until the supervisor is gone, and its children with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    known: Known = {}
    wait_and_kill(known, hear(known, float(sys.argv[1])))


def hear(known: Known, patience: float) -> float:
    """Learn of children until the supervisor says no more; return the patience that it said last."""
    quick, heard = knows_children(), b""
    while True:
        ready, _, _ = select.select([0], [], [], LEARN_EVERY if quick and known else None)
        if not ready:
            learn(known)
            continue
        said = os.read(0, 65536)
        if not said:
            return patience
        *lines, heard = (heard + said).split(b"\n")
        for line in lines:
            if line[:1] == b"=":
                patience = float(line[1:])
            elif line[:1] == b"+":
                add(known, int(line[1:]), int(line[1:]))
            else:
                for each in [each for each, (_, root) in known.items() if root == int(line[1:])]:
                    del known[each]


def wait_and_kill(known: Known, patience: float) -> None:
    """Wait until none of the processes is left, and kill those that stay."""
    kill_at = time.monotonic() + patience
    while time.monotonic() < kill_at + KILL_WITHIN:
        learn(known)
        for pid in [pid for pid, (started, _) in known.items() if started_of(pid) != started]:
            del known[pid]
        if not known:
            return
        if time.monotonic() >= kill_at:
            for pid in known:
                kill(pid)
        time.sleep(POLL)


def kill(pid: int) -> None:
    """End a process at once, and say so."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.write(2, f"standfast: the supervisor is gone, and process {pid} was left behind: killed\n".encode())
    except OSError:
        pass


def add(known: Known, pid: int, root: int) -> None:
    """Know of a process, unless it is gone."""
    started = started_of(pid)
    if started is not None:
        known[pid] = started, root


def learn(known: Known) -> None:
    """Know also what the processes have started, and these in turn."""
    parents = None if knows_children() else parents_of_all()
    found = list(known)
    for pid in found:
        children = children_of(pid) if parents is None else [each for each in parents if parents[each] == pid]
        for child in children:
            if child not in known:
                add(known, child, known[pid][1])
                if child in known:
                    found.append(child)


# -- what the system knows -------------------------------------------------------------------------------------


def started_of(pid: int) -> "str | None":
    """Return when a process was started; None where it has ended, though nobody may have taken note of that."""
    if sys.platform == "linux":
        fields = stat_of(pid)
        return None if fields is None or fields[_STATE] in "ZX" else fields[_STARTED]
    words = ask_ps("-o", "stat=,lstart=", "-p", str(pid))
    return None if not words or words[0][0].startswith("Z") else " ".join(words[0][1:])


def stat_of(pid: int) -> "list[str] | None":
    """Return what Linux says of a process, from its state on: its name before it may have anything in it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib would be most of this process
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def knows_children() -> bool:
    """Tell whether Linux tells the children of a process without a look at all processes."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110 - likewise


def children_of(pid: int) -> "list[int]":
    """Return the children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - likewise
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:  # noqa: PTH123 - likewise
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def parents_of_all() -> "dict[int, int]":
    """Return the parent of every process there is."""
    if sys.platform != "linux":
        return {int(pid): int(parent) for pid, parent in ask_ps("-axo", "pid=,ppid=")}
    stats = {int(name): stat_of(int(name)) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - likewise
    return {pid: int(fields[_PARENT]) for pid, fields in stats.items() if fields is not None}


def ask_ps(*arguments: str) -> "list[list[str]]":
    """Return the words of each line that `ps` says."""
    import subprocess  # noqa: PLC0415 - not on Linux

    said = subprocess.run(["ps", *arguments], stdout=subprocess.PIPE, check=False, text=True)  # noqa: S603, S607 - numbers alone
    return [line.split() for line in said.stdout.splitlines() if line.strip()]


if __name__ == "__main__":
    main()
