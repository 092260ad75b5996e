"""Tenancy: the limits that TenantPolicies set for a namespace, and whether a sync respects them.

All policies that match a namespace apply, each separately, so that the strictest counts. An invalid policy allows
nothing. Without a policy there are no limits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from syncline.api.tenantpolicy import OWN_NAMESPACE, TenantPolicySpec
from syncline.core import url_patterns
from syncline.core.selectors import glob_matches, selector_matches

NOT_ALLOWED = "NotAllowed"


class Violation(Struct, frozen=True, kw_only=True):
    """A request that a policy does not allow: the field of the policy, and the remedy."""

    policy: str
    field: str
    what: str
    """The request, such as `kind Secret`."""
    remedy: str

    def __str__(self) -> str:
        where = f"TenantPolicy {self.policy} (spec.{self.field})" if self.field else f"TenantPolicy {self.policy}"
        return f"{self.what} is not allowed by {where}: {self.remedy}"


class Quota(Struct, frozen=True, kw_only=True):
    """The limit of a quota in one namespace, and its policy."""

    policy: str
    field: str
    namespace: str
    limit: int

    def exceeded(self, what: str, remedy: str) -> Violation:
        """Return the violation of a request above the quota."""
        remedy = f"{remedy}, or ask its administrator"
        return Violation(policy=self.policy, field=f"quotas.{self.field}", what=what, remedy=remedy)


class PolicyRules(Struct, frozen=True, kw_only=True):
    """One policy by its name. If the spec is not valid, it is None, and `error` is the reason."""

    name: str
    spec: TenantPolicySpec | None = None
    error: str = ""


class TenantRequest(Struct, frozen=True, kw_only=True):
    """The requests of a spec, as far as they follow from the spec alone."""

    repositories: tuple[str, ...] = ()
    detours: tuple[str, ...] = ()
    """Fields of a source that name other servers than its URL."""
    sync_targets: tuple[str, ...] = ()
    """As `namespace/name`."""
    servers: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    """The written namespaces, by their exact names."""
    kinds: tuple[str, ...] = ()
    """The written kinds, such as `Deployment.apps`."""


class TenantLimits(Struct, frozen=True, kw_only=True):
    """The policies that govern one namespace."""

    namespace: str = ""
    policies: tuple[PolicyRules, ...] = ()
    known: bool = True
    """Whether the namespace was observed: else its policies are not known."""

    def violation(self, request: TenantRequest) -> Violation | None:
        """Return the first request of a spec that is not allowed."""
        return next(self.violations(request), None)

    def violations(self, request: TenantRequest) -> Iterator[Violation]:
        """Yield all requests of a spec that are not allowed."""
        yield from self._unreadable()
        checks: tuple[tuple[Iterable[str], Callable[[str], Violation | None]], ...] = (
            (request.repositories, self.repository),
            (request.detours, self.detour),
            (request.sync_targets, self.sync_target),
            (request.servers, self.server),
            (request.namespaces, self.destination),
            (request.kinds, self.kind),
        )
        for asked, check in checks:
            yield from (found for one in dict.fromkeys(asked) if (found := check(one)) is not None)

    def account(self, named: str, fallback: str = "") -> tuple[str, Violation | None]:
        """Return the account that a sync acts as, and its violation. An empty account: the operator itself.

        `fallback` is the operator's own default. The default of a policy has priority.
        """
        if (broken := next(self._unreadable(), None)) is not None:
            return "", broken
        rules = [(name, spec.service_account) for name, spec in self._specs() if spec.service_account is not None]
        defaults = {rule.default: name for name, rule in rules if rule.default}
        if not named and len(defaults) > 1:
            first, second = sorted(defaults.values())[:2]
            remedy = f"set serviceAccountName, since TenantPolicy {second} names another default"
            return "", self._refusal(first, "serviceAccount.default", "a sync without an account", remedy)
        account = named or next(iter(defaults), fallback)
        for name, rule in rules:
            if not account and (rule.required or rule.allowed is not None):
                field = "required" if rule.required else "allowed"
                remedy = "set serviceAccountName to an account of this namespace that has the rights it needs"
                return "", self._refusal(name, f"serviceAccount.{field}", "a sync without an account", remedy)
            allowed = rule.allowed if rule.allowed is not None else [] if rule.default else None
            if not account or allowed is None or account == rule.default:
                continue
            if not any(glob_matches(pattern, account) for pattern in allowed):
                remedy = "leave serviceAccountName out" if rule.default and named else "name an account that is"
                field = "serviceAccount.allowed" if rule.allowed is not None else "serviceAccount.default"
                return "", self._refusal(name, field, f"service account {account}", remedy)
        return account, None

    def repository(self, url: str) -> Violation | None:
        """Return the violation of a repository."""
        for name, spec in self._specs():
            patterns = spec.repositories
            if patterns is not None and not self._is_listed(patterns, url, url_patterns.matches):
                remedy = "name a repository that is, and write its URL plainly"
                return self._refusal(name, "repositories", f"repository {url}", remedy)
        return None

    def detour(self, field: str) -> Violation | None:
        """Return the violation of a field that names a server in addition to the URLs of the spec."""
        for name, spec in self._specs():
            if spec.repositories is not None:
                remedy = "leave it out, since it leads to servers that the list cannot name"
                return self._refusal(name, "repositories", field, remedy)
        return None

    def sync_target(self, target: str) -> Violation | None:
        """Return the violation of a SyncTarget, as `namespace/name`."""
        for name, spec in self._specs():
            if spec.clusters is not None and not self._is_listed(spec.clusters.sync_targets, target, _path_matches):
                remedy = "use a SyncTarget that is"
                return self._refusal(name, "clusters.syncTargets", f"SyncTarget {target}", remedy)
        return None

    def server(self, address: str) -> Violation | None:
        """Return the violation of the API server of a credential in this namespace."""
        for name, spec in self._specs():
            if spec.clusters is not None and not self._is_listed(spec.clusters.servers, address, url_patterns.matches):
                remedy = "use a credential of a cluster that is, or a SyncTarget"
                return self._refusal(name, "clusters.servers", f"API server {address}", remedy)
        return None

    def lists_server(self, address: str) -> bool:
        """Whether a policy lists an API server, and none forbids it."""
        return any(spec.clusters is not None for _, spec in self._specs()) and self.server(address) is None

    def destination(self, namespace: str) -> Violation | None:
        """Return the violation of a written namespace."""
        for name, spec in self._specs():
            patterns = spec.destination_namespaces
            if patterns is not None and not self._is_listed(patterns, namespace, glob_matches):
                remedy = "write to namespaces that are"
                return self._refusal(name, "destinationNamespaces", f"destination namespace {namespace}", remedy)
        return None

    def kind(self, kind: str) -> Violation | None:
        """Return the violation of a written kind."""
        for name, spec in self._specs():
            if spec.kinds is not None and not any(glob_matches(pattern, kind) for pattern in spec.kinds):
                remedy = "take objects of this kind out"
                return self._refusal(name, "kinds", f"kind {kind}", remedy)
        return None

    def key_service(self, service: str, address: str = "") -> Violation | None:
        """Return the violation of a key service, and of its address if a credential names one.

        The address is the value of a Secret: it is compared, and never repeated.
        """
        for name, spec in self._specs():
            allowed = spec.key_services
            if allowed is None or service in allowed:
                continue
            if not address or not self._is_listed(allowed, address, url_patterns.matches):
                what = f"key service {service}{' at its address' if address else ''}"
                remedy = "take its credential out of the decryption Secret"
                return self._refusal(name, "keyServices", what, remedy)
        return None

    def target(self, kind: str, namespace: str) -> Violation | None:
        """Return the violation of a written object; the namespace of a cluster-scoped kind is empty."""
        if (found := next(self._unreadable(), None) or self.kind(kind)) is not None:
            return found
        if namespace:
            return self.destination(namespace)
        for name, spec in self._specs():
            if spec.destination_namespaces is not None and spec.kinds is None:
                remedy = "take it out, or have its kind added to spec.kinds"
                return self._refusal(name, "destinationNamespaces", f"{kind}, which is in no namespace,", remedy)
        return None

    def quota(self, field: str) -> Quota | None:
        """Return the strictest quota, by the name of its field."""
        found = [
            (limit, name)
            for name, spec in self._specs()
            if spec.quotas is not None and (limit := msgspec.to_builtins(spec.quotas).get(field)) is not None
        ]
        if not found:
            return None
        limit, name = min(found)
        return Quota(policy=name, field=field, namespace=self.namespace, limit=limit)

    def _specs(self) -> Iterator[tuple[str, TenantPolicySpec]]:
        return ((policy.name, policy.spec) for policy in self.policies if policy.spec is not None)

    def _unreadable(self) -> Iterator[Violation]:
        for policy in self.policies:
            if policy.spec is None:
                remedy = f"an administrator must correct the policy, which is not valid: {policy.error}"
                yield Violation(policy=policy.name, field="", what="anything", remedy=remedy)

    def _is_listed(self, patterns: Iterable[str], asked: str, matches: Callable[[str, str], bool]) -> bool:
        return any(matches(pattern.replace(OWN_NAMESPACE, self.namespace), asked) for pattern in patterns)

    def _refusal(self, policy: str, field: str, what: str, remedy: str) -> Violation:
        return Violation(policy=policy, field=field, what=what, remedy=f"{remedy}, or ask its administrator")


NO_LIMITS = TenantLimits()


def governs(spec: TenantPolicySpec, labels: Mapping[str, str]) -> bool:
    """Whether a policy governs a namespace with these labels."""
    return selector_matches(spec.namespace_selector, labels)


def _path_matches(pattern: str, path: str) -> bool:
    """Match `namespace/name` part by part: no glob matches the slash."""
    wanted, found = pattern.split("/"), path.split("/")
    return len(wanted) == len(found) and all(map(glob_matches, wanted, found))
