"""The rights that the author of a ManifestSync needs.

Without a service account, the author needs the rights to read the sources, to write the copies in this cluster, and to
read all objects that the sync refers to. In another cluster, the credential of the cluster decides. The author needs
the right to read this credential, or a SyncTarget holds it.
"""

from syncline.api.common import GROUP
from syncline.api.manifestsync import PLURAL
from syncline.api.synctarget import PLURAL as SYNC_TARGETS
from syncline.core.known_kinds import CLUSTER_WIDE, NAMESPACED
from syncline.deploy.policy.kinds import cel
from syncline.deploy.policy.parts import (
    ACCOUNT,
    ACCOUNT_NEEDS,
    EVERYTHING,
    OR_ACCOUNT,
    REMOVAL_NEEDS,
    Needs,
    Validation,
    account,
    account_taken_away,
    authors,
    name,
    references,
    removal,
    removers,
    without_account,
)
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (
    *REMOVAL_NEEDS,
    ("has its account taken away", "also all verbs on all resources of all groups, by a ClusterRoleBinding"),
    *ACCOUNT_NEEDS,
    ("names no service account", "`get` on the source, or `list` on its kind in its namespace if labels select it"),
    (
        "... and targets in exactly one namespace",
        "`create`, `update`, `patch` and `delete` there, for the kind of the source",
    ),
    ("... and in several namespaces, by a glob or a selector", "the same in all namespaces, by a ClusterRoleBinding"),
    (
        "... and a fixed name of the copies: the name of the source, or `targetName`",
        "for `update`, `patch` and `delete`, that name is sufficient",
    ),
    (
        "... and several sources of one kind",
        "the same without a name, and in all namespaces if the sources are in several",
    ),
    (
        "... and sources of several kinds, or of a kind that is not in the list below",
        "all verbs on all resources of all groups, by a ClusterRoleBinding",
    ),
    ("... and sources of `rbac.authorization.k8s.io`", "refused: write a `serviceAccountName`"),
    ("... and a `patchContentRef`", "`get` on that ConfigMap or Secret"),
    ("... and a `kubeconfigSecretRef` or `serviceAccountTokenRef`", "`get` on that Secret"),
    (
        "... and a `syncTargetRef`, or a `selector` of SyncTargets",
        "`get` on that SyncTarget, or `list` on SyncTargets",
    ),
    ("... and a `syncTargetNamespace` other than its own", "nothing: `allowedNamespaces` of the SyncTargets decides"),
    ("... and several of these with different names", "`get` on all objects of the kind in the namespace of the sync"),
)

_SOURCES = {
    "refs": "has(object.spec.sourceRef) ? dyn([object.spec.sourceRef]) : dyn(object.spec.sourceRefs)",
    "group": "variables.refs[0].apiVersion.contains('/') ? variables.refs[0].apiVersion.split('/')[0] : ''",
    "key": "variables.group + '/' + variables.refs[0].kind",
    "ofOneKind": """\
variables.refs.all(ref, ref.apiVersion == variables.refs[0].apiVersion && ref.kind == variables.refs[0].kind)""",
    "namespaced": cel(NAMESPACED),
    "clusterWide": cel(CLUSTER_WIDE),
    # The resource of all sources, or '' if it is not known or there are several.
    "resource": """\
!variables.ofOneKind ? ''
: variables.key in variables.namespaced ? variables.namespaced[variables.key]
: variables.key in variables.clusterWide ? variables.clusterWide[variables.key] : ''""",
    "anywhere": "variables.key in variables.clusterWide",
    "sourceNamespaces": "variables.refs.map(ref, has(ref.namespace) ? ref.namespace : request.namespace)",
    # Here and below, '' means all namespaces or all names: the author needs the right without a namespace or name.
    "sourceNamespace": """\
variables.anywhere || variables.sourceNamespaces.exists(name, name != variables.sourceNamespaces[0])
? '' : variables.sourceNamespaces[0]""",
    "sourceName": "variables.refs.size() == 1 && has(variables.refs[0].name) ? variables.refs[0].name : ''",
    "sources": "authorizer.group(variables.group).resource(variables.resource).namespace(variables.sourceNamespace)",
    "sourceWords": """\
variables.anywhere ? '' : variables.sourceNamespace == '' ? ' in all namespaces (this sync names several)'
: ' in namespace ' + variables.sourceNamespace""",
}
_COPIES = {
    "named": """\
has(object.spec.targets.inCluster) && has(object.spec.targets.inCluster.namespaces)
? object.spec.targets.inCluster.namespaces : []""",
    "destination": """\
variables.anywhere || has(object.spec.targets.inCluster) && has(object.spec.targets.inCluster.namespaceSelector)
|| variables.named.exists(name, name != variables.named[0] || name.contains('*') || name.contains('?'))
? '' : variables.named.size() == 0 ? variables.sourceNamespace : variables.named[0]""",
    "copyName": """\
!has(object.spec.targetName) ? variables.sourceName
: object.spec.targetName.contains('{') ? '' : object.spec.targetName""",
    "copies": "authorizer.group(variables.group).resource(variables.resource).namespace(variables.destination)",
    "copyWords": """\
variables.anywhere ? '' : variables.destination == '' ? ' in all namespaces (this sync does not name exactly one)'
: ' in namespace ' + variables.destination""",
}
_REFERENCES = {
    "clusters": "has(object.spec.targets.remoteClusters) ? object.spec.targets.remoteClusters : []",
    "contents": """\
((has(object.spec.patch) ? [dyn(object.spec.patch)] : [])
+ (has(object.spec.targets.inCluster) && has(object.spec.targets.inCluster.patch)
? [dyn(object.spec.targets.inCluster.patch)] : [])
+ variables.clusters.filter(cluster, has(cluster.patch)).map(cluster, dyn(cluster.patch)))
.filter(patch, has(patch.patchContentRef)).map(patch, patch.patchContentRef)""",
    "configMaps": "variables.contents.filter(ref, ref.kind == 'ConfigMap').map(ref, ref.name)",
    "secrets": """\
variables.contents.filter(ref, ref.kind == 'Secret').map(ref, ref.name)
+ variables.clusters.filter(cluster, has(cluster.connection.kubeconfigSecretRef))
.map(cluster, cluster.connection.kubeconfigSecretRef.name)
+ variables.clusters.filter(cluster, has(cluster.connection.serviceAccountTokenRef))
.map(cluster, cluster.connection.serviceAccountTokenRef.name)""",
    # A SyncTarget in another namespace lists the allowed namespaces in allowedNamespaces.
    "ownClusters": """\
variables.clusters.filter(cluster, !has(cluster.connection.syncTargetNamespace)
|| cluster.connection.syncTargetNamespace == request.namespace)""",
    "syncTargets": """\
variables.ownClusters.filter(cluster, has(cluster.connection.syncTargetRef))
.map(cluster, cluster.connection.syncTargetRef.name)""",
}


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    variables = {**ACCOUNT, **_SOURCES, **_COPIES, **_REFERENCES}
    checks = authors(
        PLURAL,
        variables,
        account(),
        _roles(),
        _everything(),
        _source_by_name(),
        _source_by_labels(),
        *map(_copies, ("create", "update", "patch", "delete")),
        references("", "configmaps", "configMaps", "ConfigMap"),
        references("", "secrets", "secrets", "Secret"),
        references(GROUP, SYNC_TARGETS, "syncTargets", "SyncTarget"),
        _sync_targets_by_labels(),
    )
    return [*checks, *removers(PLURAL, variables, *_removals())]


