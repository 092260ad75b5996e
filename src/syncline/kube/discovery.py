"""Discovery: the kinds that an API server serves, and their resources.

    discovery = Discovery(client)
    deployments = await discovery.find("apps", "Deployment")

Two requests read everything (aggregated discovery, Kubernetes 1.26 and later); older servers and kcp need one request
for each version. The result is cached. If a kind is missing in it, it is read once more before the kind counts as not
served.
"""

import asyncio
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from msgspec import Struct, field

from syncline.kube.client import Client
from syncline.kube.errors import ApiError, BadAnswer, KindNotServed
from syncline.kube.resources import Resource

FRESH = 2.0
"""Seconds after a reading in which an unknown kind causes no other reading."""

KEPT = 600.0
"""Seconds after which it is read again: not every change of the served kinds has an event."""

VERSION_SECONDS = 15.0
"""The timeout for one version of a group, if each has its own request."""

ROOTS = ("/api", "/apis")
_AGGREGATED = "APIGroupDiscoveryList"
_ACCEPT = ",".join(
    [
        *(f"application/json;g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}" for version in ("v2", "v2beta1")),
        "application/json",
    ]
)
_STALE = "Stale"
_PATCH = "patch"
_NAMED = 5


class Served(Struct, frozen=True, kw_only=True):
    """A served kind in one version, with its verbs."""

    resource: Resource
    verbs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Its names on the command line: plural, singular and short names."""
    subresources: frozenset[str] = frozenset()
    """What can be written of its objects separately, such as `status` and `scale`."""

    @property
    def keeps_objects(self) -> bool:
        """Whether objects can be created, listed and deleted: other kinds have no stored objects."""
        return self.verbs >= {"create", "list", "delete"}


class Discovery:
    """The kinds of one API server. Share it: all callers share one reading."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: _Reading | None = None
        self._pending: asyncio.Task[_Reading] | None = None

    async def find(self, group: str, kind: str, version: str | None = None) -> Resource:
        """Return the resource of a kind; without a version, in the version that the server prefers.

        Raises `KindNotServed`, whose message names the remedy, and the errors of any read.
        """
        return (await self.served(group, kind, version)).resource

    async def served(self, group: str, kind: str, version: str | None = None) -> Served:
        """Return what can be done with the objects of a kind; as `find` does it, and with the same errors."""
        reading = await self._reading(KEPT)
        if (found := reading.find(group, kind, version)) is None:
            reading = await self._reading(FRESH)
            found = reading.find(group, kind, version)
        if found is None:
            certain = not reading.is_silent(group, version)
            raise KindNotServed(reading.explain(group, kind, version), certain=certain)
        return found

    async def resources(self, age: float = KEPT) -> list[Served]:
        """Return every kind once, in the version that the server prefers; groups in `silent` may be missing.

        A reading that is older than `age` seconds is repeated.
        """
        return (await self._reading(age)).preferred()

    @property
    def silent(self) -> tuple[str, ...]:
        """The group versions, such as `metrics.k8s.io/v1beta1`, that did not answer at the last reading."""
        return self._known.silent if self._known else ()

    def forget(self) -> None:
        """Read again at the next request, because a kind was added or removed."""
        self._known = self._pending = None

    async def _reading(self, age: float) -> "_Reading":
        clock = asyncio.get_running_loop().time
        if self._known and clock() - self._known.time < age:
            return self._known
        if self._pending is None:
            self._pending = asyncio.create_task(self._read())
            self._pending.add_done_callback(self._keep)
        # Shielded: others wait for the same reading.
        return await asyncio.shield(self._pending)

    def _keep(self, task: "asyncio.Task[_Reading]") -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._pending is task:
            self._pending = None
            self._known = self._known if failed else task.result()

    async def _read(self) -> "_Reading":
        answers = await asyncio.gather(*(self._client.document(root, type=_Root, accept=_ACCEPT) for root in ROOTS))
        # kcp aggregates only /api, and leaves out the kinds that a CRD adds to the core group, such as Services.
        aggregated = all(answer.kind == _AGGREGATED for answer in answers)
        parts = (self._read_root(*one, aggregated=aggregated) for one in zip(ROOTS, answers, strict=True))
        return _Reading(asyncio.get_running_loop().time(), _together(await asyncio.gather(*parts)))

    async def _read_root(self, root: str, answer: "_Root", *, aggregated: bool) -> "_ApiRoot":
        if aggregated:
            return _aggregated(answer)
        if answer.kind not in {_AGGREGATED, "APIVersions", "APIGroupList"}:
            raise BadAnswer(f"the answer to {root} is no list of API groups")
        return _together(await asyncio.gather(*(self._read_version(root, name) for name in answer.group_versions())))

    async def _read_version(self, root: str, name: str) -> "_ApiRoot":
        """Read one version of one group. A failure concerns only this version, unless the server is unreachable."""
        try:
            async with asyncio.timeout(VERSION_SECONDS):
                answer = await self._client.document(f"{root}/{name}", type=_Resources)
        except (ApiError, BadAnswer, TimeoutError):
            return _ApiRoot([], [name])
        group, _, version = name.rpartition("/")
        entries = [entry for entry in answer.resources or () if "/" not in entry.name]  # what has one is a subresource
        parts = _subresources(answer)
        return _ApiRoot([entry.served(group, version, frozenset(parts.get(entry.name, ()))) for entry in entries], [])


