"""The limits of TenantPolicies, checked at admission: the author of a sync sees a refusal immediately.

Each TenantPolicy is a parameter of these policies. All TenantPolicies that select the namespace apply. Admission
refuses only syncs that a reconcile refuses too. Checks that need more than the spec and a simple comparison are left to
the reconcile: URLs in an unusual form, the namespaces of globs and selectors, the servers in Secrets, the objects in
Git.
"""

from collections.abc import Mapping

from syncline.api.common import API_VERSION, GROUP, VERSION
from syncline.api.configmapsync import PLURAL as CONFIGMAPSYNCS
from syncline.api.configsync import PLURAL as CONFIGSYNCS
from syncline.api.ignitionsync import PLURAL as IGNITIONSYNCS
from syncline.api.manifestsync import PLURAL as MANIFESTSYNCS
from syncline.api.tenantpolicy import KIND
from syncline.api.workspacesync import DEFAULT_RESOURCES
from syncline.api.workspacesync import PLURAL as WORKSPACESYNCS
from syncline.core.known_kinds import KIND_NAMES
from syncline.core.tenant_requests import ENDPOINT_KINDS
from syncline.deploy.names import LABELS
from syncline.deploy.policy.kinds import cel
from syncline.deploy.policy.parts import ACCOUNT, Validation, validation
from syncline.deploy.text import Manifest

