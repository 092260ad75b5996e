"""The rights that the author of a WorkspaceSync needs.

The credentials of the upstream and of the SyncTargets decide what the sync reads and writes. The author needs the right
to read these credentials, or a SyncTarget holds them. A SyncTarget gives the right to write to its cluster, not the
right to read it. If the sync reads from a SyncTarget, its author therefore needs the right to read the Secrets in the
namespace of the SyncTarget, which contain its credential.
"""

from syncline.api.common import GROUP
from syncline.api.object_transforms import NEED_VALUE, PROTECTED, changeable
from syncline.api.synctarget import PLURAL as SYNC_TARGETS
from syncline.api.workspacesync import PLURAL
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
    validation,
    without_account,
)
from syncline.deploy.text import Manifest

AUTHORS = name(PLURAL)
NEEDS: Needs = (
    *REMOVAL_NEEDS,
    ("has its account taken away", "also all verbs on all resources of all groups, by a ClusterRoleBinding"),
    *ACCOUNT_NEEDS,
    (
        "names no service account, and its upstream is this cluster",
        "all verbs on all resources of all groups, by a ClusterRoleBinding",
    ),
    (
        "... and a `Bidirectional` resource of `rbac.authorization.k8s.io`",
        "refused: write a `serviceAccountName`, or `direction: Down`",
    ),
    ("names no service account, and a `kubeconfigSecretRef` or `serviceAccountTokenRef`", "`get` on that Secret"),
    ("... and SyncTargets by name", "`get` on that SyncTarget; for several names, `get` on all SyncTargets"),
    ("... and a `selector` of SyncTargets", "`list` on SyncTargets"),
    ("... and a `syncTargetNamespace` other than its own", "nothing: `allowedNamespaces` of the SyncTargets decides"),
    ("has a SyncTarget as upstream", "`get` on all Secrets of the namespace; its service account, if it names one"),
    (
        "has `Adopt` or `Overwrite`, and writes upstream (`Bidirectional`, `endpoints`, or no `statusSync: false`)",
        "`get` on all Secrets of the namespace of the SyncTargets; its service account, if it names one",
    ),
)

_CLUSTERS = {
    "upstream": """\
has(object.spec.upstream) && has(object.spec.upstream.connection) ? [object.spec.upstream.connection] : []""",
    "secrets": """\
variables.upstream.filter(one, has(one.kubeconfigSecretRef)).map(one, one.kubeconfigSecretRef.name)
+ variables.upstream.filter(one, has(one.serviceAccountTokenRef)).map(one, one.serviceAccountTokenRef.name)""",
    "upstreamTargets": """\
variables.upstream.filter(one, has(one.syncTargetRef)).map(one, one.syncTargetRef.name)""",
    "targetNamespace": """\
has(object.spec.downstream.syncTargetNamespace) ? object.spec.downstream.syncTargetNamespace : request.namespace""",
    # A SyncTarget in another namespace lists the allowed namespaces in allowedNamespaces.
    "syncTargets": """\
variables.upstreamTargets + (variables.targetNamespace == request.namespace && has(object.spec.downstream.syncTargets)
? object.spec.downstream.syncTargets : [])""",
    "takesOver": """\
object.spec.resourceManagementPolicy in ['Adopt', 'Overwrite']
&& ((has(object.spec.resources) && object.spec.resources.exists(one, one.direction == 'Bidirectional'))
|| (has(object.spec.endpoints) && object.spec.endpoints) || !has(object.spec.statusSync) || object.spec.statusSync)""",
    "who": "variables.account == '' ? 'you' : 'the service account ' + variables.account",
}
_TRANSFORMS = {
    "transforms": "has(object.spec.transforms) ? object.spec.transforms : []",
    # CEL knows no type of values of any type.
    "setPaths": """\
variables.transforms.filter(change, has(change.set)).map(change, dyn(change.set).map(path, string(path)))""",
}


