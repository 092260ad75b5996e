"""Who may do what: the operator's own rights, and the rights of people over our kinds.

The operator has a small fixed role, and one that Kubernetes puts together from all ClusterRoles with the label
`syncline.dev/aggregate-to-operator: "true"`: a cluster admin adds kinds by adding such a role.

What is chosen at installation changes the rules of these roles, never which roles there are: applying the roles of one
profile over those of another one also takes away what is no longer granted.
"""

from typing import Any

from msgspec import Struct

from syncline.api.common import GROUP
from syncline.api.kinds import KINDS, TENANT_POLICY
from syncline.core.profiles import DEFAULT, LABEL, ROLE, SHARES, Profile, Share
from syncline.deploy.names import (
    AGGREGATE_LABEL,
    DIGEST_KEY,
    LABELS,
    MARK_KEYS,
    NAMESPACE,
    SERVICE_ACCOUNT,
    TENANT_KINDS,
)
from syncline.deploy.text import Manifest

METRICS_READER = "syncline-metrics-reader"
"""The role of those who scrape; it is bound to nobody."""

_READ = ("get", "list", "watch")
_PLURALS = tuple(kind.plural for kind in KINDS)


class Grant(Struct, frozen=True):
    """One rule of a role, and why it is needed."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()


class Choice(Struct, frozen=True, kw_only=True):
    """What whoever installs chooses: the operator's profile, and which of our kinds `edit` and `admin` may write."""

    profile: Profile = DEFAULT
    tenant_kinds: tuple[str, ...] = _PLURALS
    """Plurals."""


AS_SHIPPED = Choice()

CORE = (
    Grant(
        GROUP, _PLURALS, (*_READ, "patch"), "read the syncs; set and remove the finalizer; pass pushes on to the leader"
    ),
    Grant(GROUP, tuple(f"{plural}/status" for plural in _PLURALS), ("patch",), "report what happened"),
    Grant(GROUP, (TENANT_POLICY.plural,), _READ, "obey the policies of tenants"),
    Grant(GROUP, (f"{TENANT_POLICY.plural}/status",), ("patch",), "report what each policy governs"),
    Grant("", ("namespaces",), _READ, "find the namespaces that globs and selectors mean"),
    Grant(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        _READ,
        "learn of kinds that appear and go while the operator runs",
    ),
    Grant(
        "core.kcp.io",
        ("logicalclusters",),
        ("get",),
        "know the cluster that the operator runs for, where that is a workspace of kcp",
        ("cluster",),
    ),
    Grant(
        "admissionregistration.k8s.io",
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        _READ,
        "know whether authors are checked; without that, only syncs with an account are carried out",
    ),
    Grant("events.k8s.io", ("events",), ("create",), "tell the story of a sync"),
    Grant("", ("serviceaccounts",), ("impersonate",), "act as the account that a sync names, with its rights only"),
    Grant("rbac.authorization.k8s.io", ("clusterroles",), ("get",), "know the profile of rights it has", (ROLE,)),
)
REVIEWS = (
    Grant("authentication.k8s.io", ("tokenreviews",), ("create",), "know who asks for metrics"),
    Grant("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "ask whether they may read metrics"),
)
LEASE = (Grant("coordination.k8s.io", ("leases",), ("get", "create", "update"), "elect one leader"),)
DIGEST_KEY_RIGHTS = (
    Grant(
        "",
        ("secrets",),
        ("get", "patch"),
        "read the key of the digests that stand for values; note that there are keys of marks",
        (DIGEST_KEY,),
    ),
    Grant(
        "",
        ("secrets",),
        ("get", "list", "watch", "patch"),
        "read the keys that prove marks, and notice new ones; note who has taken over marks of an earlier version",
        (MARK_KEYS,),
    ),
    Grant("", ("secrets",), ("create",), "make these keys once; a right to create cannot be given for one name"),
)
WRITING = (*_READ, "create", "update", "patch", "delete", "deletecollection")
VIEW = (Grant(GROUP, _PLURALS, _READ, "see syncs and their status"),)
POLICY_VIEW = (
    Grant(
        GROUP,
        (TENANT_POLICY.plural,),
        _READ,
        "see the policies of all tenants; a tenant gets `get` on the policies that concern them, by name",
    ),
)


def shared(share: Share, profile: Profile) -> tuple[Grant, ...]:
    """Return what a profile grants of a share."""
    verbs = share.verbs_in(profile)
    return tuple(Grant(group, resources, verbs, share.why) for group, resources in share.rules if verbs)


def editing(plurals: tuple[str, ...] = _PLURALS) -> tuple[Grant, ...]:
    """Return what lets people write these kinds of ours."""
    why = "write syncs; the admission policy checks that the author may do what the sync does"
    return (Grant(GROUP, plurals, WRITING, why),) if plurals else ()


def rbac(choice: Choice = AS_SHIPPED) -> list[Manifest]:
    """Return the operator's account with its roles, and the roles that grant people our kinds."""
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
            # No rules here: the control plane writes them, and applying an empty list again would take them away.
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