# Longer lists exceed the cost limit of an expression. Their check is left to the reconcile.
_MOST_COMPARISONS = 2000
_OWN = "replace('{namespace}', request.namespace).replace('.', '[.]')"
_GOVERNED = {
    "labels": "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}",
    "selector": "params.spec.namespaceSelector",
    "governed": """\
(!has(variables.selector.matchLabels)
 || variables.selector.matchLabels.all(key,
    key in variables.labels && variables.labels[key] == variables.selector.matchLabels[key]))
&& (!has(variables.selector.matchExpressions)
    || variables.selector.matchExpressions.all(one,
       one.operator == 'Exists' ? one.key in variables.labels
       : one.operator == 'DoesNotExist' ? !(one.key in variables.labels)
       : one.operator == 'In' ? one.key in variables.labels && variables.labels[one.key] in one.values
       : !(one.key in variables.labels) || !(variables.labels[one.key] in one.values)))""",
}
_ACCOUNT = {"account": ACCOUNT["account"]}
_NAMED = "filter(name, !name.contains('*') && !name.contains('?'))"
_CONFIGMAPSYNC = {
    "destinations": f"""\
((has(object.spec.destinationNamespace) ? [object.spec.destinationNamespace] : [])
+ (has(object.spec.destinationNamespaces) ? object.spec.destinationNamespaces : [])
+ (object.spec.direction == 'Bidirectional' ? [object.spec.sourceNamespace] : [])).{_NAMED}""",
}
_CONNECTIONS = {
    "connections": "variables.remotes.map(one, one.connection)",
    "syncTargets": """\
variables.connections.filter(one, has(one.syncTargetRef))
.map(one, (has(one.syncTargetNamespace) ? one.syncTargetNamespace : request.namespace)
 + '/' + one.syncTargetRef.name)""",
}
_MANIFESTSYNC = {
    "remotes": "has(object.spec.targets.remoteClusters) ? object.spec.targets.remoteClusters : []",
    **_CONNECTIONS,
    "destinations": f"""\
(has(object.spec.targets.inCluster) && has(object.spec.targets.inCluster.namespaces)
 ? object.spec.targets.inCluster.namespaces.{_NAMED} : [])
+ variables.remotes.filter(one, has(one.namespaces) && size(one.namespaces) == 1)
  .map(one, one.namespaces[0]).{_NAMED}""",
    "kinds": """\
(has(object.spec.sourceRef) ? [object.spec.sourceRef] : object.spec.sourceRefs)
.map(ref, ref.apiVersion.contains('/') ? ref.kind + '.' + ref.apiVersion.split('/')[0] : ref.kind)""",
}
_REPOSITORIES = {
    # The URLs in the form of the comparison. Others are left to the reconcile.
    "plain": """\
variables.repositories.map(git, git.repo)
.filter(url, url.matches('^https://[a-z0-9]([-.a-z0-9]*[a-z0-9])?(/[-_A-Za-z0-9][-_.A-Za-z0-9]*)+$'))""",
    "patterns": """\
(has(params.spec.repositories) ? params.spec.repositories : [])
.map(one, one.endsWith('.git') ? one.substring(0, size(one) - 4) : one)
.map(one, '^' + one.replace(':443/', '/').replace('{namespace}', request.namespace).replace('.', '[.]')
 .replace('/**', '<>').replace('*', '[^/]*').replace('<>', '(/[^/]+)*') + '$')""",
    "comparable": """\
has(params.spec.repositories)
&& params.spec.repositories.all(one, one.matches('^[-_.:/@*{}A-Za-z0-9]+$'))""",
}
_CONFIGSYNC = {
    "remotes": "has(object.spec.remoteClusters) ? object.spec.remoteClusters : []",
    **_CONNECTIONS,
    "destinations": """\
(has(object.spec.targets) ? object.spec.targets.filter(one, has(one.namespace)).map(one, one.namespace) : [])
+ (has(object.spec.environments)
   ? object.spec.environments.filter(one, has(one.namespace)).map(one, one.namespace) : [])""",
    "repositories": """\
(has(object.spec.source) ? (has(object.spec.source.git) ? [object.spec.source.git] : [])
 : object.spec.sources.filter(one, has(one.git)).map(one, one.git))""",
    **_REPOSITORIES,
}
_IGNITIONSYNC = {
    "repositories": "[object.spec.git]",
    **_REPOSITORIES,
}
_WORKSPACESYNC = {
    "connections": """\
has(object.spec.upstream) && has(object.spec.upstream.connection) ? [object.spec.upstream.connection] : []""",
    "syncTargets": """\
variables.connections.filter(one, has(one.syncTargetRef)).map(one, request.namespace + '/' + one.syncTargetRef.name)
+ (has(object.spec.downstream.syncTargets) ? object.spec.downstream.syncTargets : [])
  .map(one, (has(object.spec.downstream.syncTargetNamespace) ? object.spec.downstream.syncTargetNamespace
   : request.namespace) + '/' + one)""",
    # The names of prefixes and templates are left to the reconcile.
    "destinations": """\
has(object.spec.namespaces) && has(object.spec.namespaces.mapping) && has(object.spec.namespaces.mapping.fixed)
? [object.spec.namespaces.mapping.fixed] : []""",
    "known": cel({f"{group}/{resource}": kind for (group, resource), kind in KIND_NAMES.items()}),
    "resources": f"""\
has(object.spec.resources) && object.spec.resources.size() > 0
? object.spec.resources.map(one, one.group + '/' + one.resource)
: [{", ".join(f"'{one.group}/{one.resource}'" for one in DEFAULT_RESOURCES)}]""",
    "kinds": f"""\
variables.resources.filter(one, one in variables.known).map(one, variables.known[one])
+ (object.spec.endpoints ? {list(ENDPOINT_KINDS)} : [])""",
}


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    clusters = [_sync_targets(), _credentials()]
    return [
        *_obeying(CONFIGMAPSYNCS, _CONFIGMAPSYNC, _destinations(), _config_maps()),
        *_obeying(MANIFESTSYNCS, _MANIFESTSYNC, _destinations(), _kinds(), *clusters),
        *_obeying(CONFIGSYNCS, _CONFIGSYNC, _destinations(), _repositories(), _detours(), *clusters),
        *_obeying(IGNITIONSYNCS, _IGNITIONSYNC, _repositories(), _app_servers()),
        *_obeying(WORKSPACESYNCS, _WORKSPACESYNC, _destinations(), _kinds(), *clusters),
    ]


def name(plural: str) -> str:
    """Return the name of the policy that applies TenantPolicies to syncs of a kind."""
    return f"{plural}-tenants.{GROUP}"


def _obeying(plural: str, variables: Mapping[str, str], *validations: Validation) -> list[Manifest]:
    declared = {**_GOVERNED, **_ACCOUNT, **variables}
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
    }
    changed = "request.operation == 'CREATE' || object.spec != oldObject.spec"
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name(plural), "labels": LABELS},
            "spec": {
                # A reconcile refuses the sync in any case. An API server needs up to half a minute to find a new kind
                # of parameters. Until then, and if an expression fails, syncs can be written.
                "failurePolicy": "Ignore",
                "paramKind": {"apiVersion": API_VERSION, "kind": KIND},
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "spec-is-new-or-changed", "expression": changed}],
                "variables": [{"name": each, "expression": expression} for each, expression in declared.items()],
                "validations": [_account(), *validations],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name(plural), "labels": LABELS},
            "spec": {
                "policyName": name(plural),
                "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
                "validationActions": ["Deny"],
            },
        },
    ]