class _ApiRoot(NamedTuple):
    """The served kinds, the best version of each group first, and the group versions that did not answer."""

    served: list[Served]
    silent: list[str]


def _together(parts: Iterable[_ApiRoot]) -> _ApiRoot:
    whole = _ApiRoot([], [])
    for part in parts:
        whole.served.extend(part.served)
        whole.silent.extend(part.silent)
    return whole


class _Reading:
    """The served kinds at one time."""

    def __init__(self, time: float, part: _ApiRoot) -> None:
        self.time = time
        self.silent = tuple(part.silent)
        self._by_kind: dict[tuple[str, str], list[Served]] = {}
        for one in part.served:
            self._by_kind.setdefault((one.resource.group, one.resource.kind), []).append(one)

    def find(self, group: str, kind: str, version: str | None) -> Served | None:
        found = [
            one for one in self._by_kind.get((group, kind), ()) if version is None or one.resource.version == version
        ]
        # An extension can serve one kind under several names: use the readable one.
        return next((one for one in found if "get" in one.verbs), found[0] if found else None)

    def preferred(self) -> list[Served]:
        plurals = {(one.resource.group, one.resource.plural): one for one in reversed([*self._all()])}
        return [*reversed(plurals.values())]

    def is_silent(self, group: str, version: str | None) -> bool:
        """Whether a kind of the group may be served although it is not in the reading."""
        return any(
            name.rpartition("/")[0] == group and version in {None, name.rpartition("/")[2]} for name in self.silent
        )

    def explain(self, group: str, kind: str, version: str | None) -> str:
        """Return the error for a kind that is not served, with the remedy."""
        place = f"{group}/{version}".lstrip("/") if version else f"group {group}" if group else "the core group"
        asked = f"kind {kind} of {place}"
        if self.is_silent(group, version):
            return f"it is not known whether {asked} is served: its API service does not answer"
        parts = [f"{asked} is not served", self._advice(group, kind)]
        if self.silent:
            parts.append(f"API services that do not answer: {', '.join(self.silent[:_NAMED])}")
        return "; ".join(filter(None, parts))

    def _advice(self, group: str, kind: str) -> str:
        if same := self._by_kind.get((group, kind)):
            return f"write apiVersion {_choice(one.resource.api_version for one in same)}"
        lower = kind.lower()
        meant = [one for one in self._all() if lower in {one.resource.kind.lower(), *one.names}]
        meant.sort(key=lambda one: (one.resource.group != group, not _is_built_in(one.resource.group)))
        if meant and meant[0].resource.group == group:
            return f"write kind {meant[0].resource.kind}"
        if meant:
            return f"write {_choice(f'kind {o.resource.kind} of {o.resource.api_version}' for o in meant)}"
        return self._spelling(group, lower)

    def _spelling(self, group: str, lower: str) -> str:
        here = {one.resource.kind.lower(): one.resource for one in self._all() if one.resource.group == group}
        if not here:
            return f"no kind of group {group} is served: install its CustomResourceDefinition"
        if close := get_close_matches(lower, here, n=1, cutoff=0.75):
            return f"did you mean {here[close[0]].kind}?"
        everywhere = {one.resource.kind.lower(): one.resource for one in self._all()}
        if close := get_close_matches(lower, everywhere, n=1, cutoff=0.85):
            return f"did you mean {everywhere[close[0]].kind} of {everywhere[close[0]].api_version}?"
        return ""

    def _all(self) -> Iterator[Served]:
        for versions in self._by_kind.values():
            yield from versions


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _choice(texts: Iterable[str]) -> str:
    return " or ".join([*dict.fromkeys(texts)][:_NAMED])


