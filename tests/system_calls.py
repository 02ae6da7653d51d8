"""Runs work in a forked process of which one system call fails, or which is killed there, by ptrace."""

import ctypes
import errno
import fcntl
import os
import platform
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

_TRACEME, _CONT, _SYSCALL, _SETOPTIONS, _GETREGSET, _SETREGSET = 0, 7, 24, 0x4200, 0x4204, 0x4205
_SYSGOOD_AND_EXITKILL = 0x1 | 0x100000
_NT_PRSTATUS, _NT_ARM_SYSTEM_CALL = 1, 0x404
_AT_SYSCALL = signal.SIGTRAP | 0x80
_NOT_TRACED = 77


@dataclass(frozen=True)
class _Machine:
    """Which registers have the number of a call, its result and arguments; the numbers of calls about files."""

    registers: int
    number: int
    result: int
    arguments: tuple[int, int, int]
    kill: int
    close: int
    fcntl: int
    files: frozenset[int]


_MACHINES = {
    # read write open close stat fstat lstat lseek pread64 pwrite64 access sendto fcntl flock fsync fdatasync
    # truncate ftruncate mkdir unlink socket getdents64 openat mkdirat newfstatat unlinkat faccessat fallocate statx
    "x86_64": _Machine(
        27,
        15,
        10,
        (14, 13, 12),
        62,
        3,
        72,
        frozenset({0, 1, 2, 3, 4, 5, 6, 8, 17, 18, 21, 44, 72, 73, 74, 75, 76, 77, 83, 87, 41, 217})
        | {257, 258, 262, 263, 269, 285, 332},
    ),
    "aarch64": _Machine(
        34,
        8,
        0,
        (0, 1, 2),
        129,
        57,
        25,
        frozenset({63, 64, 57, 79, 80, 62, 67, 68, 48, 206, 25, 32, 82, 83, 45, 46, 34, 35, 198, 61, 56, 47, 291}),
    ),
}


class Fault(StrEnum):
    """What happens at a system call."""

    EIO = "EIO"
    ENOSPC = "ENOSPC"
    KILLED_BEFORE = "killed before it"
    KILLED_AFTER = "killed after it"


_ERRORS = {Fault.EIO: errno.EIO, Fault.ENOSPC: errno.ENOSPC}


class _Place(ctypes.Structure):
    """Where registers are copied to, and from."""

    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


@dataclass(frozen=True)
class Ended:
    """How a process ended: what it reported, how many calls its window had, and whether the fault happened."""

    report: str | None
    calls: int
    struck: str
    """The call with its arguments at which the fault happened; empty if it did not."""


@contextmanager
def window() -> Iterator[None]:
    """Let the system calls inside count."""
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(os.getpid(), signal.SIGSTOP)


def run_with_fault(work: Callable[[], str], fault: Fault | None = None, at: int = 0) -> Ended:
    """Run work in a forked process with a fault at the call of this number; its answer is the report."""
    machine = _MACHINES.get(platform.machine())
    assert sys.platform == "linux", "faults are brought into system calls by ptrace, which is Linux's"
    assert machine is not None, f"the registers of {platform.machine()} are not known here: add them to _MACHINES"
    hears, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hears)
        _be_traced(work, says)
    os.close(says)
    try:
        tracer = _Tracer(child, machine, fault, at)
        tracer.run()
    finally:
        with os.fdopen(hears, "rb") as pipe:
            report = pipe.read().decode()
    return Ended(report or None, tracer.calls, tracer.struck)


def _be_traced(work: Callable[[], str], says: int) -> None:
    try:
        if _libc.ptrace(_TRACEME, 0, None, None) != 0:
            os._exit(_NOT_TRACED)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.write(says, work().encode())
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run here
        os.write(says, f"failed: {traceback.format_exc()}".encode())
    os._exit(0)


