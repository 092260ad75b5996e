"""Confines the calling process, which then executes an external program.

The program can access only the given folders and files, and execute only the given programs (Landlock). It opens no
socket, or connects only by TCP to the given ports. It cannot trace or signal other processes (a filter of system
calls). It has limits of memory, processor time and output, and ends with its parent. The result of every step is
checked: if a feature is missing, the program is not started, unless this is allowed. With `-` as the program, the
missing features are printed and no program is started.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself takes longer to load than all else here
import ctypes
import marshal
import os
import resource
import sys

from syncline.confinement.system_calls import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    deny_system_calls,
    limit,
    prctl,
)

UNCONFINED = 98
"""The exit code if a feature is missing and the program was not started."""
NOT_FOUND = 97
"""The exit code if the program does not exist or is not executable."""
NO_PROGRAM = "-"

_KILL = 9
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NEWEST = 5
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_BIND_AND_CONNECT, _CONNECT = 3, 2
_TRUNCATE = 1 << 14

# The system calls that none of these programs needs, by machine.
_SOCKETS = {
    "x86_64": {"socket": 41, "connect": 42, "bind": 49, "listen": 50, "socketpair": 53},
    "aarch64": {"socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "connect": 203},
}
_REACHING_OUT = {
    "x86_64": {
        "kill": 62, "ptrace": 101, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "init_module": 175,
        "finit_module": 313, "bpf": 321, "perf_event_open": 298, "process_vm_readv": 310, "process_vm_writev": 311,
        "userfaultfd": 323, "keyctl": 250, "add_key": 248, "request_key": 249, "open_by_handle_at": 304,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "pidfd_getfd": 438,
        "pidfd_send_signal": 424, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    },
    "aarch64": {
        "kill": 129, "ptrace": 117, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "init_module": 105,
        "finit_module": 273, "bpf": 280, "perf_event_open": 241, "process_vm_readv": 270, "process_vm_writev": 271,
        "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218, "open_by_handle_at": 265,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "pidfd_getfd": 438,
        "pidfd_send_signal": 424, "tkill": 130, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240,
    },
}  # fmt: skip
# Programs in Go signal their own threads with it. Others need it only to abort.
_SIGNAL_A_THREAD = {"x86_64": 234, "aarch64": 131}

TYPE_CHECKING = False  # the import of `typing` takes as long as all other imports
if TYPE_CHECKING:
    from typing import TypedDict

    class WallSpec(TypedDict):
        """The permissions, as in `programs.Walls`."""

        write: list[str]
        read: list[str]
        run: list[str]
        ports: list[int] | None
        seconds: int | None
        memory: int | None
        mapping: int
        file_size: int | None
        threads: bool
        unconfined: bool


def main() -> None:
    """Confine this process, then execute the program: `WALLS PROGRAM ARGUMENT...`."""
    walls, program, *arguments = sys.argv[1:]
    wanted: WallSpec = marshal.loads(bytes.fromhex(walls))  # noqa: S302 - from our own parent
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, 256)
    for what, most in (
        (resource.RLIMIT_CPU, wanted["seconds"]),
        (resource.RLIMIT_DATA, wanted["memory"]),
        (resource.RLIMIT_FSIZE, wanted["file_size"]),
    ):
        if most is not None:
            limit(what, most)
    missing = _missing_walls(wanted)
    if program == NO_PROGRAM:
        sys.stdout.write("\n".join(missing))
        return
    if missing and not wanted["unconfined"]:
        sys.exit(UNCONFINED)
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)  # Python ignores it, and programs would inherit this
    try:
        os.execv(program, [program, *arguments])  # noqa: S606 - there is no shell to be had
    except OSError:
        sys.exit(NOT_FOUND)


def _missing_walls(wanted: WallSpec) -> list[str]:
    """Confine this process, and return the features that this machine lacks."""
    if sys.platform != "linux":
        return ["Linux"]
    missing: list[str] = []
    _be_first_to_go()
    if not prctl(PR_SET_PDEATHSIG, _KILL):
        missing.append("an end with the parent (PR_SET_PDEATHSIG)")
    if not prctl(PR_SET_NO_NEW_PRIVS, 1):
        missing.append("no new privileges (PR_SET_NO_NEW_PRIVS)")
    if not _enclose(wanted):
        missing.append("Landlock (Linux 5.13 or newer, with landlock among its security modules)")
    if not _deny(wanted):
        missing.append("a filter of system calls (seccomp, on x86-64 and arm64)")
    return missing


def _be_first_to_go() -> None:
    """Let the kernel end this process first if memory runs out. This is optional, so a failure is ignored."""
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"1000")
        os.close(descriptor)
    except OSError:
        pass


def _deny(wanted: WallSpec) -> bool:
    machine = os.uname().machine
    if machine not in _REACHING_OUT:
        return False
    denied = dict(_REACHING_OUT[machine])
    sockets = _SOCKETS[machine]
    if not wanted["threads"]:
        denied["tgkill"] = _SIGNAL_A_THREAD[machine]
    if wanted["ports"] is None:
        denied |= sockets
        return deny_system_calls(denied.values(), wanted["mapping"])
    denied |= {"bind": sockets["bind"], "listen": sockets["listen"]}
    return deny_system_calls(denied.values(), wanted["mapping"], socket=sockets["socket"])


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def _enclose(wanted: WallSpec) -> bool:
    """Allow only the given folders and files to read, write and execute. Return whether the kernel supports it."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    every = (1 << _RIGHTS_BY_VERSION[min(version, _NEWEST)]) - 1
    rules = _Ruleset(
        every,
        _BIND_AND_CONNECT if version >= _NETWORK_SINCE else 0,
        3 if version >= _SCOPES_SINCE else 0,
    )
    size = 24 if version >= _SCOPES_SINCE else 16 if version >= _NETWORK_SINCE else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return False
    allowed = [(path, every & ~_EXECUTE) for path in wanted["write"]]
    allowed += [(path, _READ_FILE | _READ_DIR) for path in wanted["read"]]
    allowed += [(path, _EXECUTE | _READ_FILE | _READ_DIR) for path in wanted["run"]]
    allowed += [(os.devnull, _READ_FILE | _WRITE_FILE)]
    done = True
    for path, rights in allowed:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        kept = rights if os.path.isdir(path) else rights & (_OF_FILES | (_TRUNCATE & every))  # noqa: PTH112
        rule = _Beneath(kept, descriptor)
        done &= libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0) == 0
        os.close(descriptor)
    if version >= _NETWORK_SINCE:
        for port in wanted["ports"] or ():
            reachable = _Port(_CONNECT, port)
            done &= libc.syscall(_ADD_RULE, ruleset, _NET_PORT, ctypes.byref(reachable), 0) == 0
    done &= libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)
