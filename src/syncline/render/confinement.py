"""What a rendering child gives up before it sees any untrusted work. It acts on the calling process, for good.

Everywhere: no new file, process or core dump, and an address space a little larger than it is. On Linux also: it dies
with its parent, is the first to go when memory runs out, cannot be inspected, and (x86-64 and arm64) may make only the
system calls that computing needs, so there is no network, no file and no other program to reach. Elsewhere that last
wall is missing; the operator is meant to run on Linux, other systems are for development.
"""

import contextlib
import ctypes
import mmap
import os
import platform
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

MEMORY_LIMIT = 96 * 1024 * 1024
"""Bytes beyond what the child has when it starts. Ordinary work on 1 MiB of data takes 5 to 20 MiB; and two children at
their limits still fit beside the operator in a small pod, where the kernel would end all of them together.
"""

_OPEN_FILES = 3  # standard input, output and error: there is no number left for another

PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

_RETURN_KILL = 0x8000_0000
_RETURN_EPERM = 0x0005_0001
_RETURN_ENOMEM = 0x0005_000C
_RETURN_ALLOW = 0x7FFF_0000

_LOAD_WORD = 0x20
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_NOT_LESS = 0x35
_JUMP_IF_ANY_BIT = 0x45
_RETURN = 0x06
_OFFSET_OF_NUMBER = 0
_OFFSET_OF_ARCHITECTURE = 4
_OFFSET_OF_ARGUMENTS = 16
_OTHER_NUMBERS = 0x4000_0000

# Machine: its audit name, and the system calls that reading, writing, memory, time and leaving take.
_MACHINES = {
    "x86_64": (
        0xC000_003E,
        {
            "read": 0,
            "write": 1,
            "close": 3,
            "fstat": 5,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigaction": 13,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "getpid": 39,
            "exit": 60,
            "getcwd": 79,
            "gettimeofday": 96,
            "sigaltstack": 131,
            "gettid": 186,
            "futex": 202,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "exit_group": 231,
            "getrandom": 318,
        },
    ),
    "aarch64": (
        0xC000_00B7,
        {
            "getcwd": 17,
            "close": 57,
            "lseek": 62,
            "read": 63,
            "write": 64,
            "fstat": 80,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "clock_gettime": 113,
            "sched_yield": 124,
            "restart_syscall": 128,
            "sigaltstack": 132,
            "rt_sigaction": 134,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "gettimeofday": 169,
            "getpid": 172,
            "gettid": 178,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "mmap": 222,
            "mprotect": 226,
            "madvise": 233,
            "getrandom": 278,
        },
    ),
}


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def confine(memory: int = MEMORY_LIMIT) -> bool:
    """Give up everything but computing, in this much more memory; return whether the system call filter is in place."""
    os.environ.clear()
    linux = sys.platform == "linux"
    if linux:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        prctl(_PR_SET_DUMPABLE, 0)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    limit(resource.RLIMIT_NPROC, 0)
    limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    return linux and _filter_system_calls()


def limit(what: int, value: int) -> None:
    """Lower a limit for good, or as far as it is not lower already."""
    _, hard = resource.getrlimit(what)
    lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (lower, lower))


def prctl(*arguments: int | ctypes.Array[_Instruction] | _Program) -> bool:
    """Call prctl; return whether it went well."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [
        ctypes.c_ulong(argument) if isinstance(argument, int) else ctypes.byref(argument) for argument in arguments
    ]
    words += [ctypes.c_ulong(0)] * (5 - len(words))
    return bool(libc.prctl(*words) == 0)


def _filter_system_calls() -> bool:
    machine = _MACHINES.get(platform.machine())
    return machine is not None and _filter(machine[0], machine[1].values(), _RETURN_ALLOW, _RETURN_EPERM)


def deny_system_calls(numbers: Iterable[int], largest_mapping: int) -> bool:
    """Answer these system calls by "not permitted", for good, also in programs that this process becomes.

    Mappings that can be written and are larger than so many bytes, below 4 GiB, are answered by "no memory": the kernel
    looks at no limit where one replaces a reservation, as Go does it.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    mapping = [
        (_JUMP_IF_EQUAL, 0, 7, machine[1]["mmap"]),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 16),
        (_JUMP_IF_ANY_BIT, 0, 5, mmap.PROT_WRITE),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 12),
        (_JUMP_IF_EQUAL, 0, 2, 0),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 8),
        (_JUMP_IF_NOT_LESS, 0, 1, largest_mapping + 1),
        (_RETURN, 0, 0, _RETURN_ENOMEM),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_NUMBER),
    ]
    return _filter(machine[0], numbers, _RETURN_EPERM, _RETURN_ALLOW, mapping)


def _filter(
    architecture: int,
    numbers: Iterable[int],
    answer: int,
    otherwise: int,
    before: Sequence[tuple[int, int, int, int]] = (),
) -> bool:
    """Answer the numbered system calls one way and all else another; those of other architectures end the process."""
    if sys.maxsize < 2**32:
        return False
    ordered = sorted(numbers)
    lines = [
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _RETURN_KILL),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_NUMBER),
        # x86-64 has a second set of numbers for the same calls.
        (_JUMP_IF_NOT_LESS, 0, 1, _OTHER_NUMBERS),
        (_RETURN, 0, 0, _RETURN_KILL),
        *before,
        *((_JUMP_IF_EQUAL, len(ordered) - at, 0, number) for at, number in enumerate(ordered)),
        (_RETURN, 0, 0, otherwise),
        (_RETURN, 0, 0, answer),
    ]
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    return prctl(PR_SET_NO_NEW_PRIVS, 1) and prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program)
