"""A cluster as somebody sees it who may not see all of it: a tenant with rights in one namespace.

What may not be listed is not taken for absent. Objects outside of the namespace are read one by one, as the sync would
read them; a namespace that may not be read is taken to be there, and named. What only a list could answer, such as
which namespaces a glob means, is refused with what is missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from syncline.api.common import GROUP, VERSION
from syncline.api.kinds import KINDS
from syncline.core.digest import DigestKey
from syncline.core.objects import Seen, Target
from syncline.core.ownership import place, read_marks
from syncline.core.scope import Namespace
from syncline.core.selectors import is_glob
from syncline.core.wire import DataWire, ObjectWire
from syncline.engine.cluster import BUILT_IN, Cluster, kind_name
from syncline.engine.markkeys import MarkRing
from syncline.engine.view import MetaWire, View
from syncline.kube.client import Client
from syncline.kube.errors import Forbidden, KubeError, NotFound
from syncline.kube.reflector import AnyReflector
from syncline.kube.resources import NAMESPACES, Resource
from syncline.kube.reviews import may_self

_NAMED = 5


class NotVisible(KubeError):  # noqa: N818 - a state
    """Something that a plan needs may not be seen by whoever asks for it; the message names the right."""


class PartialCluster(Cluster):
    """Lists what may be listed: a kind in all namespaces, else in `home`, else not at all."""

    def __init__(self, client: Client, home: str, *, key: DigestKey, marks: MarkRing) -> None:
        super().__init__(client, key=key, marks=marks)
        self.home = home
        self.sees_syncs = True
        """Whether the syncs and SyncTargets of all namespaces may be seen."""
        self._sees_namespaces = True
        self._known: dict[str, Namespace | None] = {}
        self._presumed: set[str] = set()
        self._within: dict[str, str] = {}
        self._hidden: set[str] = set()

    async def look_around(self) -> None:
        """Find out what may be seen; call it before `start`."""
        self._sees_namespaces = await may_follow(self.client, NAMESPACES)
        if not self._sees_namespaces:
            self.namespaces.synced.set()
            await self._look_at(self.home)
        kinds = (Resource(GROUP, VERSION, kind.plural, kind.kind) for kind in KINDS)
        self.sees_syncs = all([await may_follow(self.client, kind) for kind in kinds])

    async def look_at_namespaces(self, spec: Mapping[str, Any]) -> None:
        """Read the namespaces that a spec names, as far as they may be read."""
        if not self._sees_namespaces:
            for name in _names_in(spec):
                await self._look_at(name)

    async def identify(self) -> None:
        """Find out the UID of the cluster; where that may not be read, what is managed tells it."""
        try:
            await super().identify()
        except Forbidden:
            return

    @property
    def reflectors(self) -> tuple[AnyReflector, ...]:
        """All watches that can be had."""
        return tuple(one for one in super().reflectors if one is not self.namespaces or self._sees_namespaces)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace; one that may not be read is taken to be there."""
        if self._sees_namespaces:
            return super().namespace(name)
        if name not in self._known:
            self._presumed.add(name)
            return Namespace(name, "", {"kubernetes.io/metadata.name": name})
        return self._known[name]

    def all_namespaces(self) -> Iterable[Namespace]:
        """Return all namespaces; raises `NotVisible` where they may not be listed."""
        if not self._sees_namespaces:
            raise NotVisible(
                "write the names of the namespaces, or have somebody plan this who may list and watch namespaces: "
                "which ones a glob or a selector means is not visible to you"
            )
        return super().all_namespaces()

    async def open(self, group: str, kind: str, version: str | None = None) -> View:
        """Return the view of a kind, as far as it may be listed."""
        name = kind_name(group, kind)
        if not self.is_open(name):
            await self._look_at_kind(name, BUILT_IN.get(name) or await self.discovery.find(group, kind, version))
        return await super().open(group, kind, version)

    async def read(self, target: Target, client: Client) -> DataWire | ObjectWire:
        """Read an object live, as `client`."""
        wire = await super().read(target, client)
        marks = read_marks(wire.metadata.annotations, self.marks.keys)
        if (marker := marks.marker or marks.claim) is not None:
            self._learn_uid(marker.at, target)
        return wire

    def unseen(self) -> list[str]:
        """Say what was not visible, so that nothing is known of it."""
        notes = []
        if not self.sees_syncs:
            notes.append(
                "you may not list the syncs of other namespaces: whether one wants the same objects is not known"
            )
        if self._presumed:
            names = ", ".join(sorted(self._presumed)[:_NAMED]) + (", ..." if len(self._presumed) > _NAMED else "")
            notes.append(f"whether these namespaces exist was not checked, since you may not read them: {names}")
        if self._within or self._hidden:
            kinds = ", ".join(sorted({*self._within, *self._hidden}))
            notes.append(
                f"you may not list {kinds} outside of namespace {self.home}: what would be pruned there is not shown"
            )
        return notes

    def _namespace_of(self, name: str) -> str | None:
        return self._within.get(name)

    def _begin(self, view: View) -> None:
        if view.kind not in self._hidden:
            super()._begin(view)
            return
        for reflector in view.reflectors:
            reflector.synced.set()

    def _copy_changed(self, old: Seen | None, new: Seen | None, by: str) -> None:
        if new is not None and new.marker is not None:
            self._learn_uid(new.marker.at, new.target)
        super()._copy_changed(old, new, by)

    def _learn_uid(self, at: str, target: Target) -> None:
        """Take the UID of the cluster from the mark of an object that is where the mark says."""
        here = place("", target.local())
        if not self._found_uid and at.endswith(here):
            self._found_uid = at.removesuffix(here)

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
    """Ask whether a client may list and watch a resource, in a namespace or everywhere."""
    asked = {"group": resource.group, "resource": resource.plural, "namespace": namespace}
    return all([await may_self(client, {**asked, "verb": verb}) for verb in ("list", "watch")])


def _names_in(spec: Any, field: str = "") -> Iterator[str]:
    """Yield the namespaces that a spec spells out."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            yield from _names_in(value, str(key))
    elif isinstance(spec, list):
        for value in spec:
            yield from _names_in(value, field)
    elif isinstance(spec, str) and field.lower().endswith(("namespace", "namespaces")) and not is_glob(spec):
        yield spec
