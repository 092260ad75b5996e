"""The admission policies in the cluster that check authors.

They are watched, and read live before a new spec counts: the watch of syncs may be faster than the watch of policies.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog
from msgspec import Struct, field

from syncline.api.common import ObjectMeta
from syncline.core.author_policies import (
    INSTALL,
    VERSION_LABEL,
    Enforcement,
    Live,
    Manifest,
    find_problem,
    is_about_authors,
    is_replaced_unseen,
)
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.reflector import Reflector, ReflectorStatus
from syncline.kube.resources import Resource
from syncline.telemetry import metrics

log = structlog.get_logger(__name__)

POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
OURS = "app.kubernetes.io/part-of=syncline"
"""The label of all shipped objects. An object without it is not known to be ours."""

ENFORCED_AFTER = 5.0
"""An API server may take this long until a new policy is in force."""

REFUSAL_GRACE = 20.0
"""An API server that has just started may refuse every request for this long."""

_AUTHORS = "-authors."
_POLL = 0.1
_UNKNOWN = "the admission policies are not known yet"


class PolicyWire(Struct):
    """A policy or binding, as the API server sends it."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: dict[str, Any] = field(default_factory=dict)


class PolicyChanging(KubeError):  # noqa: N818 - a state, not a mistake
    """The policies differ from the watch, which will report it in a moment."""


