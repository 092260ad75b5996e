"""How a program is called behind walls, and which walls this machine lacks."""

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
    from syncline.confinement.walls import Wanted

PROBE_SECONDS = 30.0
LAUNCHER = str(Path(__file__).with_name("launcher.py"))

_SAID = 64 * 1024
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec")
# What programs read of a system before they do anything: which libraries there are, whom to trust, who we are.
_SETTINGS = (
    *("/usr/share", "/dev/random", "/dev/urandom", "/dev/zero"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/gnutls", "/etc/hosts"),
)


class Walls(Struct, frozen=True, kw_only=True):
    """What a program may see and do."""

    write: Sequence[Path | str] = ()
    """Folders that it may read and write."""
    read: Sequence[Path | str] = ()
    """Folders and files that it may read."""
    run: Sequence[Path | str] = ()
    """Programs that it may be or start, and folders with such."""
    ports: Sequence[int] | None = None
    """Where it may connect to by TCP; None: it opens no socket."""
    seconds: int | None = None
    """Of processor time."""
    memory: int | None = None
    """Bytes that it, and each that it starts, may allocate."""
    mapping: int | None = None
    """Bytes that it may ask for at once; as much as it may allocate if it is not given."""
    file_size: int | None = None
    """The largest file that it may write."""
    threads: bool = False
    """Whether it signals its own threads, as programs in Go do."""
    unconfined: bool = False
    """Whether it is run where a wall is missing."""

    def around(self, program: Path | str, arguments: Sequence[str]) -> list[str]:
        """Return what runs a program behind these walls."""
        mapping = self.mapping or self.memory
        wanted: Wanted = {
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
    """The program was not run: this machine lacks a wall. The message names it."""

    def __init__(self, what: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"{what} refused, because the operator's --allow-unconfined-builds is off and this machine has no "
            f"{', no '.join(missing)}"
        )


def system(*names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what programs of the system with these names need to run, themselves among it, and what they read."""
    return _system(names, os.environ.get("PATH", os.defpath))


@lru_cache(maxsize=16)
def _system(names: Sequence[str], path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = [os.path.realpath(place) for name in names if (place := shutil.which(name, path=path))]
    prefixes = {Path(place).parent.parent for place in found} - {Path("/"), Path("/usr")}
    libraries = [str(prefix / folder) for prefix in prefixes for folder in ("lib", "lib64", "libexec")]
    settings = [str(prefix / folder) for prefix in prefixes for folder in ("share", "etc", "ssl")]
    return tuple(dict.fromkeys([*found, *_SYSTEM, *libraries])), (*_SETTINGS, *settings)


async def missing_walls() -> list[str]:
    """Name the walls that this machine cannot put up around a program; an empty list: it has all of them."""
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
