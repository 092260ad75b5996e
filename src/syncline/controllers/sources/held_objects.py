"""Held objects: the upstream objects that are cached for one sync, and what its reconciles know of them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from syncline.controllers.lowered import SourceObject
from syncline.controllers.targets.stages import DesiredAt
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.source_history import SourceVersion, VersionRange
from syncline.engine.watch_filter import LabelQuery
from syncline.kube.cache import Key
from syncline.kube.resources import Resource


class HeldObject(NamedTuple):
    """A cached upstream object."""

    version: str
    source: SourceObject | None
    """None: it is not copied."""
    size: int = 0
    """Its approximate size in memory."""


class Witness(NamedTuple):
    """A source that was exactly as it was copied."""

    resource: Resource
    key: Key
    seen: SourceVersion


class MadeCopy(NamedTuple):
    """A copy, and its inputs."""

    source: SourceObject
    made_with: tuple[object, ...]
    item: DesiredAt | Outcome


class ReadObjects(NamedTuple):
    """The objects of one resource."""

    sources: tuple[SourceObject, ...]
    copies: int = 0
    """The number of skipped objects that a sync has written."""
    unverified: int = 0
    """The number of skipped objects with marks of unknown origin."""
    owners: Mapping[str, bool] = {}
    """The syncs that the marks of objects name, and whether they exist: a copy of one that does not is a source."""


RepeatedDeletions = dict[tuple[str, str, int], asyncio.Task[frozenset[str]]]
"""The UIDs of deleted objects, by kind, namespace and the version since when."""


class HeldObjects:
    """The cached upstream objects of one sync, by kind and name. All of it can be lost."""

    def __init__(self, namespace: str = "") -> None:
        self.namespace = namespace
        """That of the sync."""
        self.sizes: dict[str, int] = {}
        """Their approximate size, by kind."""
        self.upstream = ""
        """The UID of the upstream that they are from."""
        self.generation = 0
        """The generation of the sync that reads them."""
        self.by_kind: dict[str, dict[Key, HeldObject]] = {}
        self.listed: dict[str, tuple[str, LabelQuery]] = {}
        """By kind: the watch and the query of the last complete list. From then on, the watch reports changes."""
        self.reading: dict[str, asyncio.Task[ReadObjects]] = {}
        """Kinds that are still being read since an earlier reconcile."""
        self.slow: set[str] = set()
        """Kinds that could not be watched in time."""
        self.copies: dict[tuple[str, Target], MadeCopy] = {}
        """The copies that were made of them, by cluster."""
        self.gaps: dict[str, int] = {}
        """By kind: the number of gaps of the watch at the last comparison of copies and objects."""
        self.witnesses: tuple[Witness, ...] = ()
        """Sources that were exactly as copied after the last list; the newest first."""
        self.repeated: RepeatedDeletions = {}
        """The deletions that the upstream repeats to a watch from before the last gap."""
        self.doubtful: VersionRange | None = None
        """The versions that the upstream may have lost, by the last comparison. The status records them too."""

    def begin(self, upstream: str, generation: int) -> None:
        """Drop the objects of another upstream, and reads in progress for another spec."""
        if self.upstream != upstream or self.generation != generation:
            self.cancel_reading()
            self.generation = generation
        if self.upstream != upstream:
            self.upstream = upstream
            self.by_kind.clear()
            self.sizes.clear()
            self.listed.clear()
            self.copies.clear()
            self.gaps.clear()
            self.witnesses = ()
            self.repeated.clear()
            self.doubtful = None

    def cancel_reading(self) -> None:
        """Cancel reads in progress."""
        for task in (*self.reading.values(), *self.repeated.values()):
            task.cancel()
        self.reading.clear()
        self.repeated.clear()

    def take(self, sources: Iterable[SourceObject]) -> None:
        """Cache objects from the answers to our own writes. Newer states of the watch stay."""
        for source in sources:
            known = self.by_kind.get(source.target.kind, {})
            key = Key(source.target.namespace, source.target.name)
            if (before := known.get(key)) is not None and before.source is not None:
                known[key] = HeldObject(source.meta.resource_version, source, before.size)

    def keep_kinds(self, kinds: Iterable[str]) -> None:
        """Forget all other kinds."""
        for kind in self.by_kind.keys() - set(kinds):
            self.forget_kind(kind)

    def forget_kind(self, kind: str) -> None:
        """Forget the objects of a kind."""
        self.by_kind.pop(kind, None)
        self.sizes.pop(kind, None)
        self.listed.pop(kind, None)
