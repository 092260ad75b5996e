"""One cluster as the engine sees it: its client, its namespaces, our copies, and strangers of interest."""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.objects import Seen, Target
from syncline.core.ownership import OWNER_LABEL
from syncline.core.scope import Namespace
from syncline.core.wire import ConfigMapWire
from syncline.engine.copies import Copies
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.reflector import Reflector
from syncline.kube.resources import CONFIGMAPS, NAMESPACES


class MetaWire(Struct):
    """An object of which only the metadata was asked for."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


NamespaceListener = Callable[[Namespace | None, Namespace | None], None]
CopyListener = Callable[[Seen | None, Seen | None], None]
StrangerListener = Callable[[Key], None]


class Cluster:
    """A live, partial view of one cluster.

    `namespaces` holds name, UID and labels of each; `copies` what carries our label; `strangers` only tells that an
    object without our label, of a name that some sync is interested in, has come, changed or gone: sources, and objects
    that are in the way.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._listeners: list[tuple[NamespaceListener, CopyListener, StrangerListener]] = []
        self._names: Counter[str] = Counter()
        self.namespaces: Reflector[MetaWire, Namespace] = Reflector(
            client,
            NAMESPACES,
            decode=MetaWire,
            project=_namespace,
            metadata_only=True,
            on_change=self._namespace_changed,
        )
        self.copies = Copies(client, self._copy_changed)
        self.strangers: Reflector[MetaWire, str] = Reflector(
            client,
            CONFIGMAPS,
            decode=MetaWire,
            project=lambda wire: wire.metadata.resource_version if wire.metadata.name in self._names else None,
            labels=f"!{OWNER_LABEL}",
            metadata_only=True,
            on_change=self._stranger_changed,
        )

    @property
    def uid(self) -> str:
        """Name the cluster over all clusters and times; the UID of kube-system is what everybody uses for it."""
        namespace = self.namespaces.get(Key("", "kube-system"))
        return namespace.uid if namespace is not None else ""

    @property
    def reflectors(
        self,
    ) -> "tuple[Reflector[MetaWire, Namespace], Reflector[ConfigMapWire, Seen], Reflector[MetaWire, str]]":
        """All watches, to be run and to be asked for their health."""
        return (self.namespaces, self.copies.reflector, self.strangers)

    def listen(self, on_namespace: NamespaceListener, on_copy: CopyListener, on_stranger: StrangerListener) -> None:
        """Be told of changes; what is called must only mark work."""
        self._listeners.append((on_namespace, on_copy, on_stranger))

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace by name."""
        return self.namespaces.get(Key("", name))

    def watch_names(self, names: Iterable[str]) -> None:
        """Take an interest in objects of these names, in any namespace."""
        self._names.update(names)

    def unwatch_names(self, names: Iterable[str]) -> None:
        """Let go of an interest; other syncs may still have it."""
        self._names.subtract(names)
        for name in [name for name, interested in self._names.items() if interested <= 0]:
            del self._names[name]

    def note_stranger(self, wire: ConfigMapWire) -> None:
        """Remember an object that was read live, so that its end is noticed too.

        A list that ran before the interest arose has passed over it.
        """
        if OWNER_LABEL not in wire.metadata.labels:
            self.strangers.note(MetaWire(metadata=wire.metadata))

    async def read(self, target: Target, client: Client) -> ConfigMapWire:
        """Read a ConfigMap live, as `client`."""
        return await client.get(CONFIGMAPS, target.name, target.namespace, type=ConfigMapWire)

    def _namespace_changed(self, _: Key, old: Namespace | None, new: Namespace | None) -> None:
        for listener, _copy, _stranger in self._listeners:
            listener(old, new)

    def _copy_changed(self, old: Seen | None, new: Seen | None) -> None:
        for _namespace, listener, _stranger in self._listeners:
            listener(old, new)

    def _stranger_changed(self, key: Key, _: str | None, __: str | None) -> None:
        for _namespace, _copy, listener in self._listeners:
            listener(key)


def _namespace(wire: MetaWire) -> Namespace:
    meta = wire.metadata
    return Namespace(meta.name, meta.uid, meta.labels, meta.deletion_timestamp is not None)