def _removals() -> list[Validation]:
    """Return the checks of removals. In another cluster, the credential of the cluster decides, as for writes."""
    return [
        account_taken_away(EVERYTHING, "'use all verbs on all resources'"),
        removal(f"variables.resource != '' || {EVERYTHING}", "'use all verbs on all resources'"),
        removal(
            """\
variables.resource == '' || !has(object.spec.targets.inCluster)
|| variables.copies.name(variables.copyName).check('delete').allowed()""",
            "'delete ' + variables.resource + variables.copyWords",
        ),
        references("", "secrets", "secrets", "Secret"),
        references(GROUP, SYNC_TARGETS, "syncTargets", "SyncTarget"),
        _sync_targets_by_labels(),
    ]


def _roles() -> Validation:
    """With the operator's rights, a copied role would grant rights that its author does not have."""
    return without_account(
        "!variables.refs.exists(ref, ref.apiVersion.startsWith('rbac.authorization.k8s.io/'))",
        """\
'a sync may copy roles and role bindings only as a service account, so that the API server checks the granted rights:'
+ ' write spec.serviceAccountName'""",
    )


def _everything() -> Validation:
    """If the policy cannot determine the necessary right, the author needs all rights."""
    return without_account(
        f"variables.resource != '' || {EVERYTHING}",
        """\
'you may not use all verbs on all resources, and the rights that you need to copy '
+ (variables.ofOneKind ? 'a ' + variables.refs[0].kind : 'several kinds in one sync')
+ ' cannot be checked separately: write spec.serviceAccountName with an account that has them'
+ (variables.ofOneKind ? '' : ', or write one sync for each kind')""",
    )


def _source_by_name() -> Validation:
    return without_account(
        """\
variables.resource == '' || !variables.refs.exists(ref, has(ref.name))
|| variables.sources.name(variables.sourceName).check('get').allowed()""",
        f"""\
'you may not get ' + (variables.sourceName == '' ? 'every ' : 'the ') + variables.refs[0].kind
+ (variables.sourceName == '' ? '' : ' ' + variables.sourceName) + variables.sourceWords
+ ', so no sync may copy it for you: {OR_ACCOUNT}'""",
    )


def _source_by_labels() -> Validation:
    return without_account(
        """\
variables.resource == '' || !variables.refs.exists(ref, has(ref.selector))
|| variables.sources.check('list').allowed()""",
        f"""\
'you may not list ' + variables.resource + variables.sourceWords
+ ', so no sync may select from them for you: {OR_ACCOUNT}'""",
    )


def _copies(verb: str) -> Validation:
    # RBAC cannot limit `create` to a name, because the object does not exist yet.
    copy = "" if verb == "create" else ".name(variables.copyName)"
    return without_account(
        f"""\
variables.resource == '' || !has(object.spec.targets.inCluster)
|| variables.copies{copy}.check('{verb}').allowed()""",
        f"""\
'you may not {verb} ' + variables.resource + variables.copyWords
+ ', so no sync may do it for you: {OR_ACCOUNT}'""",
    )


def _sync_targets_by_labels() -> Validation:
    return without_account(
        f"""\
!variables.ownClusters.exists(cluster, has(cluster.connection.selector))
|| authorizer.group('{GROUP}').resource('{SYNC_TARGETS}').namespace(request.namespace).check('list').allowed()""",
        f"""\
'you may not list {SYNC_TARGETS} in namespace ' + request.namespace
+ ', so no sync may select from them for you: {OR_ACCOUNT}'""",
    )
