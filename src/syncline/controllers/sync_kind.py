"""The base of every kind of syncs: how its objects are read, admitted and watched.

A kind defines how its spec is lowered, and its request to the TenantPolicies. Kinds that build objects, or that have
environments, override more.
"""

from abc import ABC, abstractmethod
from typing import Generic

from syncline.controllers.errors import refuse_suspended
from syncline.controllers.lowered import LoweredSpec, Spec, Status, spec_of
from syncline.controllers.result import ReconcileResult
from syncline.controllers.tenancy import Tenancy
from syncline.core.tenancy import TenantRequest
from syncline.engine.claims import Claim
from syncline.engine.sync_object import RawSync, Sync, read_sync
from syncline.engine.watch_index import WatchSet
from syncline.kube.resources import Resource


class SyncKind(ABC, Generic[Spec, Status]):
    """A kind of syncs, configured by the flags of the operator."""

    def __init__(self, tenancy: Tenancy, resource: Resource, spec: type[Spec], status: type[Status]) -> None:
        self.tenancy = tenancy
        """The rules that apply to its syncs."""
        self.resource = resource
        self._spec = spec
        self._status = status

    @property
    def name(self) -> str:
        """The kind."""
        return self.resource.kind

    @abstractmethod
    def lower(self, sync: Sync[Spec, Status]) -> LoweredSpec[Spec, Status]:
        """Lower a spec. Raises `SyncError` if it is not valid."""

    @abstractmethod
    def request(self, spec: Spec, namespace: str) -> TenantRequest:
        """Return the request of a sync of a namespace to the TenantPolicies."""

    def read(self, wire: RawSync) -> Sync[Spec, Status]:
        """Decode a sync."""
        return read_sync(self.name, self._spec, self._status, wire)

    def admit(self, sync: Sync[Spec, Status]) -> LoweredSpec[Spec, Status]:
        """Lower the spec of a sync for a reconcile. Raises `SyncError` if the sync is not admitted."""
        lowered = self.lower(sync)
        refuse_suspended(suspended=lowered.suspended)
        namespace = sync.metadata.namespace
        self.tenancy.admit(namespace, self.request(spec_of(sync), namespace))
        return lowered

    def watches(self, sync: Sync[Spec, Status]) -> tuple[WatchSet, Claim | None]:
        """Return the watches and claims of a sync that follow from its spec alone."""
        lowered = self.lower(sync)
        return lowered.watches(), lowered.claim()

    def record_units(self, lowered: LoweredSpec[Spec, Status], status: Status) -> Status:  # noqa: ARG002 - for others
        """Record the units in the status before their first write. A sync without environments records none."""
        return status

    @abstractmethod
    def extend_status(self, report: ReconcileResult[Spec, Status], status: Status, now: str) -> Status:
        """Add the status fields of this kind."""
