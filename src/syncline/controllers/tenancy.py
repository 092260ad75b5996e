"""Tenancy of a sync: the service account that it acts as, and what flags and TenantPolicies allow."""

from typing import Protocol

from msgspec import Struct

from syncline.controllers.errors import SyncError
from syncline.core.durations import seconds
from syncline.core.tenancy import NO_LIMITS, NOT_ALLOWED, TenantLimits, TenantRequest, Violation
from syncline.engine.own_rights import OwnRights
from syncline.fleet import NotResolved, Resolved

POLICY_CHANGED = "PolicyChanged"
_NOTHING_OF_ITS_OWN = (
    "set serviceAccountName to an account of this namespace that has the rights, or install with --rights config: this "
    "operator writes nothing in its own name, its profile of rights is none"
)


class Policies(Protocol):
    """The TenantPolicies of the cluster."""

    def limits(self, namespace: str) -> TenantLimits:
        """Return the limits of a namespace."""


def refuse(violation: Violation | None) -> None:
    """Raise `SyncError` if a policy does not allow a request."""
    if violation is not None:
        raise SyncError(NOT_ALLOWED, str(violation), stalled=True)


def check_server(policies: Policies | None, resolved: Resolved, home: str) -> None:
    """Raise `NotResolved` if a policy of the namespace of a credential does not allow the server.

    Until then, nothing is sent to the server.
    """
    if policies is None:
        return
    limits = policies.limits(home)
    if not limits.known:
        raise NotResolved("NamespaceNotObserved", f"namespace {home} is not observed yet: trying again")
    if (violation := limits.server(resolved.credentials.connection.server)) is not None:
        raise NotResolved(NOT_ALLOWED, str(violation))


def check_cluster(policies: Policies | None, resolved: Resolved, namespace: str) -> None:
    """Raise `NotResolved` if a policy does not allow the cluster that a sync of a namespace names."""
    if policies is None:
        return
    target = resolved.target
    if target is None:
        check_server(policies, resolved, namespace)
        return
    home = target.metadata.namespace
    if (violation := policies.limits(namespace).sync_target(f"{home}/{target.metadata.name}")) is not None:
        raise NotResolved(NOT_ALLOWED, str(violation))
    try:
        check_server(policies, resolved, home)
    except NotResolved:
        if home == namespace:
            raise
        # The limits of another namespace are shown only to users who can read there.
        message = f"SyncTarget {resolved.name} of namespace {home} may not be used; its status says why"
        raise NotResolved("SyncTargetNotReady", message) from None


def lists_server(policies: Policies | None, resolved: Resolved, namespace: str) -> bool:
    """Whether a policy lists the server of a credential that a sync of a namespace uses."""
    if policies is None:
        return False
    home = resolved.target.metadata.namespace if resolved.target is not None else namespace
    return policies.limits(home).lists_server(resolved.credentials.connection.server)


class Tenancy(Struct, frozen=True, kw_only=True):
    """The operator's flags about tenants, and the TenantPolicies of the cluster."""

    guarded: frozenset[str] = frozenset()
    """Namespaces, as names or globs, that a sync must name exactly."""
    default_account: str = ""
    require_account: bool = False
    min_interval: float = 10.0
    rights: OwnRights | None = None
    """The operator's own rights."""
    policies: Policies | None = None

    def limits(self, namespace: str) -> TenantLimits:
        """Return the limits of the syncs of a namespace. Raises `SyncError` while they are not known."""
        limits = self.policies.limits(namespace) if self.policies is not None else NO_LIMITS
        if not limits.known:
            message = f"namespace {namespace} is not observed yet, nor which TenantPolicies govern it: trying again"
            raise SyncError("NamespaceNotObserved", message, status="Unknown", retry=True)
        return limits

    def admit(self, namespace: str, request: TenantRequest) -> None:
        """Raise `SyncError` if the policies of a namespace do not allow a spec."""
        refuse(self.limits(namespace).violation(request))

    def confirm(self, namespace: str, limits: TenantLimits) -> None:
        """Raise `SyncError` if the policies of a namespace have changed since its sync was checked against `limits`.

        A reconcile may take minutes, and its author can make it take longer. The present policies count.
        """
        if self.limits(namespace) != limits:
            message = "the TenantPolicies of this namespace changed meanwhile, so nothing more is written: trying again"
            raise SyncError(POLICY_CHANGED, message, status="Unknown", retry=True)

    def user(self, namespace: str, account: str | None) -> str | None:
        """Return the user that a sync of this namespace acts as; None: the operator itself.

        Raises `SyncError` if it must name an account and names none, or names one that a policy does not allow.
        """
        account, violation = self.limits(namespace).account(account or "", self.default_account)
        refuse(violation)
        if account:
            return f"system:serviceaccount:{namespace}:{account}"
        if self.require_account:
            message = "this operator acts only as service accounts: set serviceAccountName to one of this namespace"
            raise SyncError("AccountRequired", message, stalled=True)
        if self.rights is not None and self.rights.profile == "none":
            raise SyncError("AccountRequired", _NOTHING_OF_ITS_OWN, stalled=True)
        return None

    def interval(self, text: str) -> float:
        """Return the interval of a sync in seconds. Raises `SyncError` if it is too short."""
        try:
            asked = seconds(text)
        except ValueError as error:
            raise SyncError("InvalidSpec", f"interval: {error}", stalled=True) from error
        if asked < self.min_interval:
            message = f"interval {text} is shorter than this operator allows: at least {self.min_interval:g}s"
            raise SyncError("InvalidSpec", message, stalled=True)
        return asked
