"""The command of a confined program, and the features that this machine lacks."""

import asyncio
import marshal
import os
import shutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from syncline.confinement.walls import NO_PROGRAM
from syncline.programs import bury, kill, started

if TYPE_CHECKING:
    from syncline.confinement.walls import WallSpec

PROBE_SECONDS = 30.0
LAUNCHER = str(Path(__file__).with_name("launcher.py"))

_SAID = 64 * 1024
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec")
# The system files that programs read at start: libraries, certificate authorities, users.
_SETTINGS = (
    *("/usr/share", "/dev/random", "/dev/urandom", "/dev/zero"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/gnutls", "/etc/hosts"),
)


class Walls(Struct, frozen=True, kw_only=True):
    """The permissions of a program."""

    write: Sequence[Path | str] = ()
    """Folders that it can read and write."""
    read: Sequence[Path | str] = ()
    """Folders and files that it can read."""
    run: Sequence[Path | str] = ()
    """Programs that it can execute, and folders with such programs."""
    ports: Sequence[int] | None = None
    """The TCP ports that it can connect to; None: it cannot open sockets."""
    seconds: int | None = None
    """The limit of processor time."""
    memory: int | None = None
    """The memory that it, and each program that it starts, can allocate, in bytes."""
    mapping: int | None = None
    """The largest single allocation in bytes. Default: the whole memory."""
    file_size: int | None = None
    """The largest file that it can write, in bytes."""
    threads: bool = False
    """Whether it sends signals to its own threads, like programs in Go."""
    unconfined: bool = False
    """Whether it runs even if the machine lacks a feature."""

    def around(self, program: Path | str, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs a program with these permissions."""
        mapping = self.mapping or self.memory
        wanted: WallSpec = {
            "write": list(map(str, self.write)),
            "read": list(map(str, self.read)),
            "run": [*map(str, self.run), str(program)],
            "ports": None if self.ports is None else list(self.ports),
            "seconds": self.seconds,
            "memory": self.memory,
            "mapping": _LARGEST if mapping is None else min(mapping, _LARGEST),
            "file_size": self.file_size,
            "threads": self.threads,
            "unconfined": self.unconfined,
        }
        return [sys.executable, "-I", "-S", LAUNCHER, marshal.dumps(dict(wanted)).hex(), str(program), *arguments]


_LARGEST = 2**32 - 2


class Unconfined(Exception):  # noqa: N818 - what happened
    """The program was not started, because this machine lacks a feature. The message names it."""

    def __init__(self, what: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"{what} refused, because the operator's --allow-unconfined-builds is off and this machine has no "
            f"{', no '.join(missing)}"
        )


def system(*names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that programs of the system with these names execute, and the files that they read."""
    return _system(names, os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=16)
def _system(names: Sequence[str], path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = [os.path.realpath(place) for name in names if (place := shutil.which(name, path=path))]
    prefixes = {Path(place).parent.parent for place in found} - {Path("/"), Path("/usr")}
    libraries = [str(prefix / folder) for prefix in prefixes for folder in ("lib", "lib64", "libexec")]
    settings = [str(prefix / folder) for prefix in prefixes for folder in ("share", "etc", "ssl")]
    return tuple(dict.fromkeys([*found, *_SYSTEM, *libraries])), (*_SETTINGS, *settings)


async def missing_walls() -> list[str]:
    """Return the features for confinement that this machine lacks; an empty list if it has all."""
    process = await started(
        asyncio.create_subprocess_exec(
            *Walls(memory=_SAID * 1024, ports=()).around(NO_PROGRAM, []),
            env={},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    )
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            said = await process.stdout.read(_SAID) if process.stdout else b""
            code = await process.wait()
    except TimeoutError:
        code = 1
    finally:
        kill(process)
        await asyncio.shield(bury(process))
    return said.decode().splitlines() if code == 0 else ["answer from a probe of its walls"]