def policy() -> list[Manifest]:
    """Return the policies and their bindings."""
    variables = {**ACCOUNT, **_CLUSTERS}
    clusters = [
        references("", "secrets", "secrets", "Secret"),
        references(GROUP, SYNC_TARGETS, "syncTargets", "SyncTarget"),
        _sync_targets_by_labels(),
    ]
    checks = authors(
        PLURAL,
        {**variables, **_TRANSFORMS},
        account(),
        _this_cluster(),
        _roles(),
        *clusters,
        _upstream_target(),
        _adopted(),
        _set_paths(),
        _patch_values(),
    )
    everything = "'use all verbs on all resources'"
    removals = [
        account_taken_away(EVERYTHING, everything),
        removal(f"variables.upstream.size() > 0 || {EVERYTHING}", everything),
        *clusters,
    ]
    return [*checks, *removers(PLURAL, variables, *removals)]


def _this_cluster() -> Validation:
    # The users of the upstream namespaces decide which objects are read. The policy cannot know the rights for them.
    return without_account(
        f"variables.upstream.size() > 0 || {EVERYTHING}",
        """\
'you may not use all verbs on all resources, and this sync reads namespaces of this cluster:'
+ ' write spec.serviceAccountName with an account that has only the necessary rights,'
+ ' or write spec.upstream.connection'""",
    )


def _roles() -> Validation:
    # With the operator's rights, the users of a SyncTarget would grant themselves rights in this cluster.
    return without_account(
        """\
variables.upstream.size() > 0 || !has(object.spec.resources)
|| !object.spec.resources.exists(one, one.group == 'rbac.authorization.k8s.io' && one.direction == 'Bidirectional')""",
        """\
'a sync may write roles and role bindings to this cluster only as a service account, so that the API server checks the'
+ ' granted rights: write spec.serviceAccountName, or direction: Down'""",
    )


def _sync_targets_by_labels() -> Validation:
    return without_account(
        f"""\
!has(object.spec.downstream.selector) || variables.targetNamespace != request.namespace
|| authorizer.group('{GROUP}').resource('{SYNC_TARGETS}').namespace(request.namespace).check('list').allowed()""",
        f"""\
'you may not list {SYNC_TARGETS} in namespace ' + request.namespace
+ ', so no sync may select from them for you: {OR_ACCOUNT}'""",
    )


def _reads_secrets(unless: str, namespace: str, message: str) -> Validation:
    secrets = f"group('').resource('secrets').namespace({namespace}).check('get').allowed()"
    return validation(
        f"""\
{unless}
|| (variables.account == '' ? authorizer.{secrets}
: authorizer.serviceAccount(request.namespace, variables.account).{secrets})""",
        message,
    )


def _upstream_target() -> Validation:
    return _reads_secrets(
        "variables.upstreamTargets.size() == 0",
        "request.namespace",
        f"""\
variables.who + ' may not get all Secrets in namespace ' + request.namespace + ', and a sync that reads from the'
+ ' SyncTarget ' + variables.upstreamTargets[0] + ' uses its credential to read: {OR_ACCOUNT}'""",
    )


def _adopted() -> Validation:
    # An adopted object can have content of others, which two-way syncs, statuses and addresses bring upstream.
    return _reads_secrets(
        "!variables.takesOver",
        "variables.targetNamespace",
        """\
variables.who + ' may not get all Secrets in namespace ' + variables.targetNamespace + ', and a sync that adopts'
+ ' objects and writes upstream uses the credentials of SyncTargets to read them: write'
+ ' resourceManagementPolicy: Sync, or direction: Down, statusSync: false and endpoints: false'""",
    )


def _set_paths() -> Validation:
    return {
        "expression": f"variables.setPaths.all(paths, paths.all(path, path.startsWith('/') && ({changeable('path')})))",
        "message": f"spec.transforms: set: write JSON pointers, such as /data/key; {PROTECTED}",
        "reason": "Invalid",
    }


def _patch_values() -> Validation:
    needing = ", ".join(f"'{op}'" for op in NEED_VALUE)
    return {
        "expression": f"""\
variables.transforms.all(change, !has(change.patch)
|| change.patch.all(one, !(one.op in [{needing}]) || has(dyn(one).value)))""",
        "message": f"spec.transforms: patch: the operations {', '.join(NEED_VALUE)} need a value: write value",
        "reason": "Invalid",
    }
