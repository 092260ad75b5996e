"""The rights of the operator, and the rights of users over Syncline's kinds.

The operator has a small fixed role, and a role that Kubernetes aggregates from all ClusterRoles with the label
`syncline.dev/aggregate-to-operator: "true"`. To add kinds, a cluster administrator adds such a ClusterRole.

The options of an installation change the rules of these roles, never the list of roles. If another profile is applied
later, it therefore also removes rights.
"""

from typing import Any

from msgspec import Struct

from syncline.api.common import GROUP
from syncline.api.kinds import KINDS, TENANT_POLICY
from syncline.core.profiles import DEFAULT, LABEL, ROLE, SHARES, Profile, Share
from syncline.core.webhook_configuration import NAME as INJECTION
from syncline.deploy.names import (
    AGGREGATE_LABEL,
    DIGEST_KEY,
    LABELS,
    MARK_KEYS,
    NAMESPACE,
    SERVICE_ACCOUNT,
    SERVING_CA,
    TENANT_KINDS,
)
from syncline.deploy.text import Manifest

METRICS_READER = "syncline-metrics-reader"
"""The role for clients that scrape metrics. It has no binding."""

_READ = ("get", "list", "watch")
_PLURALS = tuple(kind.plural for kind in KINDS)


class Grant(Struct, frozen=True):
    """One rule of a role, and its purpose."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


class Choice(Struct, frozen=True, kw_only=True):
    """The options of an installation: the operator's profile, and the kinds that `edit` and `admin` can write."""

    profile: Profile = DEFAULT
    tenant_kinds: tuple[str, ...] = _PLURALS
    """The plurals of the kinds."""


AS_SHIPPED = Choice()

CORE = (
    Grant(
        GROUP,
        _PLURALS,
        (*_READ, "patch"),
        "read the syncs; add and remove the finalizer; forward push webhooks to the leader",
    ),
    Grant(GROUP, tuple(f"{plural}/status" for plural in _PLURALS), ("patch",), "write the status"),
    Grant(GROUP, (TENANT_POLICY.plural,), _READ, "read the TenantPolicies"),
    Grant(GROUP, (f"{TENANT_POLICY.plural}/status",), ("patch",), "write the status of the TenantPolicies"),
    Grant("", ("namespaces",), _READ, "find the namespaces that globs and selectors match"),
    Grant(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "detect kinds that are added and removed while the operator runs",
    ),
    Grant(
        "core.kcp.io",
        ("logicalclusters",),
        ("get",),
        "identify the cluster, if it is a workspace of kcp",
        ("cluster",),
    ),
    Grant(
        "admissionregistration.k8s.io",
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        _READ,
        "verify that admission policies check the authors; if not, only syncs with a service account are reconciled",
    ),
    Grant(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations",),
        ("get", "patch"),
        "write the certificates and the path of the webhook that adds agents to pods",
        (INJECTION,),
    ),
    Grant("", ("pods",), _READ, "find the gateways of IgnitionSyncs, and the pods that ask the depot for files"),
    Grant("events.k8s.io", ("events",), ("create",), "send events about syncs"),
    Grant(
        "", ("serviceaccounts",), ("impersonate",), "act as the service account that a sync names, only with its rights"
    ),
    Grant("rbac.authorization.k8s.io", ("clusterroles",), ("get",), "read the profile of the operator", (ROLE,)),
)
REVIEWS = (
    Grant("authentication.k8s.io", ("tokenreviews",), ("create",), "identify clients that read metrics, and agents"),
    Grant(
        "authorization.k8s.io",
        ("subjectaccessreviews",),
        ("create",),
        "check the right of clients to read metrics, and of syncs that claim the same object",
    ),
)
LEASE = (Grant("coordination.k8s.io", ("leases",), ("get", "create", "update"), "elect one leader"),)
DIGEST_KEY_RIGHTS = (
    Grant(
        "",
        ("secrets",),
        ("get", "patch"),
        "read the key for the digests of values; record that signing keys exist",
        (DIGEST_KEY,),
    ),
    Grant(
        "",
        ("secrets",),
        ("get", "list", "watch", "patch"),
        "read the keys that sign markers, and detect new keys; record the syncs that have taken over markers of an"
        " earlier version",
        (MARK_KEYS,),
    ),
    Grant(
        "",
        ("secrets",),
        ("get", "list", "watch", "patch"),
        "read the authorities that sign the certificates of the depot and of admission, and replace them before they"
        " expire",
        (SERVING_CA,),
    ),
    Grant("", ("secrets",), ("create",), "create these keys once; RBAC cannot limit create to a name"),
)
WRITING = (*_READ, "create", "update", "patch", "delete", "deletecollection")
VIEW = (Grant(GROUP, _PLURALS, _READ, "read syncs and their status"),)
POLICY_VIEW = (
    Grant(
        GROUP,
        (TENANT_POLICY.plural,),
        _READ,
        "read the policies of all tenants; for a single tenant, grant `get` on the names of their policies",
    ),
)


