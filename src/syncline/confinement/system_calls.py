"""Limits of a process, and filters of system calls. They apply to the calling process permanently."""

from __future__ import annotations

import ctypes
import os
import resource
import sys

TYPE_CHECKING = False  # modules for types are not loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
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
_AND = 0x54
_RETURN = 0x06
_OFFSET_OF_NUMBER = 0
_OFFSET_OF_ARCHITECTURE = 4
_OFFSET_OF_ARGUMENTS = 16
_OTHER_NUMBERS = 0x4000_0000
_WRITABLE = 2
_INTERNET = 2, 10
_STREAM = 1
_TYPE_OF_SOCKET = 0xF

_Line = tuple[int, int, int, int]

# By machine: its audit name, and the system calls for reading, writing, memory, time and exit.
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


def limit(what: int, value: int) -> None:
    """Lower a limit permanently, unless it is already lower."""
    _, hard = resource.getrlimit(what)
    lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (lower, lower))


def prctl(*arguments: int | ctypes.Array[_Instruction] | _Program) -> bool:
    """Call prctl. Return whether it succeeded."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = [
        ctypes.c_ulong(argument) if isinstance(argument, int) else ctypes.byref(argument) for argument in arguments
    ]
    words += [ctypes.c_ulong(0)] * (5 - len(words))
    return bool(libc.prctl(*words) == 0)


def allow_computing() -> bool:
    """Refuse all system calls except those for computing with "not permitted". Return whether it succeeded."""
    machine = _MACHINES.get(os.uname().machine)
    return machine is not None and _filter(machine[0], machine[1].values(), _RETURN_ALLOW, _RETURN_EPERM)


def deny_system_calls(numbers: Iterable[int], largest_mapping: int, *, socket: int | None = None) -> bool:
    """Refuse these system calls with "not permitted" permanently, also after an exec.

    Writable mappings larger than this number of bytes, below 4 GiB, are refused with "no memory": the kernel checks no
    limit if a mapping replaces a reservation, as in Go. If the number of `socket` is given, it can create only TCP
    sockets.
    """
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return False
    before: list[_Line] = [
        (_JUMP_IF_EQUAL, 0, 7, machine[1]["mmap"]),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 16),
        (_JUMP_IF_ANY_BIT, 0, 5, _WRITABLE),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 12),
        (_JUMP_IF_EQUAL, 0, 2, 0),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 8),
        (_JUMP_IF_NOT_LESS, 0, 1, largest_mapping + 1),
        (_RETURN, 0, 0, _RETURN_ENOMEM),
        (_LOAD_WORD, 0, 0, _OFFSET_OF_NUMBER),
    ]
    if socket is not None:
        before += [
            (_JUMP_IF_EQUAL, 0, 8, socket),
            (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS),
            (_JUMP_IF_EQUAL, 2, 0, _INTERNET[0]),
            (_JUMP_IF_EQUAL, 1, 0, _INTERNET[1]),
            (_RETURN, 0, 0, _RETURN_EPERM),
            (_LOAD_WORD, 0, 0, _OFFSET_OF_ARGUMENTS + 8),
            (_AND, 0, 0, _TYPE_OF_SOCKET),
            (_JUMP_IF_EQUAL, 1, 0, _STREAM),
            (_RETURN, 0, 0, _RETURN_EPERM),
            (_LOAD_WORD, 0, 0, _OFFSET_OF_NUMBER),
        ]
    return _filter(machine[0], numbers, _RETURN_EPERM, _RETURN_ALLOW, before)


def _filter(
    architecture: int,
    numbers: Iterable[int],
    answer: int,
    otherwise: int,
    before: Sequence[_Line] = (),
) -> bool:
    """Answer these system calls in one way and all others in another. Calls of other architectures end the process."""
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
