"""Runs a program that is not ours behind walls: `python -I -S enclosure.py WALLS PROGRAM ARGUMENT...`.

The program sees one folder and nothing else of the file system, and can start no other program (Landlock); it opens no
socket, traces and signals nobody (a filter of system calls), has so much memory, processor time and output, and ends
with its parent. The result of every step is looked at: where a wall cannot be put up, the program is not run, unless
that was asked for. It is a file to run, not a module to import: it starts quickly because it loads nothing of this
package but `confinement`, by its path. The program `-` is none: then the walls that are missing are named, and that is
all.
"""

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNCONFINED = 98
"""The exit code where a wall is missing and the program was not run."""
NO_PROGRAM = "-"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE = 1, 2, 4
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NEWEST = 5
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6
_TRUNCATE = 1 << 14

# What no program that builds manifests needs. Machine: its audit name, and the numbers.
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
        "pidfd_send_signal": 424,
    },
    "aarch64": {
        "kill": 129, "ptrace": 117, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "init_module": 105,
        "finit_module": 273, "bpf": 280, "perf_event_open": 241, "process_vm_readv": 270, "process_vm_writev": 271,
        "userfaultfd": 282, "keyctl": 219, "add_key": 217, "request_key": 218, "open_by_handle_at": 265,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "pidfd_getfd": 438,
        "pidfd_send_signal": 424,
    },
}  # fmt: skip


def _confinement() -> Any:
    specification = importlib.util.spec_from_file_location("confinement", Path(__file__).with_name("confinement.py"))
    if specification is None or specification.loader is None:
        raise ImportError("confinement")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def main() -> None:
    """Put up the walls, then become the program."""
    walls, program, *arguments = sys.argv[1:]
    wanted = json.loads(walls)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: wanted["seconds"],
        resource.RLIMIT_DATA: wanted["memory"],
        resource.RLIMIT_FSIZE: wanted["output"],
        resource.RLIMIT_NOFILE: 256,
    }
    confinement = _confinement()
    for what, value in limits.items():
        confinement.limit(what, value)
    missing = list(_missing_walls(confinement, wanted, program))
    if program == NO_PROGRAM:
        sys.stdout.write(json.dumps(missing))
        return
    if missing and not wanted["unconfined"]:
        sys.exit(UNCONFINED)
    os.execv(program, [program, *arguments])  # noqa: S606 - there is no shell to be had


def _missing_walls(confinement: Any, wanted: dict[str, Any], program: str) -> Iterator[str]:
    """Put up the walls, and name those that this machine does not have."""
    if sys.platform != "linux":
        yield "Linux"
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if not confinement.prctl(confinement.PR_SET_PDEATHSIG, signal.SIGKILL):
        yield "an end with the parent (PR_SET_PDEATHSIG)"
    if not confinement.prctl(confinement.PR_SET_NO_NEW_PRIVS, 1):
        yield "no new privileges (PR_SET_NO_NEW_PRIVS)"
    if not _enclose(Path(wanted["folder"]), Path(program)):
        yield "Landlock (Linux 5.13 or newer, with landlock among its security modules)"
    denied = {**_REACHING_OUT.get(platform.machine(), {}), **_SOCKETS.get(platform.machine(), {})}
    if not denied or not confinement.deny_system_calls(denied.values(), wanted["mapping"]):
        yield "a filter of system calls (seccomp, on x86-64 and arm64)"


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _enclose(folder: Path, program: Path) -> bool:
    """Leave the folder to read and write, and the program to run; return whether the kernel does so."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    every = (1 << _RIGHTS_BY_VERSION[min(version, _NEWEST)]) - 1
    rules = _Ruleset(
        every,
        3 if version >= _NETWORK_SINCE else 0,
        3 if version >= _SCOPES_SINCE else 0,
    )
    size = 24 if version >= _SCOPES_SINCE else 16 if version >= _NETWORK_SINCE else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return False
    allowed = [
        (folder, every & ~_EXECUTE),
        (program, _EXECUTE | _READ_FILE),
        (Path(os.devnull), _READ_FILE | _WRITE_FILE),
    ]
    done = True
    for path, rights in allowed:
        if not path.exists():
            continue
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        kept = rights if path.is_dir() else rights & (_OF_FILES | (_TRUNCATE & every))
        rule = _Beneath(kept, descriptor)
        done &= libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0) == 0
        os.close(descriptor)
    done &= libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)


if __name__ == "__main__":
    main()