def shared(share: Share, profile: Profile) -> tuple[Grant, ...]:
    """Return the rules of a share under a profile."""
    verbs = share.verbs_in(profile)
    return tuple(Grant(group, resources, verbs, share.why) for group, resources in share.rules if verbs)


def editing(plurals: tuple[str, ...] = _PLURALS) -> tuple[Grant, ...]:
    """Return the rules to write these kinds of Syncline."""
    why = "write syncs; the admission policy checks that the author has the rights that the sync uses"
    return (Grant(GROUP, plurals, WRITING, why),) if plurals else ()


def rbac(choice: Choice = AS_SHIPPED) -> list[Manifest]:
    """Return the operator's service account with its roles, and the roles for users of Syncline's kinds."""
    kinds = "all" if set(choice.tenant_kinds) == set(_PLURALS) else ",".join(choice.tenant_kinds) or "none"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE, "labels": LABELS},
            "automountServiceAccountToken": False,
        },
        _cluster_role(ROLE, (*CORE, *REVIEWS), {LABEL: choice.profile}),
        *(_cluster_role(share.role, shared(share, choice.profile), {AGGREGATE_LABEL: "true"}) for share in SHARES),
        {
            # No rules here: the control plane writes them, and an empty list in an apply would remove them.
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "syncline", "labels": LABELS},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE_LABEL: "true"}}]},
        },
        _cluster_role("syncline-view", VIEW, _aggregate_to("view", "edit", "admin")),
        _cluster_role(
            "syncline-edit", editing(choice.tenant_kinds), _aggregate_to("edit", "admin"), {TENANT_KINDS: kinds}
        ),
        _cluster_role("syncline-write", editing()),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": METRICS_READER, "labels": LABELS},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        _cluster_role("syncline-tenantpolicy-view", POLICY_VIEW),
        _role("syncline-leader", LEASE),
        _role(DIGEST_KEY, DIGEST_KEY_RIGHTS),
        _binding("ClusterRole", ROLE),
        _binding("ClusterRole", "syncline"),
        _binding("Role", "syncline-leader"),
        _binding("Role", DIGEST_KEY),
    ]


def _cluster_role(
    name: str,
    grants: tuple[Grant, ...],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Manifest:
    more = {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**LABELS, **(labels or {})}, **more},
        "rules": [_rule(grant) for grant in grants],
    }


def _role(name: str, grants: tuple[Grant, ...]) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": LABELS},
        "rules": [_rule(grant) for grant in grants],
    }


def _binding(kind: str, name: str) -> Manifest:
    namespace = {"namespace": NAMESPACE} if kind == "Role" else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, **namespace, "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
    }


def _rule(grant: Grant) -> dict[str, Any]:
    names = {"resourceNames": list(grant.names)} if grant.names else {}
    return {"apiGroups": [grant.group], "resources": list(grant.resources), **names, "verbs": list(grant.verbs)}


def _aggregate_to(*roles: str) -> dict[str, str]:
    return {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in roles}
