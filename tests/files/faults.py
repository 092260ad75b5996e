"""The operating system refuses, or the process ends, at the n-th change of the disk."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGES = ("open", "write", "rename", "link", "unlink", "mkdir", "rmdir", "fsync", "fchmod")
TAKES_SPACE = ("open", "write", "link", "mkdir")


class KilledError(BaseException):
    """The process has ended: nothing that it does from now on changes the disk."""


class Disk:
    """Counts the changes of the disk."""

    def __init__(self) -> None:
        self.changes = 0

    @contextmanager
    def counted(self, befall: Callable[["Disk", str], None] = lambda _disk, _name: None) -> Iterator[None]:
        """Call `befall` before each change; what it raises happens instead of the change."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CHANGES:
                patch.setattr(os, name, self._wrapped(name, getattr(os, name), befall))
            yield

    def _wrapped(
        self, name: str, real: Callable[..., Any], befall: Callable[["Disk", str], None]
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            self.changes += 1
            try:
                befall(self, name)
            except BaseException:
                if name == "write":  # half of it has reached the disk
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise
            return real(*arguments, **options)

        return call


def killed_at(number: int) -> Callable[[Disk, str], None]:
    """End the process at a change."""

    def befall(disk: Disk, _name: str) -> None:
        if disk.changes >= number:
            raise KilledError

    return befall


def full_from(number: int, code: int = errno.ENOSPC) -> Callable[[Disk, str], None]:
    """Have no space left, or another trouble, from a change on."""

    def befall(disk: Disk, name: str) -> None:
        if disk.changes >= number and name in TAKES_SPACE:
            raise OSError(code, os.strerror(code))

    return befall
