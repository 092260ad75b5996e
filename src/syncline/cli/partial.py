"""A partial view of a cluster, for a user with few rights, such as a tenant with rights in one namespace.

Objects that cannot be listed do not count as absent. Objects outside the namespace are read one by one, as the sync
would read them. A namespace that cannot be read counts as existing, and a note names it. A question that needs a list,
such as the namespaces of a glob, is refused with the missing right.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from syncline.api.common import GROUP, VERSION
from syncline.api.kinds import KINDS
from syncline.core.digest import DigestKey
from syncline.core.group_kind import GroupKind
from syncline.core.objects import Observed, Target
from syncline.core.ownership import object_id_of, read_marks
from syncline.core.scope import Namespace
from syncline.core.selectors import is_glob
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.cluster import BUILT_IN, Cluster
from syncline.engine.kind_informer import KindInformer, MetaWire
from syncline.engine.markkeys import MarkRing
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.reflector import AnyReflector
from syncline.kube.resources import NAMESPACES, Resource
from syncline.kube.reviews import may_self

_NAMED = 5


class NotVisible(KubeError):  # noqa: N818 - a state
    """The user cannot read an object that a plan needs. The message names the missing right."""


class PartialCluster(Cluster):
    """Lists the readable objects of a kind: in all namespaces, else in `home`, else none."""

    def __init__(self, client: Client, home: str, *, key: DigestKey, marks: MarkRing) -> None:
        super().__init__(client, key=key, marks=marks)
        self.home = home
        self.sees_syncs = True
        """Whether the syncs and SyncTargets of all namespaces are readable."""
        self._sees_namespaces = True
        self._known: dict[str, Namespace | None] = {}
        self._presumed: set[str] = set()
        self._within: dict[str, str] = {}
        self._hidden: set[str] = set()

    async def read_visible(self) -> None:
        """Check the rights of the user. Call it before `start`."""
        self._sees_namespaces = await may_follow(self.client, NAMESPACES)
        if not self._sees_namespaces:
            self.namespaces.synced.set()
            await self._look_at(self.home)
        kinds = (Resource(GROUP, VERSION, kind.plural, kind.kind) for kind in KINDS)
        self.sees_syncs = all([await may_follow(self.client, kind) for kind in kinds])

    async def look_at_namespaces(self, spec: Mapping[str, Any]) -> None:
        """Read the namespaces that a spec names, if they are readable."""
        if not self._sees_namespaces:
            for name in _names_in(spec):
                await self._look_at(name)

    async def identify(self) -> None:
        """Read the UID of the cluster. If it is not readable, take it from a managed object."""
        try:
            await super().identify()
        except Forbidden:
            return

    @property
    def reflectors(self) -> tuple[AnyReflector, ...]:
        """All watches that the user's rights allow."""
        return tuple(one for one in super().reflectors if one is not self.namespaces or self._sees_namespaces)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace. A namespace that is not readable counts as existing."""
        if self._sees_namespaces:
            return super().namespace(name)
        if name not in self._known:
            self._presumed.add(name)
            return Namespace(name, "", {"kubernetes.io/metadata.name": name})
        return self._known[name]

    def all_namespaces(self) -> Iterable[Namespace]:
        """Return all namespaces. Raises `NotVisible` if they cannot be listed."""
        if not self._sees_namespaces:
            raise NotVisible(
                "you may not list and watch namespaces, so the namespaces of a glob or a selector are not known: write"
                " the names of the namespaces, or ask somebody who has the right to make this plan"
            )
        return super().all_namespaces()

    async def open_kind(self, kind: GroupKind, version: str | None = None) -> KindInformer:
        """Return the informer of a kind, with its readable objects."""
        name = str(kind)
        if not self.is_open(name):
            await self._look_at_kind(name, BUILT_IN.get(name) or await self.discovery.find(*kind, version))
        return await super().open_kind(kind, version)

    async def read(self, target: Target, client: Client) -> DataWire | ObjectWire:
        """Read an object live, as `client`."""
        wire = await super().read(target, client)
        marks = read_marks(wire.metadata.annotations, self.marks.keys)
        if (marker := marks.marker or marks.claim) is not None:
            self._learn_uid(marker.object_id, target)
        return wire

    def unseen(self) -> list[str]:
        """Return notes about objects that are not readable."""
        notes = []
        if not self.sees_syncs:
            notes.append(
                "you may not list the syncs of other namespaces: it is not known whether one of them wants the same"
                " objects"
            )
        if self._presumed:
            names = ", ".join(sorted(self._presumed)[:_NAMED]) + (", ..." if len(self._presumed) > _NAMED else "")
            notes.append(f"you may not read these namespaces, so their existence was not checked: {names}")
        if self._within or self._hidden:
            kinds = ", ".join(sorted({*self._within, *self._hidden}))
            notes.append(
                f"you may not list {kinds} outside of namespace {self.home}: objects that would be pruned there are not"
                " shown"
            )
        return notes

    def _namespace_of(self, name: str) -> str | None:
        return self._within.get(name)

    def _begin(self, informer: KindInformer) -> None:
        if informer.kind not in self._hidden:
            super()._begin(informer)
            return
        for reflector in informer.reflectors:
            reflector.synced.set()

    def _managed_changed(self, old: Observed | None, new: Observed | None, by: str) -> None:
        if new is not None and new.marker is not None:
            self._learn_uid(new.marker.object_id, new.target)
        super()._managed_changed(old, new, by)

    def _learn_uid(self, at: str, target: Target) -> None:
        """Take the UID of the cluster from the marker of an object that the marker names."""
        object_id = object_id_of("", target.local())
        if not self._found_uid and at.endswith(object_id):
            self._found_uid = at.removesuffix(object_id)

    async def _look_at(self, name: str) -> None:
        try:
            found = await self.client.get(NAMESPACES, name, type=MetaWire, metadata_only=True)
        except NotFound:
            self._known[name] = None
        except Forbidden:
            self._presumed.add(name)
        else:
            meta = found.metadata
            self._known[name] = Namespace(name, meta.uid, meta.labels, meta.deletion_timestamp is not None)

    async def _look_at_kind(self, name: str, resource: Resource) -> None:
        if await may_follow(self.client, resource):
            return
        if resource.namespaced and await may_follow(self.client, resource, self.home):
            self._within[name] = self.home
        else:
            self._hidden.add(name)


async def may_follow(client: Client, resource: Resource, namespace: str = "") -> bool:
    """Return whether a client can list and watch a resource, in one namespace or in all."""
    asked = {"group": resource.group, "resource": resource.plural, "namespace": namespace}
    return all([await may_self(client, {**asked, "verb": verb}) for verb in ("list", "watch")])


def _names_in(spec: Any, field: str = "") -> Iterator[str]:
    """Yield the exact names of namespaces in a spec."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            yield from _names_in(value, str(key))
    elif isinstance(spec, list):
        for value in spec:
            yield from _names_in(value, field)
    elif isinstance(spec, str) and field.lower().endswith(("namespace", "namespaces")) and not is_glob(spec):
        yield spec