def _aggregated(answer: "_Root") -> _ApiRoot:
    part = _ApiRoot([], [])
    for group in answer.items or ():
        name = group.metadata.name
        for version in group.versions or ():
            if version.freshness == _STALE:  # it may still list the kinds of its last answer
                part.silent.append(f"{name}/{version.version}".lstrip("/"))
            part.served.extend(entry.served(name, version.version) for entry in version.resources or ())
    return part


# Lists may be absent on the wire, and a Go server writes null for an empty list.
class _GroupMeta(Struct):
    name: str = ""


class _ResponseKind(Struct):
    kind: str = ""


class _AggregatedSubresource(Struct):
    subresource: str = ""
    verbs: list[str] | None = None


class _AggregatedResource(Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    subresources: list[_AggregatedSubresource] | None = None

    def served(self, group: str, version: str) -> Served:
        kind = self.response_kind.kind if self.response_kind else ""
        return Served(
            resource=Resource(group, version, self.resource, kind, namespaced=self.scope == "Namespaced"),
            verbs=frozenset(self.verbs or ()),
            names=frozenset([self.resource, self.singular_resource, *(self.short_names or ())]),
            subresources=frozenset(
                part.subresource for part in self.subresources or () if _PATCH in (part.verbs or ())
            ),
        )


class _AggregatedVersion(Struct):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = ""


class _AggregatedGroup(Struct):
    metadata: _GroupMeta = field(default_factory=_GroupMeta)
    versions: list[_AggregatedVersion] | None = None


class _GroupVersion(Struct, rename="camel"):
    group_version: str = ""


class _Group(Struct, rename="camel"):
    versions: list[_GroupVersion] | None = None
    preferred_version: _GroupVersion = field(default_factory=_GroupVersion)

    def ordered(self) -> list[str]:
        """Return the versions, the preferred one first."""
        names = [self.preferred_version.group_version, *(version.group_version for version in self.versions or ())]
        return [name for name in dict.fromkeys(names) if name]


class _Root(Struct):
    """The answer of /api and /apis: aggregated, or only the names of versions or groups."""

    kind: str
    items: list[_AggregatedGroup] | None = None
    versions: list[str] | None = None
    groups: list[_Group] | None = None

    def group_versions(self) -> list[str]:
        """Return the names of all versions, the best version of each group first."""
        aggregated = (
            f"{group.metadata.name}/{one.version}".lstrip("/")
            for group in self.items or ()
            for one in group.versions or ()
        )
        plain = (name for group in self.groups or () for name in group.ordered())
        return [*(self.versions or ()), *aggregated, *plain]


class _Resource(Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None

    def served(self, group: str, version: str, subresources: frozenset[str]) -> Served:
        return Served(
            resource=Resource(group, version, self.name, self.kind, namespaced=self.namespaced),
            verbs=frozenset(self.verbs or ()),
            names=frozenset([self.name, self.singular_name, *(self.short_names or ())]),
            subresources=subresources,
        )


class _Resources(Struct):
    resources: list[_Resource] | None


def _subresources(answer: _Resources) -> dict[str, list[str]]:
    """Return what can be patched separately, by resource."""
    found: dict[str, list[str]] = {}
    for entry in answer.resources or ():
        name, _, part = entry.name.partition("/")
        if part and _PATCH in (entry.verbs or ()):
            found.setdefault(name, []).append(part)
    return found
