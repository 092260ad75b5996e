"""SyncTarget: reports whether a cluster can be reached, before any sync uses it.

    read the Secret -> keep a member for it -> report

The status is written only when it changes, so that a quiet fleet causes no writes. The time when the cluster was last
seen is from the last change, and is exact while the cluster is unreachable.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, structs

from syncline.api import synctarget as api
from syncline.api.common import ConditionStatus
from syncline.api.synctarget import SyncedResource, SyncTarget, SyncTargetSpec, SyncTargetStatus
from syncline.controllers.object_reconciler import ObjectReconciler
from syncline.controllers.requeue import NO_REQUEUE, Requeue
from syncline.controllers.targets.synctargets import RESOURCE, SyncTargetInformer, TargetSync, secret_reader
from syncline.controllers.tenancy import Policies, check_server
from syncline.core.author_policies import AUTHOR_UNCHECKED
from syncline.core.compatibility import MAX_RESOURCES
from syncline.core.conditions import Finding, find, update_conditions
from syncline.core.sync_status import EXPIRING
from syncline.engine.sync_object import RawSync
from syncline.fairness import on_behalf_of
from syncline.fleet import Credentials, Fleet, NotResolved, RemoteCluster, Resolved, resolve_target
from syncline.kube.cache import Key
from syncline.kube.client import Client
from syncline.kube.errors import ApiError
from syncline.kube.events import EventRecorder
from syncline.telemetry import metrics

# The interval of reading a Secret without a change. A refused credential is read sooner.
PROBE_INTERVAL = 300.0

# Reasons that only time or a person at the other end can change: the state of the cluster is not known.
_UNKNOWN = frozenset({"Connecting", "Unreachable", "ServerError", "TooManyRequests", "Closed", "Replaced"})


class ProbeResult(Struct, frozen=True, kw_only=True):
    """The result of one reconcile."""

    ready: Finding
    member: RemoteCluster | None = None
    warning: str | None = None
    requeue: Requeue = NO_REQUEUE


class SyncTargetReconciler(ObjectReconciler):
    """Reconciles all SyncTargets of a cluster."""

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        targets: SyncTargetInformer,
        *,
        events: EventRecorder,
        watch_namespaces: Sequence[str] = (),
        on_credential: Callable[[], None] = lambda: None,
        policies: Policies | None = None,
    ) -> None:
        super().__init__(RESOURCE, client, events, targets.hub.marks)
        self._client = client
        self._fleet = fleet
        self._members: dict[Key, RemoteCluster] = {}
        self._resources: dict[Key, tuple[tuple[SyncedResource, ...], bool]] = {}
        self._complete = False
        self._usable: dict[Key, bool] = {}
        self._on_credential = on_credential
        self._policies = policies
        self._targets = targets
        self._watched = frozenset(watch_namespaces)
        targets.listen(self._changed)
        fleet.listen(self._member_changed)

    async def _reconcile(self, key: Key) -> Requeue:
        """Reconcile one SyncTarget, and notify the listeners of a change."""
        on_behalf_of.set(key.namespace)
        sync = self._targets.reflector.get(key)
        if sync is None or sync.deleting:
            self._drop_state(key)
            return NO_REQUEUE
        probe = await self._probe(sync, key)
        stored = probe is None or await self._report(sync, probe, key)
        if not stored or (probe is not None and probe.requeue.backoff):
            return Requeue(backoff=True)
        return Requeue(after=PROBE_INTERVAL)

    def _observe(self, wire: RawSync) -> None:
        self._targets.reflector.observe(wire, api.KIND)

    def set_resources(self, key: Key, entries: Sequence[SyncedResource], certain: bool = True) -> None:
        """Record which kinds syncs write to the cluster of a SyncTarget, and whether these are certainly all."""
        known, new = self._known_resources(key), (tuple(entries), certain)
        if not self._is_watched(key) or known == new:
            return
        self._resources[key] = new
        if new == ((), self._complete):  # the SyncTarget may be deleted already: nothing would remove the entry
            del self._resources[key]
        if self._targets.reflector.get(key) is not None:
            self.queue.add(key)

    def resources_complete(self) -> None:
        """Record that all syncs have reported: other kinds are no longer written."""
        self._complete = True
        self._look_again()

    def policies_changed(self, namespaces: frozenset[str]) -> None:
        """Reconcile the SyncTargets of namespaces whose TenantPolicies have changed."""
        self._look_again(lambda key: key.namespace in namespaces)

    def authors_changed(self) -> None:
        """Reconcile all SyncTargets, because the check of authors has changed."""
        self._look_again()

    def _look_again(self, which: Callable[[Key], bool] = lambda _: True) -> None:
        for sync in self._targets.reflector.values():
            key = Key(sync.metadata.namespace, sync.metadata.name)
            if which(key) and self._is_watched(key):
                self.queue.add(key)

    def secret_changed(self, key: Key) -> None:
        """Reconcile the SyncTargets that read this Secret."""
        for at, sync in self._targets.reflector.items():
            reads = at.namespace == key.namespace and sync.spec is not None and _secret_of(sync.spec) == key.name
            if reads and self._is_watched(at):
                self.queue.add(at)
            elif reads:  # syncs of other namespaces may use it, although it is not reconciled here
                self._on_credential()

    async def _probe(self, sync: TargetSync, key: Key) -> ProbeResult | None:
        """Return the result; None while the cluster is connected for the first time: the fleet reports its end."""
        if why := self._targets.refusal(sync):
            self._release(key)
            self._set_usable(key, usable=False)
            return ProbeResult(ready=Finding("Ready", "False", AUTHOR_UNCHECKED, why))
        if sync.spec is None:
            self._release(key)
            return ProbeResult(ready=Finding("Ready", "False", "InvalidSpec", f"the spec cannot be read: {sync.error}"))
        target = SyncTarget(metadata=sync.metadata, spec=sync.spec, status=sync.status)
        await self._targets.confirm([target])
        try:
            resolved = await self._resolve(target)

            async def reread() -> Credentials:
                return (await self._resolve(target)).credentials

            member = self._fleet.get_or_create(resolved.key, resolved.credentials, user=_user(key), reread=reread)
        except (NotResolved, ApiError) as error:
            # The last good result does not count any more: syncs get the same answer.
            self._release(key)
            self._set_usable(key, usable=False)
            reason = error.reason if isinstance(error, NotResolved) else "CredentialUnreadable"
            return ProbeResult(ready=Finding("Ready", "False", reason, str(error)), requeue=Requeue(backoff=True))
        self._members[key] = member
        self._set_usable(key, usable=True)
        if member.health.state == "Unknown":
            return None
        return ProbeResult(
            ready=_ready(member, sync.spec),
            member=member,
            warning=resolved.credentials.warning(datetime.now(UTC)),
        )

    async def _resolve(self, target: SyncTarget) -> Resolved:
        resolved = await resolve_target(
            target,
            target.metadata.namespace,
            read_secret=secret_reader(self._targets.hub, self._client),
            allow_loopback=self._fleet.allow_loopback,
        )
        check_server(self._policies, resolved, target.metadata.namespace)
        return resolved

    async def _report(self, sync: TargetSync, probe: ProbeResult, key: Key) -> bool:
        """Write the status if it changed, and report the change. Return whether the API server accepted it."""
        meta, now = sync.metadata, datetime.now(UTC)
        known, certain = self._known_resources(key)
        resources = known if certain else _with_former(known, sync.status.synced_resources)
        status = compose(sync, probe, resources, now)
        metrics.set_ready(api.KIND, meta.namespace, meta.name, probe.ready.status)
        stored = await self._store(meta, sync.status, status, _time(now))
        ready = find(stored.status.conditions, "Ready") or probe.ready
        metrics.set_ready(api.KIND, meta.namespace, meta.name, ready.status)
        if stored.wire is not None or stored.refusal is not None:
            await self._announce(sync, Finding(ready.type, ready.status, ready.reason, ready.message), probe.warning)
        return stored.refusal is None

    async def _announce(self, sync: TargetSync, after: Finding, warning: str | None) -> None:
        before = find(sync.status.conditions, "Ready")
        if before is None or (before.status, before.reason) != (after.status, after.reason):
            level: Literal["Normal", "Warning"] = "Normal" if after.status == "True" else "Warning"
            await self._emit(sync.metadata, level, after.reason, after.message, "Reach")
        if warning and find(sync.status.conditions, EXPIRING) is None:
            await self._emit(sync.metadata, "Warning", EXPIRING, warning, "Reach")

    def _changed(self, key: Key, old: TargetSync | None, new: TargetSync | None) -> None:
        changed = old is None or new is None or (old.spec, old.deleting) != (new.spec, new.deleting)
        if changed and self._is_watched(key):
            self.queue.add(key)

    def _member_changed(self, member: RemoteCluster) -> None:
        for key, each in self._members.items():
            if each is member:
                self.queue.add(key)

    def _set_usable(self, key: Key, *, usable: bool) -> None:
        """Enqueue the syncs if a credential was removed or restored: they name the SyncTarget, not the credential."""
        if self._usable.get(key, usable) != usable:
            self._on_credential()
        self._usable[key] = usable

    def _release(self, key: Key) -> None:
        self._members.pop(key, None)
        self._fleet.retain(_user(key), ())

    def _known_resources(self, key: Key) -> tuple[tuple[SyncedResource, ...], bool]:
        return self._resources.get(key, ((), self._complete))

    def _drop_state(self, key: Key) -> None:
        self._release(key)
        self._resources.pop(key, None)
        self._usable.pop(key, None)
        metrics.forget_sync(api.KIND, key.namespace, key.name)

    def _is_watched(self, key: Key) -> bool:
        return not self._watched or key.namespace in self._watched


def compose(
    sync: TargetSync, probe: ProbeResult, resources: Sequence[SyncedResource], now: datetime
) -> SyncTargetStatus:
    """Compose the new status of a SyncTarget from the old status and the result of a reconcile. Pure."""
    meta, old, member = sync.metadata, sync.status, probe.member
    findings = [probe.ready]
    if probe.warning:
        findings.append(Finding(EXPIRING, "True", "RenewSoon", probe.warning))
    if probe.ready.status == "False" and probe.member is None:
        findings.append(Finding("Stalled", "True", probe.ready.reason, probe.ready.message))
    status = structs.replace(
        old,
        observed_generation=meta.generation,
        conditions=update_conditions(old.conditions, findings, meta.generation, _time(now)),
        synced_resources=list(resources),
        credential_expiry=_time(member.credentials.expires) if member and member.credentials.expires else None,
    )
    if member is None:
        return status
    before = find(old.conditions, "Ready")
    turned = before is None or (before.status, before.reason) != (probe.ready.status, probe.ready.reason)
    return structs.replace(
        status,
        version=member.version or old.version,
        last_seen=_time(member.last_seen) if turned and member.last_seen else old.last_seen,
    )


def _with_former(known: Sequence[SyncedResource], former: Sequence[SyncedResource]) -> list[SyncedResource]:
    """Keep the kinds of syncs that have not reported since the operator started."""
    names = {entry.name for entry in known}
    entries = [*known, *(entry for entry in former if entry.name not in names)]
    return sorted(entries, key=lambda entry: (entry.state != "Incompatible", entry.name))[:MAX_RESOURCES]


def _ready(member: RemoteCluster, spec: SyncTargetSpec) -> Finding:
    health = member.health
    if health.state == "Up":
        closed = "; it takes no new syncs (unschedulable)" if spec.unschedulable else ""
        return Finding("Ready", "True", health.reason, f"the cluster answers{closed}")
    status: ConditionStatus = "Unknown" if health.reason in _UNKNOWN else "False"
    seen = f"last seen {_time(health.last_seen)}" if health.last_seen else "never seen"
    return Finding("Ready", status, health.reason, f"{health.message} ({seen})")


def _secret_of(spec: SyncTargetSpec) -> str:
    ref = spec.connection.kubeconfig_secret_ref or spec.connection.service_account_token_ref
    return ref.name if ref is not None else ""


def _user(key: Key) -> tuple[str, Key]:
    return (api.KIND, key)


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
