"""What a child has in hand, written down where its supervisor can read it without the child's help.

A child notes each answered claim call (or one given up), each start, each return of a handler and each ending
that the store took. The log is a few bytes per job in a file that outlives the child (notefile.py), so the
supervisor can name the held claims in its beats even while a handler hogs the interpreter, and knows after a crash
which jobs had started.

    C <call> <claim>…   call answered with these claims       S <claim>   its handler is about to run
    X <call>            call given up                         R <claim>   its handler has returned
    E <claim>…          the store took the ending             (a claim is <job id>:<fence>)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.core.job import ClaimRef

COMPACT_AT = 1024 * 1024
"""Bytes of notes after which they are started anew with what still counts."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What the notes say now. `running` are the claims whose handler started and has not returned."""

    closed_call: int = 0
    held: frozenset[ClaimRef] = frozenset()
    running: frozenset[ClaimRef] = frozenset()


class Log(Protocol):
    """The append-only medium of the notes."""

    def append(self, data: bytes) -> None:
        """Add to the end."""
        ...

    def replace(self, data: bytes) -> None:
        """Start anew with this content, atomically."""
        ...


class LogReader(Protocol):
    """The supervisor's eye on the medium."""

    def read(self) -> tuple[bool, bytes]:
        """Return what was added since the last read, and whether the log was started anew before it."""
        ...


class _Ledger:
    """The notes added up: call number, and for each claim in hand whether its handler runs."""

    def __init__(self) -> None:
        self.closed_call = 0
        self.claims: dict[str, bool] = {}

    def apply(self, kind: str, words: Sequence[str]) -> None:
        match kind:
            case "C":
                self.closed_call = int(words[0])
                self.claims.update(dict.fromkeys(words[1:], False))
            case "X":
                self.closed_call = int(words[0])
            case "S" | "R":
                for claim in words:
                    self.run(claim, kind == "S")
            case "E":
                for claim in words:
                    self.claims.pop(claim, None)
            case _:
                raise ValueError(f"the notes have a line that nobody wrote: {kind!r:.80}")

    def run(self, claim: str, running: bool) -> None:
        if claim in self.claims:
            self.claims[claim] = running


def _word(ref: ClaimRef) -> str:
    return f"{ref.job_id}:{ref.fence}"


def _ref(word: str) -> ClaimRef:
    job_id, _, fence = word.rpartition(":")
    return ClaimRef(job_id, int(fence))


class Notes:
    """The child's pen."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._ledger = _Ledger()
        self._size = 0

    def answered(self, call: int, claims: Iterable[ClaimRef]) -> None:
        """Note a claim call's answer, before anything is done with it."""
        self._note("C", [str(call), *map(_word, claims)])

    def given_up(self, call: int) -> None:
        """Note that a claim call's answer will not be waited for."""
        self._note("X", [str(call)])

    def started(self, ref: ClaimRef) -> None:
        """Note that a handler is about to run."""
        self._note_run("S", ref, running=True)

    def returned(self, ref: ClaimRef) -> None:
        """Note that a handler has returned, or will not run after all."""
        self._note_run("R", ref, running=False)

    def ended(self, refs: Iterable[ClaimRef]) -> None:
        """Note that the store took (or refused) the endings of these claims: they are not ours any more."""
        self._note("E", list(map(_word, refs)))

    def _note_run(self, kind: str, ref: ClaimRef, *, running: bool) -> None:
        word = _word(ref)
        self._ledger.run(word, running)
        self._write(f"{kind} {word}\n".encode())

    def _note(self, kind: str, words: Sequence[str]) -> None:
        self._ledger.apply(kind, words)
        self._write(f"{kind} {' '.join(words)}\n".encode())

    def _write(self, line: bytes) -> None:
        self._size += len(line)
        if self._size < COMPACT_AT and self._appended(line):
            return
        summary = self._summary()
        self._size = len(summary)
        self._log.replace(summary)

    def _appended(self, line: bytes) -> bool:
        """Tell whether there was room; a full disk may still have some for a summary."""
        try:
            self._log.append(line)
        except OSError:
            return False
        return True

    def _summary(self) -> bytes:
        claims = self._ledger.claims
        running = [claim for claim, runs in claims.items() if runs]
        lines = [f"C {self._ledger.closed_call} {' '.join(claims)}", f"S {' '.join(running)}"]
        return ("\n".join(lines) + "\n").encode()


class NotesReader:
    """The supervisor's reading of a child's notes; cheap, because only what is new is read."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._ledger = _Ledger()
        self._rest = b""

    def read(self) -> Noted:
        """Return what the child has in hand. A line still being written is left for the next time."""
        anew, data = self._log.read()
        if anew:
            self._ledger, self._rest = _Ledger(), b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            kind, *words = line.decode().split(" ")
            self._ledger.apply(kind, [word for word in words if word])
        claims = self._ledger.claims
        return Noted(
            self._ledger.closed_call,
            frozenset(map(_ref, claims)),
            frozenset(_ref(claim) for claim, runs in claims.items() if runs),
        )