def _allowed(unlimited: str, expression: str, what: str, field: str, remedy: str) -> Validation:
    """Return a check. `what` is CEL, and names the refused property."""
    message = (
        f"{what} + ' is not allowed by TenantPolicy ' + params.metadata.name + ' (spec.{field}): {remedy}, or ask its"
        " administrator'"
    )
    return validation(f"!variables.governed || {unlimited}\n|| {expression}", message)


def _account() -> Validation:
    rule = "params.spec.serviceAccount"
    return _allowed(
        f"!has({rule})",
        f"""\
(variables.account == ''
 ? has({rule}.default) || !({rule}.required || has({rule}.allowed))
 : has({rule}.default) && variables.account == {rule}.default
   || (has({rule}.allowed) ? {_any(f"{rule}.allowed", "variables.account")} : !has({rule}.default)))""",
        "(variables.account == '' ? 'a sync without an account' : 'service account ' + variables.account)",
        "serviceAccount",
        "set serviceAccountName to an allowed account",
    )


def _destinations() -> Validation:
    patterns = "params.spec.destinationNamespaces"
    return _allowed(
        f"!has({patterns}) || size(variables.destinations) * size({patterns}) > {_MOST_COMPARISONS}",
        f"variables.destinations.all(name, {_any(patterns, 'name')})",
        f"'destination namespace ' + variables.destinations.filter(name, !{_any(patterns, 'name')})[0]",
        "destinationNamespaces",
        "write to allowed namespaces",
    )


def _config_maps() -> Validation:
    patterns = "params.spec.kinds"
    return _allowed(
        f"!has({patterns})", _any(patterns, "'ConfigMap'"), "'kind ConfigMap'", "kinds", "use another kind of sync"
    )


def _kinds() -> Validation:
    patterns = "params.spec.kinds"
    return _allowed(
        f"!has({patterns}) || size(variables.kinds) * size({patterns}) > {_MOST_COMPARISONS}",
        f"variables.kinds.all(kind, {_any(patterns, 'kind')})",
        f"'kind ' + variables.kinds.filter(kind, !{_any(patterns, 'kind')})[0]",
        "kinds",
        "remove objects of this kind",
    )


def _sync_targets() -> Validation:
    patterns = "(has(params.spec.clusters.syncTargets) ? params.spec.clusters.syncTargets : [])"
    listed = _any(patterns, "target", within="[^/]")
    return _allowed(
        f"!has(params.spec.clusters) || size(variables.syncTargets) * size({patterns}) > {_MOST_COMPARISONS}",
        f"variables.syncTargets.all(target, {listed})",
        f"'SyncTarget ' + variables.syncTargets.filter(target, !{listed})[0]",
        "clusters.syncTargets",
        "use an allowed SyncTarget",
    )


def _credentials() -> Validation:
    return _allowed(
        "!has(params.spec.clusters)",
        """\
has(params.spec.clusters.servers) && size(params.spec.clusters.servers) > 0
|| variables.connections.all(one, one.type == 'SyncTarget')""",
        "'a cluster with a credential of this namespace'",
        "clusters.servers",
        "use a SyncTarget",
    )


def _repositories() -> Validation:
    listed = (
        "variables.patterns.exists(one, (url.endsWith('.git') ? url.substring(0, size(url) - 4) : url).matches(one))"
    )
    return _allowed(
        f"!variables.comparable || size(variables.plain) * size(variables.patterns) > {_MOST_COMPARISONS}",
        f"variables.plain.all(url, {listed})",
        f"'repository ' + variables.plain.filter(url, !{listed})[0]",
        "repositories",
        "use an allowed repository",
    )


def _detours() -> Validation:
    return _allowed(
        "!has(params.spec.repositories)",
        "!variables.repositories.exists(git, has(git.proxySecretRef) || git.submodules)",
        "'proxySecretRef or submodules'",
        "repositories",
        "remove it, because it can lead to servers that are not in the list",
    )


def _app_servers() -> Validation:
    return _allowed(
        "!has(params.spec.repositories)",
        "!has(object.spec.git.auth) || !has(object.spec.git.auth.githubApp)\n"
        "|| !has(object.spec.git.auth.githubApp.apiBaseURL)",
        "'git.auth.githubApp.apiBaseURL'",
        "repositories",
        "remove it, because it can lead to servers that are not in the list",
    )


def _any(patterns: str, value: str, *, within: str = ".") -> str:
    """Return CEL that is true if a glob matches a value. `within` is the pattern of one character of a wildcard."""
    glob = f"'^' + glob.{_OWN}.replace('*', '{within}*').replace('?', '{within}') + '$'"
    return f"{patterns}.exists(glob, {value}.matches({glob}))"
