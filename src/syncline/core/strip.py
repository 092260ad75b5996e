"""Strips cluster-specific fields from an object before it is copied, and keeps allocated ones when it is replaced.

A live object holds more than its author wrote: allocated addresses and ports, generated selectors, bindings to a node
or volume, status. Another cluster or namespace refuses these fields, or worse, accepts them.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from syncline.api.common import GROUP
from syncline.core.group_kind import GroupKind
from syncline.core.sanitize import is_controller_state

Json = dict[str, Any]

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
RBAC_GROUPS = ("rbac.authorization.k8s.io", "authorization.openshift.io")
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
_HEADLESS = "None"


class NotCopyable(Exception):  # noqa: N818 - what became of it
    """An object is useful only in its cluster or namespace. The message has the remedy."""


def strip_cluster_fields(manifest: Mapping[str, Any]) -> Json:
    """Return the body of a copy: `apiVersion`, `kind` and the other fields except `metadata` and `status`, stripped.

    The manifest is not changed. `sanitize.copied_metadata` chooses labels and annotations. Raises `NotCopyable` for an
    object that is useful only in its place, although its kind can be copied.
    """
    kind = _kind_of(manifest)
    if why := bound_reason(manifest):
        raise NotCopyable(why)
    result = deepcopy({name: value for name, value in manifest.items() if name not in ("metadata", "status")})
    if clean := _CLEANERS.get(kind):
        clean(result, manifest.get("metadata") or {})
    return result


def preserve_allocated(live: Mapping[str, Any], desired: Mapping[str, Any]) -> Json:
    """Return the desired object with the allocated values of the live one, for a replacement.

    These are addresses and ports, the volume of a claim, the selector of a Job, and the labels and annotations of
    controllers. The own values of the desired object have priority. An invalid shape is left to the server.
    """
    result = deepcopy(dict(desired))
    if keep := _KEEPERS.get(_kind_of(desired)):
        keep(live, result)
    there, here = live.get("metadata") or {}, _inside(result, "metadata")
    for part in ("labels", "annotations"):
        state = {key: value for key, value in (there.get(part) or {}).items() if is_controller_state(key)}
        if state:
            _fill(_inside(here, part), state, *state)
    return result


def is_allocated(kind: str, path: str) -> bool:
    """Whether `preserve_allocated` keeps a field, by its path, of a kind (`Service`, `Job.batch`)."""
    return path.startswith(_ALLOCATED.get(kind, ())) or (kind == "Service" and path.endswith(".nodePort"))


def protected(group: str, kind: str) -> str:
    """Return why a kind is not copied unless a flag of the operator allows it; empty if it is copied."""
    return _PROTECTED.get(GroupKind(group, kind)) or _PROTECTED_GROUPS.get(group, "")


def needs_service_account(group: str, kind: str) -> bool:
    """Whether a kind grants rights, so that it is copied only with the rights of an account (`serviceAccountName`)."""
    return group in RBAC_GROUPS and kind in {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


_ALLOCATED: dict[str, tuple[str, ...]] = {
    "Service": ("spec.clusterIP", "spec.ipFamil", "spec.healthCheckNodePort"),
    "ServiceAccount": ("secrets", "imagePullSecrets"),
    "PersistentVolumeClaim": ("spec.volumeName", "spec.storageClassName", "spec.volumeMode", "spec.dataSource"),
    "PersistentVolume": ("spec.claimRef",),
    "Namespace": ("spec.finalizers",),
    "Job.batch": ("spec.selector", "spec.template.metadata.labels"),
    **{f"ClusterRole.{group}": ("rules",) for group in RBAC_GROUPS},
}

_NODE = "it describes a machine or its parts"
_MADE = "a controller makes it in each cluster"
_ANSWER = "it is a question to the API server, not an object"
_SERVER = "it changes what the API server does for everybody"
_MEASURED = "it is measured, not written"

_PROTECTED_GROUPS = {
    GROUP: "a sync that writes syncs would act with rights that its author need not have",
    "admissionregistration.k8s.io": _SERVER,
    "apiextensions.k8s.io": _SERVER,
    "apiregistration.k8s.io": _SERVER,
    "flowcontrol.apiserver.k8s.io": _SERVER,
    "internal.apiserver.k8s.io": _SERVER,
    "storagemigration.k8s.io": _SERVER,
    "authentication.k8s.io": _ANSWER,
    "authorization.k8s.io": _ANSWER,
    "certificates.k8s.io": "certificates are signed for one cluster",
    "coordination.k8s.io": "it says who leads where",
    "events.k8s.io": "it tells what happened to another object",
    "discovery.k8s.io": _MADE,
    "metrics.k8s.io": _MEASURED,
    "custom.metrics.k8s.io": _MEASURED,
    "external.metrics.k8s.io": _MEASURED,
}

_PROTECTED: dict[GroupKind, str] = {
    GroupKind("", "Binding"): _ANSWER,
    GroupKind("", "ComponentStatus"): _MEASURED,
    GroupKind("", "Endpoints"): _MADE,
    GroupKind("", "Event"): "it tells what happened to another object",
    GroupKind("", "Node"): _NODE,
    GroupKind("", "PersistentVolume"): "two of them would be one disk",
    GroupKind("", "Pod"): "it runs on one node; copy the Deployment, StatefulSet or Job that makes it",
    GroupKind("apps", "ControllerRevision"): _MADE,
    GroupKind("networking.k8s.io", "IPAddress"): _MADE,
    GroupKind("networking.k8s.io", "ServiceCIDR"): _SERVER,
    GroupKind("resource.k8s.io", "DeviceTaintRule"): _NODE,
    GroupKind("resource.k8s.io", "ResourceSlice"): _NODE,
    GroupKind("storage.k8s.io", "CSIDriver"): _NODE,
    GroupKind("storage.k8s.io", "CSINode"): _NODE,
    GroupKind("storage.k8s.io", "CSIStorageCapacity"): _NODE,
    GroupKind("storage.k8s.io", "VolumeAttachment"): _NODE,
}

_SECRETS_THAT_STAY = {
    "kubernetes.io/service-account-token": "is a token of its own service account: make one in the target, or use "
    "short-lived tokens",
    "bootstrap.kubernetes.io/token": "is a token for joining nodes to its own cluster",
    "helm.sh/release.v1": "is Helm's record of a release in its own namespace: install the release there instead",
}
_MADE_BY: dict[GroupKind, str] = {
    GroupKind("", "Pod"): "",
    GroupKind("apps", "ReplicaSet"): "Deployment",
    GroupKind("batch", "Job"): "CronJob",
}
"""Kinds that a controller makes from another kind, which can be copied instead."""


def _kind_of(manifest: Mapping[str, Any]) -> GroupKind:
    return GroupKind.of(str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")))


def bound_reason(manifest: Mapping[str, Any]) -> str:
    """Return why an object is bound to its place, although its kind can be copied; empty if it is not."""
    kind = _kind_of(manifest)
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name", "")
    if kind == ("", "Secret") and (why := _SECRETS_THAT_STAY.get(str(manifest.get("type") or ""))):
        return f"Secret {name!r} {why}"
    owners, maker = metadata.get("ownerReferences"), _MADE_BY.get(kind)
    for owner in owners if isinstance(owners, list) and maker is not None else ():
        if isinstance(owner, dict) and owner.get("controller") and owner.get("kind") == (maker or owner.get("kind")):
            return f"{kind.kind} {name!r} is made by {owner.get('kind')} {owner.get('name')!r}: copy that instead"
    return ""


def _clean_service(result: Json, metadata: Mapping[str, Any]) -> None:
    spec = result.get("spec") or {}
    if spec.get("clusterIP") != _HEADLESS:
        _drop(spec, "clusterIP", "clusterIPs")
    _drop(spec, "healthCheckNodePort")
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if not _was_written(metadata, "spec", name):
            _drop(spec, name)
    for port in spec.get("ports") or ():
        _drop(port, "nodePort")


def _was_written(metadata: Mapping[str, Any], *path: str) -> bool:
    """Whether a writer owns the field: values that the server chooses have no owner."""
    for entry in metadata.get("managedFields") or ():
        node: Any = entry.get("fieldsV1")
        for name in path:
            node = node.get(f"f:{name}") if isinstance(node, dict) else None
        if node is not None:
            return True
    return False


def _clean_account(result: Json, metadata: Mapping[str, Any]) -> None:
    _drop(result, "secrets")
    if pulls := result.get("imagePullSecrets"):
        kept = [pull for pull in pulls if not _is_made_for(metadata, pull)]
        result["imagePullSecrets"] = kept
        if not kept:
            del result["imagePullSecrets"]


def _is_made_for(metadata: Mapping[str, Any], pull: Mapping[str, Any]) -> bool:
    """Whether OpenShift made the pull secret for exactly this account."""
    return str(pull.get("name", "")).startswith(f"{metadata.get('name')}-dockercfg-")


def _clean_claim(result: Json, _: Mapping[str, Any]) -> None:
    _drop(result.get("spec"), "volumeName")


def _clean_volume(result: Json, _: Mapping[str, Any]) -> None:
    _drop(result.get("spec"), "claimRef")


def _clean_job(result: Json, _: Mapping[str, Any]) -> None:
    spec = result.get("spec") or {}
    _clean_template(spec)
    if spec.get("manualSelector"):
        return
    _drop(spec, "selector")
    template = (spec.get("template") or {}).get("metadata") or {}
    _drop(template.get("labels"), *_JOB_LABELS)
    if template.get("labels") == {}:
        del template["labels"]


def _clean_cron_job(result: Json, _: Mapping[str, Any]) -> None:
    job = (result.get("spec") or {}).get("jobTemplate") or {}
    _drop_empty_time(job)
    _clean_template(job.get("spec") or {})


def _clean_workload(result: Json, _: Mapping[str, Any]) -> None:
    spec = result.get("spec") or {}
    _clean_template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        _drop(claim, "status")
        _drop_empty_time(claim)


def _clean_template(spec: Mapping[str, Any]) -> None:
    _drop_empty_time(spec.get("template") or {})


def _drop_empty_time(template: Mapping[str, Any]) -> None:
    metadata = template.get("metadata")
    if isinstance(metadata, dict) and metadata.get("creationTimestamp", ...) is None:
        del metadata["creationTimestamp"]


def _clean_pod(result: Json, _: Mapping[str, Any]) -> None:
    spec = result.get("spec") or {}
    # The server computes these from classes, and refuses other values.
    _drop(spec, "nodeName", "priority", "preemptionPolicy", "ephemeralContainers")
    if spec.get("runtimeClassName"):
        _drop(spec, "overhead")
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    tokens = {
        mount.get("name")
        for container in containers
        for mount in container.get("volumeMounts") or ()
        if mount.get("mountPath") == TOKEN_PATH
    }
    for container in containers:
        _keep(container, "volumeMounts", lambda mount: mount.get("name") not in tokens)
    _keep(spec, "volumes", lambda volume: volume.get("name") not in tokens)


def _clean_namespace(result: Json, _: Mapping[str, Any]) -> None:
    _drop(result.get("spec"), "finalizers")
    if result.get("spec") == {}:
        del result["spec"]


def _clean_cluster_role(result: Json, _: Mapping[str, Any]) -> None:
    if result.get("aggregationRule"):
        _drop(result, "rules")  # aggregated from other roles, in each cluster


_CLEANERS: dict[GroupKind, Callable[[Json, Mapping[str, Any]], None]] = {
    GroupKind("", "Service"): _clean_service,
    GroupKind("", "ServiceAccount"): _clean_account,
    GroupKind("", "PersistentVolumeClaim"): _clean_claim,
    GroupKind("", "PersistentVolume"): _clean_volume,
    GroupKind("", "Pod"): _clean_pod,
    GroupKind("", "Namespace"): _clean_namespace,
    GroupKind("", "ReplicationController"): _clean_workload,
    GroupKind("apps", "Deployment"): _clean_workload,
    GroupKind("apps", "StatefulSet"): _clean_workload,
    GroupKind("apps", "DaemonSet"): _clean_workload,
    GroupKind("apps", "ReplicaSet"): _clean_workload,
    GroupKind("batch", "Job"): _clean_job,
    GroupKind("batch", "CronJob"): _clean_cron_job,
    **{GroupKind(group, "ClusterRole"): _clean_cluster_role for group in RBAC_GROUPS},
}


def _keep_service(live: Mapping[str, Any], result: Json) -> None:
    there, here = live.get("spec") or {}, _inside(result, "spec")
    if here.get("type") == "ExternalName":
        return
    if there.get("clusterIP") != _HEADLESS:
        _fill(here, there, "clusterIP", "clusterIPs")
    if here.get("ipFamilyPolicy", there.get("ipFamilyPolicy")) == there.get("ipFamilyPolicy"):
        _fill(here, there, "ipFamilyPolicy", "ipFamilies")
    if here.get("type") == there.get("type") == "LoadBalancer" and here.get("externalTrafficPolicy") == "Local":
        _fill(here, there, "healthCheckNodePort")
    if here.get("type") in ("NodePort", "LoadBalancer"):
        ports = here.get("ports")
        _keep_node_ports(there.get("ports") or (), [port for port in ports or () if isinstance(port, dict)])


def _keep_node_ports(there: Sequence[Mapping[str, Any]], here: Sequence[Json]) -> None:
    """Set the earlier node port of each port, found by its name, or else by its number."""
    taken = {_port_key(port, "nodePort") for port in here if port.get("nodePort")}
    for name in ("name", "port"):
        known = {_port_key(port, name): port for port in there if port.get("nodePort")}
        for port in here:
            found = known.get(_port_key(port, name))
            if found is not None and not port.get("nodePort") and _port_key(found, "nodePort") not in taken:
                port["nodePort"] = found["nodePort"]
                taken.add(_port_key(found, "nodePort"))


def _port_key(port: Mapping[str, Any], name: str) -> str:
    return f"{port.get(name)}/{port.get('protocol') or 'TCP'}"


def _keep_account(live: Mapping[str, Any], result: Json) -> None:
    _fill(result, live, "secrets")
    metadata = live.get("metadata") or {}
    made = [pull for pull in live.get("imagePullSecrets") or () if _is_made_for(metadata, pull)]
    if made:
        wanted: Sequence[Any] = result.get("imagePullSecrets") or []
        known = set(map(_text, wanted))
        result["imagePullSecrets"] = [*wanted, *(pull for pull in made if _text(pull) not in known)]


def _keep_claim(live: Mapping[str, Any], result: Json) -> None:
    # Most fields of a claim are immutable, so the server needs its own values again.
    there, here = live.get("spec") or {}, _inside(result, "spec")
    _fill(here, there, "volumeName", "storageClassName", "volumeMode", "dataSource", "dataSourceRef")


def _keep_volume(live: Mapping[str, Any], result: Json) -> None:
    _fill(_inside(result, "spec"), live.get("spec") or {}, "claimRef")


def _keep_job(live: Mapping[str, Any], result: Json) -> None:
    there, here = live.get("spec") or {}, _inside(result, "spec")
    if here.get("manualSelector"):
        return
    _fill(here, there, "selector")
    labels = ((there.get("template") or {}).get("metadata") or {}).get("labels") or {}
    made = {key: labels[key] for key in _JOB_LABELS if key in labels}
    _inside(_inside(_inside(here, "template"), "metadata"), "labels").update(made)


def _keep_namespace(live: Mapping[str, Any], result: Json) -> None:
    _fill(_inside(result, "spec"), live.get("spec") or {}, "finalizers")


def _keep_cluster_role(live: Mapping[str, Any], result: Json) -> None:
    if result.get("aggregationRule"):
        _fill(result, live, "rules")


_KEEPERS: dict[GroupKind, Callable[[Mapping[str, Any], Json], None]] = {
    GroupKind("", "Service"): _keep_service,
    GroupKind("", "ServiceAccount"): _keep_account,
    GroupKind("", "PersistentVolumeClaim"): _keep_claim,
    GroupKind("", "PersistentVolume"): _keep_volume,
    GroupKind("", "Namespace"): _keep_namespace,
    GroupKind("batch", "Job"): _keep_job,
    **{GroupKind(group, "ClusterRole"): _keep_cluster_role for group in RBAC_GROUPS},
}


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _drop(fields: Json | None, *names: str) -> None:
    for name in names:
        if fields is not None:
            fields.pop(name, None)


def _inside(fields: Json, name: str) -> Json:
    """Return the map of that name, and create it if it is absent. A value that is not a map is left to the server."""
    if fields.get(name) is None:
        fields[name] = {}
    inside = fields[name]
    return inside if isinstance(inside, dict) else {}


def _fill(here: Json, there: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if there.get(name) and not here.get(name):
            here[name] = there[name]


def _keep(fields: Json, name: str, wanted: Callable[[Mapping[str, Any]], bool]) -> None:
    """Filter a list, and drop it when nothing is left of it."""
    if items := fields.get(name):
        fields[name] = [item for item in items if wanted(item)]
        if not fields[name]:
            del fields[name]