class _Tracer:
    """Follows a process from stop to stop. One that it leaves behind is ended by the kernel with this one."""

    def __init__(self, child: int, machine: _Machine, fault: Fault | None, at: int) -> None:
        self._child = child
        self._machine = machine
        self._fault = fault
        self._at = at
        self.calls = 0
        self.struck = ""

    def run(self) -> None:
        assert self._wait() == signal.SIGSTOP, (
            "ptrace is not permitted here: in a container, let it have the capability SYS_PTRACE"
        )
        self._ask(_SETOPTIONS, 0, _SYSGOOD_AND_EXITKILL)
        if self._go_on(_CONT) != signal.SIGSTOP:
            return  # it failed before its window
        self._watch()

    def _watch(self) -> None:
        """Go from call to call until the window is over, and then to the end."""
        stopped = self._go_on(_SYSCALL)
        while stopped == _AT_SYSCALL and (number := self._get(self._machine.number)) != self._machine.kill:
            self.calls += 1
            struck = self._fault if self.calls == self._at else None
            if struck in {Fault.KILLED_BEFORE, Fault.KILLED_AFTER}:
                self.struck = self._described(number)
            if struck is Fault.KILLED_BEFORE:
                return self._kill()
            code = self._error(struck, number)
            if code and number != self._machine.close:  # what is closed is closed, whatever is said of it
                self._skip()
            self._go_on(_SYSCALL)
            if struck is Fault.KILLED_AFTER:
                return self._kill()
            if code:
                self._set(self._machine.result, -code)
            stopped = self._go_on(_SYSCALL)
        while stopped is not None:
            stopped = self._go_on(_CONT)
        return None

    def _error(self, fault: Fault | None, number: int) -> int:
        """Return with which error this call has to fail, 0 if it has not to."""
        if fault not in _ERRORS or number not in self._machine.files or self._unlocks(number):
            return 0
        self.struck = self._described(number)
        return _ERRORS[fault]

    def _unlocks(self, number: int) -> bool:
        """Tell whether the call gives back a lock of a file, which no kernel fails to do."""
        _, command, place = (self._get(register) for register in self._machine.arguments)
        if number != self._machine.fcntl or command not in {fcntl.F_SETLK, fcntl.F_SETLKW}:
            return False
        with Path(f"/proc/{self._child}/mem").open("rb") as memory:
            memory.seek(place)
            return bool(struct.unpack("h", memory.read(2))[0] == fcntl.F_UNLCK)

    def _described(self, number: int) -> str:
        arguments = ", ".join(hex(self._get(register)) for register in self._machine.arguments)
        return f"system call {number}({arguments})"

    def _kill(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        while self._wait() is not None:
            pass

    def _skip(self) -> None:
        """Let the call that is about to begin not happen."""
        if platform.machine() == "aarch64":
            self._registers(_SETREGSET, _NT_ARM_SYSTEM_CALL, ctypes.create_string_buffer(struct.pack("i", -1), 4))
        else:
            self._set(self._machine.number, -1)

    def _get(self, register: int) -> int:
        return int(struct.unpack_from("q", self._all_registers(), register * 8)[0])

    def _set(self, register: int, value: int) -> None:
        registers = self._all_registers()
        struct.pack_into("q", registers, register * 8, value)
        self._registers(_SETREGSET, _NT_PRSTATUS, registers)

    def _all_registers(self) -> Any:
        registers = ctypes.create_string_buffer(self._machine.registers * 8)
        self._registers(_GETREGSET, _NT_PRSTATUS, registers)
        return registers

    def _registers(self, request: int, which: int, buffer: Any) -> None:
        place = _Place(ctypes.addressof(buffer), len(buffer))
        self._ask(request, which, ctypes.addressof(place))

    def _go_on(self, request: int) -> int | None:
        self._ask(request, 0, 0)
        return self._wait()

    def _ask(self, request: int, address: int, data: int) -> None:
        if _libc.ptrace(request, self._child, address, data) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace request {request}")

    def _wait(self) -> int | None:
        """Wait until it is stopped, and return by what; None once it is gone."""
        _, status = os.waitpid(self._child, 0)
        return os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None