class AuthorPolicies:
    """Whether the authors of each kind of ours are checked. Call `begin` after the start of `run`."""

    def __init__(
        self, client: Client, shipped: Iterable[Manifest], version: str, on_change: Callable[[str], None]
    ) -> None:
        self._client = client
        self._version = version
        self._on_change = on_change
        self._shipped: dict[str, list[Manifest]] = {}
        for manifest in (one for one in shipped if is_about_authors(one["metadata"]["name"])):
            self._shipped.setdefault(_kind_of(manifest["metadata"]["name"]), []).append(manifest)
        self._reflectors = {
            resource.kind: Reflector(
                client,
                resource,
                decode=PolicyWire,
                project=read_live,
                labels=OURS,
                on_change=self._changed,
            )
            for resource in (POLICIES, BINDINGS)
        }
        self._problems: dict[str, str] | None = None
        """The problems by plural; None until all policies and bindings are listed."""
        self._learned = asyncio.Event()
        self._began = False
        self._epochs: Counter[str] = Counter()
        self._reading = asyncio.Lock()
        self._next_read: asyncio.Task[frozenset[tuple[str, int]]] | None = None
        self._enforced_at: dict[str, float] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        await asyncio.gather(*(reflector.run() for reflector in self._reflectors.values()), self._learn())

    async def begin(self) -> None:
        """Wait until the policies are listed, or cannot be listed."""
        while not self._learned.is_set() and not self._refusal():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._learned.wait(), _POLL)
        self._began = True
        metrics.set_self_check("policies", ok=not self.problems())
        for problem in self.problems():
            log.warning("syncs without a service account are not reconciled", why=problem)

    async def _learn(self) -> None:
        """Check the policies when they are listed, even if the API server refused at first."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()
        self._problems = dict(self._find())
        self._learned.set()
        metrics.set_self_check("policies", ok=not any(self._problems.values()))
        if self._began:
            for plural in self._shipped:
                self._on_change(plural)

    def problem(self, plural: str) -> str:
        """Return why authors of a kind are not checked, with the remedy; empty if they are checked."""
        if refusal := self._refusal():
            return refusal
        if self._problems is None:
            return _UNKNOWN
        if problem := self._problems.get(plural, ""):
            return problem
        if asyncio.get_running_loop().time() < self._enforced_at.get(plural, 0.0):
            return f"the admission policy of {plural} is back, and will be in force in a moment"
        return ""

    def enforcement(self, plural: str) -> Enforcement:
        """Return whether the policies of a kind are in force, as far as the API server shows them."""
        if self._problems is None or self._refusal():
            return "Unknown"
        return "Missing" if self.problem(plural) else "InForce"

    def is_interrupted(self) -> bool:
        """Whether the API server has refused to show the policies only briefly, as after its start."""
        refused = [status for status in self._statuses() if status.refused]
        return bool(refused) and all(status.failing < REFUSAL_GRACE for status in refused)

    def epoch(self, plural: str) -> int:
        """Return how often the policies of a kind were replaced without a watch event in between."""
        return self._epochs[plural]

    def problems(self) -> list[str]:
        """Return all problems, each once."""
        return list(dict.fromkeys(problem for plural in self._shipped if (problem := self.problem(plural))))

    def is_older(self, created: str, plural: str, *, removing: bool) -> bool:
        """Whether an object was created before the policy about its author, and so was not checked.

        `removing`: also before the policy about removal, if there may be objects to remove.
        """
        shipped = (one for one in self._shipped[plural] if removing or _AUTHORS in one["metadata"]["name"])
        return any(created < live.created for live in map(self._live, shipped) if live is not None)

    def is_deletion_older(self, deleted: str, plural: str) -> bool:
        """Whether an object was deleted before one of the policies of its kind, so that the user was not checked."""
        return any(deleted <= live.created for live in map(self._live, self._shipped[plural]) if live is not None)

    async def confirm(self, plural: str) -> None:
        """Verify by a live read that the policies are as the watch reports. Raises `PolicyChanging` and `KubeError`."""
        if self._next_read is None:
            self._next_read = asyncio.create_task(self._read())
            self._next_read.add_done_callback(lambda read: read.cancelled() or read.exception())
        found = await asyncio.shield(self._next_read)
        for manifest in self._shipped[plural]:
            live = self._live(manifest)
            if live is None or (live.uid, live.generation) not in found:
                raise PolicyChanging(f"the {manifest['kind']} {manifest['metadata']['name']} is being changed")

    async def _read(self) -> frozenset[tuple[str, int]]:
        """Read the policies, one read at a time. All callers before the start of a read share it."""
        async with self._reading:
            self._next_read = None
            lists = await asyncio.gather(
                *(
                    self._client.list(resource, labels=OURS, type=MetaWire, metadata_only=True)
                    for resource in (POLICIES, BINDINGS)
                )
            )
        return frozenset((wire.metadata.uid, wire.metadata.generation) for wires, _ in lists for wire in wires)

    def _refusal(self) -> str:
        """Return why the policies cannot be read, if the API server has refused it."""
        for status in self._statuses():
            if status.forbidden:
                return f"{INSTALL}: the operator may not list or watch {status.resource}: {status.failure}"
            if status.refused:
                return f"use Kubernetes 1.30 or newer: there are no {status.resource} here: {status.failure}"
        return ""

    def _statuses(self) -> Iterator[ReflectorStatus]:
        return (reflector.status() for reflector in self._reflectors.values())

    def _live(self, manifest: Manifest) -> Live | None:
        return self._reflectors[manifest["kind"]].get(Key("", manifest["metadata"]["name"]))

    def _find(self) -> Iterator[tuple[str, str]]:
        for plural, manifests in self._shipped.items():
            found = (find_problem(manifest, self._live(manifest), self._version) for manifest in manifests)
            yield plural, next((problem for problem in found if problem), "")

    def _changed(self, key: Key, old: Live | None, new: Live | None, _by: str) -> None:
        plural = _kind_of(key.name)
        if self._problems is None or plural not in self._shipped or not is_about_authors(key.name):
            return
        if is_replaced_unseen(old, new):
            log.warning("an admission policy was replaced while it could not be watched", policy=key.name)
            self._epochs[plural] += 1
            self._on_change(plural)
        before, self._problems = self._problems, dict(self._find())
        now = self._problems[plural]
        metrics.set_self_check("policies", ok=not any(self._problems.values()))
        if now == before[plural]:
            return
        if now:
            log.warning("syncs without a service account are not reconciled", why=now)
            self._on_change(plural)
            return
        loop = asyncio.get_running_loop()
        log.info("the admission policy is back", policy=key.name)
        self._enforced_at[plural] = loop.time() + ENFORCED_AFTER
        loop.call_later(ENFORCED_AFTER, self._on_change, plural)


def _kind_of(name: str) -> str:
    """Return the plural of the kind of a policy or binding, from a name such as `configsyncs-authors.syncline.dev`."""
    return name.partition("-")[0]


def read_live(wire: PolicyWire) -> Live:
    """Read a policy or binding."""
    meta = wire.metadata
    return Live(
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        created=meta.creation_timestamp,
        version=meta.labels.get(VERSION_LABEL, ""),
        spec=wire.spec,
    )
