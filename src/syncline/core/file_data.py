"""ConfigMaps and Secrets made of files that are no manifests.

A target with a `key` takes one file: the one of that name, or the only one there is. A target without a key takes
every file, each under its own name. Several targets of one object fill it together. A file that was encrypted goes
into Secrets only.
"""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from syncline.api.configsync import ConfigSyncTarget
from syncline.api.content import DataKey

DATA_KINDS = {"configmap": "ConfigMap", "secret": "Secret"}
SIZE_LIMIT = 1024 * 1024
"""Bytes that the API server takes in one ConfigMap or Secret."""

_SHOWN = 5


class DataFileLike(Protocol):
    """A file that is no manifest."""

    @property
    def path(self) -> str:
        """Where it is in the tree."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def content(self) -> bytes:
        """What is in it, decrypted."""

    @property
    def secret(self) -> bool:
        """Whether it was encrypted."""


class FileDataError(Exception):
    """A target and the files do not go together; the message names both and says what to write."""


class DataObject:
    """A ConfigMap or Secret in the making."""

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.files: dict[str, DataFileLike] = {}
        self.filled_by: list[ConfigSyncTarget] = []

    @property
    def origin(self) -> str:
        """The files that it is made of."""
        paths = sorted({file.path for file in self.files.values()})
        more = len(paths) - _SHOWN
        return ", ".join(paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

    def take(self, listed: ConfigSyncTarget, files: Sequence[DataFileLike]) -> list[str]:
        """Take the files that a target means; return their paths. Raises FilingError."""
        taken = {listed.key: self._one(listed.key, files)} if listed.key else self._all(files)
        for key, file in taken.items():
            self._check(key, file)
        self.files |= taken
        if sum(len(file.content) for file in self.files.values()) > SIZE_LIMIT:
            raise FileDataError(
                f"{self} is larger than 1 MiB with {self.origin}: spread the files over several targets"
            )
        self.filled_by.append(listed)
        return [file.path for file in taken.values()]

    def _one(self, key: str, files: Sequence[DataFileLike]) -> DataFileLike:
        named = [file for file in files if file.name == key] or (files if len(files) == 1 else [])
        if len(named) == 1:
            return named[0]
        if named:
            raise FileDataError(f"{self} takes {key}, and there are two: {named[0].path} and {named[1].path}")
        if not files:
            raise FileDataError(f"{self} has no file: there is none that is not a manifest; correct source.git.path")
        paths = ", ".join(file.path for file in files[:_SHOWN]) + (", ..." if len(files) > _SHOWN else "")
        raise FileDataError(f"{self} takes {key}, and of several files none is called so: {paths}")

    def _all(self, files: Sequence[DataFileLike]) -> dict[str, DataFileLike]:
        if not files:
            raise FileDataError(
                f"{self} is made by no manifest and by no file: correct type and name, or remove the target"
            )
        taken: dict[str, DataFileLike] = {}
        for file in files:
            if other := taken.get(file.name):
                raise FileDataError(
                    f"{self} would have two files under {file.name}: {other.path} and {file.path}; "
                    "list targets with a key, or rename one"
                )
            taken[file.name] = file
        return taken

    def _check(self, key: str, file: DataFileLike) -> None:
        if file.secret and self.kind != "Secret":
            raise FileDataError(f"{file.path} is encrypted, and {self} would show it to many: write type: Secret")
        try:
            msgspec.convert(key, DataKey)
        except msgspec.ValidationError:
            raise FileDataError(
                f"{self} cannot have a key like the name of {file.path}: write key, of letters, digits, "
                '"-", "_" and "."'
            ) from None

    def manifest(self) -> dict[str, Any]:
        """Return the object; bytes that are no text go to binaryData."""
        data: dict[str, str] = {}
        binary: dict[str, str] = {}
        for key, file in sorted(self.files.items()):
            encoded = base64.b64encode(file.content).decode()
            if self.kind == "Secret":
                data[key] = encoded
                continue
            try:
                data[key] = file.content.decode()
            except UnicodeDecodeError:
                binary[key] = encoded
        return {
            "apiVersion": "v1",
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            **({"data": data} if data else {}),
            **({"binaryData": binary} if binary else {}),
        }

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
