"""Which kinds an API server serves, and where.

    discovery = Discovery(client)
    deployments = await discovery.find("apps", "Deployment")

Two requests read everything (aggregated discovery, Kubernetes 1.26 and later); older servers are asked version by
version. What was read is kept; a kind that is not in it is looked for once more before it is said not to be served.
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
"""Seconds after a reading within which an unknown kind is not worth another one."""

KEPT = 600.0
"""Seconds after which a reading is repeated all the same: not every change of what is served has an event."""

VERSION_SECONDS = 15.0
"""How long one version of a group may take to answer, where each is asked for itself."""

ROOTS = ("/api", "/apis")
_AGGREGATED = "APIGroupDiscoveryList"
_ACCEPT = ",".join(
    [
        *(f"application/json;g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}" for version in ("v2", "v2beta1")),
        "application/json",
    ]
)
_STALE = "Stale"
_NAMED = 5


class Served(Struct, frozen=True, kw_only=True):
    """A kind that is served, in one version, and what can be done with its objects."""

    resource: Resource
    verbs: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """What people call it on the command line: plural, singular and short names."""

    @property
    def keeps_objects(self) -> bool:
        """Whether objects can be made, found and deleted: other kinds hold nothing that anybody wrote."""
        return self.verbs >= {"create", "list", "delete"}


class Discovery:
    """The kinds of one API server. Share it: all callers use one reading, and wait for the same new one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: _Reading | None = None
        self._pending: asyncio.Task[_Reading] | None = None

    async def find(self, group: str, kind: str, version: str | None = None) -> Resource:
        """Return where the objects of a kind are; without a version, in the one that the server prefers.

        Raises `KindNotServed`, whose message says what to write instead, and what any read raises.
        """
        reading = await self._reading(KEPT)
        if (found := reading.find(group, kind, version)) is None:
            reading = await self._reading(FRESH)
            found = reading.find(group, kind, version)
        if found is None:
            certain = not reading.is_silent(group, version)
            raise KindNotServed(reading.explain(group, kind, version), certain=certain)
        return found.resource

    async def resources(self) -> list[Served]:
        """Return every kind once, in the version that the server prefers; `silent` tells what may be missing."""
        return (await self._reading(KEPT)).preferred()

    @property
    def silent(self) -> tuple[str, ...]:
        """The group versions, such as `metrics.k8s.io/v1beta1`, that did not answer at the last reading."""
        return self._known.silent if self._known else ()

    def forget(self) -> None:
        """Read anew at the next question: a kind came or went."""
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
        part = _together(await asyncio.gather(*(self._read_root(root) for root in ROOTS)))
        return _Reading(asyncio.get_running_loop().time(), part)

    async def _read_root(self, root: str) -> "_ApiRoot":
        answer = await self._client.document(root, type=_Root, accept=_ACCEPT)
        if answer.kind == _AGGREGATED:
            return _aggregated(answer)
        if answer.kind not in {"APIVersions", "APIGroupList"}:
            raise BadAnswer(f"the answer to {root} is no list of API groups")
        versions = [*(answer.versions or ()), *(name for group in answer.groups or () for name in group.ordered())]
        return _together(await asyncio.gather(*(self._read_version(root, name) for name in versions)))

    async def _read_version(self, root: str, name: str) -> "_ApiRoot":
        """Read one version of one group. One that fails leaves the others alone; a server out of reach does not."""
        try:
            async with asyncio.timeout(VERSION_SECONDS):
                answer = await self._client.document(f"{root}/{name}", type=_Resources)
        except (ApiError, BadAnswer, TimeoutError):
            return _ApiRoot([], [name])
        group, _, version = name.rpartition("/")
        entries = [entry for entry in answer.resources or () if "/" not in entry.name]  # what has one is a subresource
        return _ApiRoot([entry.served(group, version) for entry in entries], [])


class _ApiRoot(NamedTuple):
    """What is served, best version of each group first, and the group versions that did not answer."""

    served: list[Served]
    silent: list[str]


def _together(parts: Iterable[_ApiRoot]) -> _ApiRoot:
    whole = _ApiRoot([], [])
    for part in parts:
        whole.served.extend(part.served)
        whole.silent.extend(part.silent)
    return whole


class _Reading:
    """What was served at one time."""

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
        # An extension may serve one kind under several names: the one that can be read is meant.
        return next((one for one in found if "get" in one.verbs), found[0] if found else None)

    def preferred(self) -> list[Served]:
        plurals = {(one.resource.group, one.resource.plural): one for one in reversed([*self._all()])}
        return [*reversed(plurals.values())]

    def is_silent(self, group: str, version: str | None) -> bool:
        """Whether a kind of the group may be served without our knowing it."""
        return any(
            name.rpartition("/")[0] == group and version in {None, name.rpartition("/")[2]} for name in self.silent
        )

    def explain(self, group: str, kind: str, version: str | None) -> str:
        """Say that a kind is not served, and what to write instead."""
        place = f"{group}/{version}".lstrip("/") if version else f"group {group}" if group else "the core group"
        asked = f"kind {kind} of {place}"
        if self.is_silent(group, version):
            return f"whether {asked} is served is not known: its API service does not answer"
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
            return f"nothing of group {group} is served: is its CustomResourceDefinition installed?"
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
            if version.freshness == _STALE:  # it may still list what it served when it last answered
                part.silent.append(f"{name}/{version.version}".lstrip("/"))
            part.served.extend(entry.served(name, version.version) for entry in version.resources or ())
    return part


# Lists of the wire may be absent, and are null where a Go server has nothing to put in them.
class _GroupMeta(Struct):
    name: str = ""


class _ResponseKind(Struct):
    kind: str = ""


class _AggregatedResource(Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None

    def served(self, group: str, version: str) -> Served:
        kind = self.response_kind.kind if self.response_kind else ""
        return Served(
            resource=Resource(group, version, self.resource, kind, namespaced=self.scope == "Namespaced"),
            verbs=frozenset(self.verbs or ()),
            names=frozenset([self.resource, self.singular_resource, *(self.short_names or ())]),
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
    """What /api and /apis answer: aggregated, or the names of versions or groups alone."""

    kind: str
    items: list[_AggregatedGroup] | None = None
    versions: list[str] | None = None
    groups: list[_Group] | None = None


class _Resource(Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None

    def served(self, group: str, version: str) -> Served:
        return Served(
            resource=Resource(group, version, self.name, self.kind, namespaced=self.namespaced),
            verbs=frozenset(self.verbs or ()),
            names=frozenset([self.name, self.singular_name, *(self.short_names or ())]),
        )


class _Resources(Struct):
    resources: list[_Resource] | None
