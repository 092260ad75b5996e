"""Placing: finds the target of each object of a build.

    placement = place([BuildOutput(documents, files, spec.targets)], namespace="team", scope=cluster.scope)

Without a list of targets, every manifest is placed in its own namespace, or in the namespace of the sync if it names
none. With a list, only the listed objects are placed, and the others are reported. A listed ConfigMap or Secret without
a manifest is made from files that are not manifests (see `file_data`). All errors are found at once, and each message
names the file and line. A placement with errors must not be applied.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from syncline.api.configsync import ConfigSyncTarget
from syncline.core.file_data import DATA_KINDS, DataFileLike, DataObject, FileDataError
from syncline.core.group_kind import GroupKind
from syncline.core.manifest_errors import group_of, kind_of, validate
from syncline.core.objects import Target
from syncline.core.patching import PatchError, patched

Json = dict[str, Any]
ScopeOf = Callable[[str, str, str], bool | None]
"""Whether a kind (group, version, kind) is namespaced; None if the cluster does not know it."""

_DEFINITION = "CustomResourceDefinition.apiextensions.k8s.io"


class DocumentLike(Protocol):
    """A manifest, with its file and line."""

    @property
    def manifest(self) -> Any:
        """The decoded document."""

    @property
    def file(self) -> str:
        """The path in the tree."""

    @property
    def line(self) -> int:
        """The first line of the document, from 1; 0 if it is not known."""


class BuildOutput(Struct, frozen=True):
    """The output of one build, and its targets."""

    documents: Sequence[DocumentLike]
    files: Sequence[DataFileLike] = ()
    listed: Sequence[ConfigSyncTarget] = ()


class Placed(Struct, frozen=True, kw_only=True):
    """An object with its target; the manifest has its final namespace."""

    target: Target
    manifest: Json
    origin: str
    """Its file and line."""
    served: bool = True
    """False if the cluster does not know the kind yet, so that its namespace is a guess."""


class Unplaced(Struct, frozen=True):
    """A manifest or file of the source that has no target."""

    what: str
    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.what} {self.reason}"


class Placement(Struct, frozen=True, kw_only=True):
    """The result of placing the output of builds."""

    objects: tuple[Placed, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    errors: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, str]] = {}
    """For errors about one field: the origin at the beginning of the error, and the path of the field."""
    notes: tuple[str, ...] = ()


def by_values(listed: Sequence[ConfigSyncTarget]) -> list[tuple[Mapping[str, Any], tuple[ConfigSyncTarget, ...]]]:
    """Group targets by their template values: one build for each group, targets without values first."""
    groups: list[tuple[Mapping[str, Any], list[ConfigSyncTarget]]] = [({}, [])]
    for one in listed:
        for values, members in groups:
            if values == one.values:
                members.append(one)
                break
        else:
            groups.append((one.values, [one]))
    return [(values, tuple(members)) for values, members in groups if members or not listed]


def place(builds: Sequence[BuildOutput], *, namespace: str, scope: ScopeOf, forced: str | None = None) -> Placement:
    """Find the targets of all built objects.

    `namespace` is for manifests that name none. `forced` is the namespace of all namespaced objects, whatever manifests
    and targets say.
    """
    placer = _Placer(namespace, forced, scope)
    for build in builds:
        placer.read(build)
    if any(build.listed for build in builds):
        for build in builds:
            placer.place_listed(build)
    else:
        for document in placer.sound(builds):
            placer.put(document.manifest, _origin(document), None)
    placer.report(builds)
    return placer.placement()


class _Placer:
    """Builds one placement."""

    def __init__(self, namespace: str, forced: str | None, scope: ScopeOf) -> None:
        self._namespace = namespace
        self._forced = forced
        self._scope = scope
        self._definitions: dict[tuple[str, str], bool] = {}
        self._broken: set[int] = set()
        self._used: set[str] = set()
        """The placed files by path, and the placed manifests by their object."""
        self._objects: dict[Target, Placed] = {}
        self._unplaced: list[Unplaced] = []
        self._errors: list[str] = []
        self._fields: dict[str, tuple[str, str]] = {}
        self._notes: list[str] = []

    def placement(self) -> Placement:
        return Placement(
            objects=tuple(self._objects.values()),
            unplaced=tuple(dict.fromkeys(self._unplaced)),
            errors=tuple(dict.fromkeys(self._errors)),
            fields=self._fields,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def read(self, build: BuildOutput) -> None:
        """Check the documents, and learn the kinds that they define."""
        for document in build.documents:
            found, origin = validate(document.manifest), _origin(document)
            for path, problem in found:
                error = f"{origin}: {_called(document.manifest)} {problem}"
                self._errors.append(error)
                self._fields |= {error: (origin, path)} if path else {}
            if found:
                self._broken.add(id(document))
            elif kind_of(document.manifest) == _DEFINITION:
                spec = document.manifest.get("spec")
                names = spec.get("names") if isinstance(spec, dict) else None
                if isinstance(spec, dict) and isinstance(names, dict):
                    key = (str(spec.get("group")), str(names.get("kind")))
                    self._definitions[key] = spec.get("scope") != "Cluster"

    def sound(self, builds: Sequence[BuildOutput]) -> Iterator[DocumentLike]:
        """Yield the documents that can be placed."""
        for build in builds:
            yield from (one for one in build.documents if id(one) not in self._broken)

    def place_listed(self, build: BuildOutput) -> None:
        """Place the listed objects, and report targets without an object."""
        volumes: dict[tuple[str, str, str], DataObject] = {}
        for listed in build.listed:
            matching = [] if listed.key else self._matching(listed, build)
            for document in matching:
                self._used.add(_made(document))
                self.put(document.manifest, _origin(document), listed)
            if not matching:
                self._fill(listed, build, volumes)
        for data_object in volumes.values():
            self._file(data_object)

    def _fill(
        self, listed: ConfigSyncTarget, build: BuildOutput, volumes: dict[tuple[str, str, str], DataObject]
    ) -> None:
        """Make a listed object from files if no manifest has it."""
        kind = DATA_KINDS.get(listed.type.lower())
        if kind is None:
            # An invalid manifest may be the listed one.
            if not any(id(document) in self._broken for document in build.documents):
                self._errors.append(
                    f"targets: {listed.type} {listed.name} is in no file: correct type and name, or remove the target"
                )
            return
        place = (kind, self._forced or listed.namespace or self._namespace, listed.name)
        try:
            self._used.update(volumes.setdefault(place, DataObject(*place)).take(listed, build.files))
        except FileDataError as error:
            self._errors.append(f"targets: {error}")

    def _matching(self, listed: ConfigSyncTarget, build: BuildOutput) -> list[DocumentLike]:
        """Return the manifests of a target. Its own namespace, if among them, excludes the others."""
        found = [one for one in self.sound([build]) if _matches(listed, one.manifest)]
        own = [one for one in found if one.manifest["metadata"].get("namespace") == listed.namespace]
        return own if listed.namespace and own else found

    def _file(self, data_object: DataObject) -> None:
        """Place an object that is made from files. The overrides of all its targets apply."""
        manifest: Json | None = data_object.manifest()
        for listed in data_object.filled_by:
            if manifest is not None:
                manifest = self._overridden(manifest, data_object.origin, listed)
        if manifest is not None and data_object.filled_by:
            self.put(manifest, data_object.origin, None)

    def put(self, manifest: Json, origin: str, listed: ConfigSyncTarget | None) -> None:
        """Choose the namespace of an object, apply overrides, and add it."""
        metadata = manifest["metadata"]
        namespaced = self._is_namespaced(manifest)
        said = (listed.namespace if listed else None) or metadata.get("namespace")
        namespace = "" if namespaced is False else self._forced or said or self._namespace
        if namespaced is False and said:
            self._notes.append(f"{origin}: {_called(manifest)} is in no namespace; {said} is left out")
        others = {name: value for name, value in metadata.items() if name != "namespace"}
        placed: Json | None = {
            **manifest,
            "metadata": {**({"namespace": namespace} if namespace else {}), **others},
        }
        if listed is not None and placed is not None:
            placed = self._overridden(placed, origin, listed)
        if placed is None:
            return
        target = Target(namespace, metadata["name"], kind_of(manifest))
        if before := self._objects.get(target):
            self._errors.append(_twice(target, before.origin, origin))
            return
        self._objects[target] = Placed(target=target, manifest=placed, origin=origin, served=namespaced is not None)

    def _is_namespaced(self, manifest: Json) -> bool | None:
        group, version, kind = group_of(manifest), manifest["apiVersion"].rpartition("/")[2], manifest["kind"]
        found = self._scope(group, version, kind)
        return self._definitions.get((group, kind)) if found is None else found

    def _overridden(self, manifest: Json, origin: str, listed: ConfigSyncTarget) -> Json | None:
        if not listed.overrides:
            return manifest
        where = f"targets: overrides of {listed.type} {listed.name} ({origin})"
        metadata = listed.overrides.get("metadata")
        if isinstance(metadata, dict) and metadata.get("name", listed.name) != listed.name:
            self._errors.append(f"{where}: the name cannot be changed: change it in the file")
            return None
        try:
            result = patched(manifest, "Merge", listed.overrides)
        except PatchError as error:
            self._errors.append(f"{where}: {error}")
            return None
        found = validate(result)
        self._errors += [f"{where}: {_called(result)} {problem}" for _, problem in found]
        return None if found else result

    def report(self, builds: Sequence[BuildOutput]) -> None:
        """Report the manifests and files without a target."""
        listing = any(build.listed for build in builds)
        for document in self.sound(builds) if listing else ():
            if _made(document) not in self._used:
                reason = "is not in targets, so it is not applied"
                self._unplaced.append(Unplaced(_called(document.manifest), _origin(document), reason))
        for file in (file for build in builds for file in build.files):
            if file.path not in self._used:
                reason = "is no manifest, and no target of type ConfigMap or Secret takes it"
                self._unplaced.append(Unplaced("the file", file.path, reason))


def _matches(listed: ConfigSyncTarget, manifest: Json) -> bool:
    group, kind = GroupKind.parse(listed.type)
    return (
        manifest["metadata"]["name"] == listed.name
        and manifest["kind"].lower() == kind.lower()
        and (not group or group.lower() == group_of(manifest))
    )


def _origin(document: DocumentLike) -> str:
    return f"{document.file}:{document.line}" if document.line else document.file


def _called(manifest: Any) -> str:
    """Return the name of an object, as far as it is valid."""
    if not isinstance(manifest, dict):
        return "the document"
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    words = [word for word in (manifest.get("kind"), name) if isinstance(word, str) and word]
    return " ".join(words) or "the document"


def _made(document: DocumentLike) -> str:
    metadata = document.manifest["metadata"]
    return f"{kind_of(document.manifest)} {metadata.get('namespace') or ''}/{metadata['name']}"


def _twice(target: Target, first: str, second: str) -> str:
    if first == second:
        return f"{second}: {target} is there twice: remove one, or give it another name or namespace"
    return f"{second}: {target} is there already, from {first}: remove one, or give it another name or namespace"
