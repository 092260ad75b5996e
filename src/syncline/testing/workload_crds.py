"""CRDs of `deployments.apps` and `services.core`, which kcp does not serve by itself and a cluster serves without one.

The schemas have the fields, list keys and atomic parts of Kubernetes' own kinds, so that server-side apply merges in a
workspace as in a cluster. They default no more than the keys of their lists need: nothing fills in the rest there.

    python -m syncline.testing.workload_crds | kubectl apply --server-side -f -
"""

import json
import sys
from typing import Any

_Schema = dict[str, Any]

_TEXT: _Schema = {"type": "string"}
_TRUTH: _Schema = {"type": "boolean"}
_NUMBER: _Schema = {"type": "integer", "format": "int32"}
_LONG: _Schema = {"type": "integer", "format": "int64"}
_TIME: _Schema = {"type": "string", "format": "date-time"}
_NUMBER_OR_TEXT: _Schema = {"x-kubernetes-int-or-string": True}
_TEXTS: _Schema = {"type": "object", "additionalProperties": _TEXT}
_QUANTITIES: _Schema = {"type": "object", "additionalProperties": _NUMBER_OR_TEXT}
_PROTOCOL: _Schema = {"type": "string", "default": "TCP"}


def workload_crds() -> list[_Schema]:
    """CRDs for a kcp workspace: Deployments with status and scale, Services with status."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return [
        _crd("apps", "Deployment", "deploy", _deployment(), {"status": {}, "scale": scale}),
        _crd("", "Service", "svc", _service(), {"status": {}}),
    ]


def _crd(group: str, kind: str, short: str, schema: _Schema, subresources: _Schema) -> _Schema:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group or 'core'}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }
            ],
        },
    }


def _deployment() -> _Schema:
    strategy = _object("type", rollingUpdate=_object(maxSurge=_NUMBER_OR_TEXT, maxUnavailable=_NUMBER_OR_TEXT))
    counts = "replicas availableReplicas readyReplicas updatedReplicas unavailableReplicas terminatingReplicas"
    return _object(
        "apiVersion kind",
        metadata={"type": "object"},
        spec=_object(
            numbers="replicas minReadySeconds progressDeadlineSeconds revisionHistoryLimit",
            truths="paused",
            required="selector template",
            selector=_label_selector(),
            strategy=strategy,
            template=_object(metadata=_template_metadata(), spec=_pod()),
        ),
        status=_object(
            numbers=f"{counts} collisionCount",
            observedGeneration=_LONG,
            conditions=_keyed(_condition(lastUpdateTime=_TIME), "type"),
        ),
    )


def _service() -> _Schema:
    port = _object(
        "name appProtocol",
        numbers="port nodePort",
        required="port",
        protocol=_PROTOCOL,
        targetPort=_NUMBER_OR_TEXT,
    )
    ingress = _object(
        "hostname ip ipMode",
        ports=_atomic(_object("error protocol", numbers="port", required="error port protocol")),
    )
    return _object(
        "apiVersion kind",
        metadata={"type": "object"},
        spec=_object(
            "clusterIP externalName externalTrafficPolicy internalTrafficPolicy ipFamilyPolicy loadBalancerClass"
            " loadBalancerIP sessionAffinity trafficDistribution type",
            numbers="healthCheckNodePort",
            truths="allocateLoadBalancerNodePorts publishNotReadyAddresses",
            lists="clusterIPs externalIPs ipFamilies loadBalancerSourceRanges",
            ports=_keyed(port, "port", "protocol"),
            selector={**_TEXTS, "x-kubernetes-map-type": "atomic"},
            sessionAffinityConfig=_object(clientIP=_object(numbers="timeoutSeconds")),
        ),
        status=_object(
            conditions=_keyed(_condition(observedGeneration=_LONG), "type"),
            loadBalancer=_object(ingress=_atomic(ingress)),
        ),
    )


def _pod() -> _Schema:
    alias = _object("ip", lists="hostnames", required="ip")
    resolver = _object(lists="nameservers searches", options=_atomic(_object("name value")))
    spread = _object(
        "topologyKey whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy",
        numbers="maxSkew minDomains",
        lists="matchLabelKeys",
        required="maxSkew topologyKey whenUnsatisfiable",
        labelSelector=_label_selector(),
    )
    return _object(
        "dnsPolicy hostname hostnameOverride nodeName preemptionPolicy priorityClassName restartPolicy runtimeClassName"
        " schedulerName serviceAccount serviceAccountName subdomain",
        numbers="priority",
        truths="automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers"
        " setHostnameAsFQDN shareProcessNamespace",
        required="containers",
        activeDeadlineSeconds=_LONG,
        terminationGracePeriodSeconds=_LONG,
        affinity=_affinity(),
        containers=_keyed(_container(), "name"),
        initContainers=_keyed(_container(), "name"),
        ephemeralContainers=_keyed(_container("targetContainerName"), "name"),
        dnsConfig=resolver,
        hostAliases=_keyed(alias, "ip"),
        imagePullSecrets=_keyed(_object(name={"type": "string", "default": ""}), "name"),
        nodeSelector={**_TEXTS, "x-kubernetes-map-type": "atomic"},
        os=_object("name", required="name"),
        overhead=_QUANTITIES,
        readinessGates=_atomic(_object("conditionType", required="conditionType")),
        resourceClaims=_keyed(_object("name resourceClaimName resourceClaimTemplateName", required="name"), "name"),
        resources=_resources(),
        schedulingGates=_keyed(_object("name", required="name"), "name"),
        securityContext=_pod_security(),
        tolerations=_atomic(_object("effect key operator value", tolerationSeconds=_LONG)),
        topologySpreadConstraints=_keyed(spread, "topologyKey", "whenUnsatisfiable"),
        volumes=_keyed(_volume(), "name"),
    )


def _container(also: str = "") -> _Schema:
    port = _object("name hostIP", numbers="containerPort hostPort", required="containerPort", protocol=_PROTOCOL)
    mount = _object(
        "mountPath name mountPropagation recursiveReadOnly subPath subPathExpr",
        truths="readOnly",
        required="mountPath name",
    )
    source = _object("prefix", configMapRef=_reference(), secretRef=_reference())
    codes = _object("operator", values={"type": "array", "items": _NUMBER, "x-kubernetes-list-type": "set"})
    handlers = _object(postStart=_handler(), preStop=_handler(), stopSignal=_TEXT)
    return _object(
        f"name image imagePullPolicy restartPolicy terminationMessagePath terminationMessagePolicy workingDir {also}",
        truths="stdin stdinOnce tty",
        lists="args command",
        required="name",
        env=_keyed(_variable(), "name"),
        envFrom=_atomic(source),
        lifecycle=handlers,
        livenessProbe=_probe(),
        readinessProbe=_probe(),
        startupProbe=_probe(),
        ports=_keyed(port, "containerPort", "protocol"),
        resizePolicy=_atomic(_object("resourceName restartPolicy", required="resourceName restartPolicy")),
        resources=_resources(),
        restartPolicyRules=_atomic(_object("action", exitCodes=codes)),
        securityContext=_container_security(),
        volumeDevices=_keyed(_object("devicePath name", required="devicePath name"), "devicePath"),
        volumeMounts=_keyed(mount, "mountPath"),
    )


def _variable() -> _Schema:
    file = _object("key path volumeName", truths="optional", required="key path volumeName")
    origin = _object(
        configMapKeyRef=_reference("key"),
        secretKeyRef=_reference("key"),
        fieldRef=_field(),
        resourceFieldRef=_resource_field(),
        fileKeyRef=file,
    )
    return _object("name value", required="name", valueFrom=origin)


def _probe() -> _Schema:
    numbers = "failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds"
    grpc = _object("service", numbers="port", required="port")
    return _joined(_object(numbers=numbers, terminationGracePeriodSeconds=_LONG, grpc=grpc), _handler())


def _handler() -> _Schema:
    header = _object("name value", required="name value")
    get = _object("host path scheme", required="port", port=_NUMBER_OR_TEXT, httpHeaders=_atomic(header))
    return _object(
        exec=_object(lists="command"),
        httpGet=get,
        tcpSocket=_object("host", required="port", port=_NUMBER_OR_TEXT),
        sleep=_object(required="seconds", seconds=_LONG),
    )


def _resources() -> _Schema:
    claims = _keyed(_object("name request", required="name"), "name")
    return _object(limits=_QUANTITIES, requests=_QUANTITIES, claims=claims)


def _pod_security() -> _Schema:
    own = _object(
        "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy",
        fsGroup=_LONG,
        supplementalGroups=_atomic(_LONG),
        sysctls=_atomic(_object("name value", required="name value")),
    )
    return _joined(own, _security())


def _container_security() -> _Schema:
    own = _object(
        "procMount",
        truths="allowPrivilegeEscalation privileged readOnlyRootFilesystem",
        capabilities=_object(lists="add drop"),
    )
    return _joined(own, _security())


def _security() -> _Schema:
    profile = _object("localhostProfile type", required="type")
    return _object(
        truths="runAsNonRoot",
        runAsGroup=_LONG,
        runAsUser=_LONG,
        appArmorProfile=profile,
        seccompProfile=profile,
        seLinuxOptions=_object("level role type user"),
        windowsOptions=_object("gmsaCredentialSpec gmsaCredentialSpecName runAsUserName", truths="hostProcess"),
    )


def _affinity() -> _Schema:
    expression = _object("key operator", lists="values", required="key operator")
    term = _object(matchExpressions=_atomic(expression), matchFields=_atomic(expression))
    wanted = _object(numbers="weight", required="weight preference", preference=term)
    nodes = _object(
        preferredDuringSchedulingIgnoredDuringExecution=_atomic(wanted),
        requiredDuringSchedulingIgnoredDuringExecution=_object(
            required="nodeSelectorTerms", nodeSelectorTerms=_atomic(term)
        ),
    )
    pod = _object(
        "topologyKey",
        lists="namespaces matchLabelKeys mismatchLabelKeys",
        required="topologyKey",
        labelSelector=_label_selector(),
        namespaceSelector=_label_selector(),
    )
    weighted = _object(numbers="weight", required="weight podAffinityTerm", podAffinityTerm=pod)
    pods = _object(
        preferredDuringSchedulingIgnoredDuringExecution=_atomic(weighted),
        requiredDuringSchedulingIgnoredDuringExecution=_atomic(pod),
    )
    return _object(nodeAffinity=nodes, podAffinity=pods, podAntiAffinity=pods)


def _volume() -> _Schema:
    fields = _atomic(
        _object("path", numbers="mode", required="path", fieldRef=_field(), resourceFieldRef=_resource_field())
    )
    token = _object("audience path", required="path", expirationSeconds=_LONG)
    projection = _object(
        configMap=_files(),
        secret=_files(),
        downwardAPI=_object(items=fields),
        serviceAccountToken=token,
        clusterTrustBundle=_object(
            "name path signerName", truths="optional", required="path", labelSelector=_label_selector()
        ),
    )
    volume = _object(
        "name",
        required="name",
        configMap=_files(numbers="defaultMode"),
        secret=_files("secretName", numbers="defaultMode"),
        downwardAPI=_object(numbers="defaultMode", items=fields),
        projected=_object(numbers="defaultMode", sources=_atomic(projection)),
        emptyDir=_object("medium", sizeLimit=_NUMBER_OR_TEXT),
        hostPath=_object("path type", required="path"),
        persistentVolumeClaim=_object("claimName", truths="readOnly", required="claimName"),
        nfs=_object("path server", truths="readOnly", required="path server"),
        image=_object("pullPolicy reference"),
        csi=_object(
            "driver fsType",
            truths="readOnly",
            required="driver",
            nodePublishSecretRef=_reference(),
            volumeAttributes=_TEXTS,
        ),
    )
    # The other sources belong to vendors, and are kept as they come.
    return volume | {"x-kubernetes-preserve-unknown-fields": True}


def _files(also: str = "", numbers: str = "") -> _Schema:
    item = _object("key path", numbers="mode", required="key path")
    return _object(f"name {also}", numbers=numbers, truths="optional", items=_atomic(item))


def _field() -> _Schema:
    return _object("apiVersion fieldPath", required="fieldPath") | {"x-kubernetes-map-type": "atomic"}


def _resource_field() -> _Schema:
    schema = _object("containerName resource", required="resource", divisor=_NUMBER_OR_TEXT)
    return schema | {"x-kubernetes-map-type": "atomic"}


def _reference(also: str = "") -> _Schema:
    schema = _object(f"name {also}", truths="optional", required=also)
    return schema | {"x-kubernetes-map-type": "atomic"} if also else schema


def _label_selector() -> _Schema:
    expression = _object("key operator", lists="values", required="key operator")
    schema = _object(matchLabels=_TEXTS, matchExpressions=_atomic(expression))
    return schema | {"x-kubernetes-map-type": "atomic"}


def _template_metadata() -> _Schema:
    return _object(
        "name generateName namespace",
        labels=_TEXTS,
        annotations=_TEXTS,
        finalizers={"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        creationTimestamp={**_TIME, "nullable": True},
    )


def _condition(**also: _Schema) -> _Schema:
    common = _object("type status reason message", required="type status", lastTransitionTime=_TIME)
    return _joined(common, {"properties": also})


def _object(
    texts: str = "", *, numbers: str = "", truths: str = "", lists: str = "", required: str = "", **others: _Schema
) -> _Schema:
    """Describe an object by the names of its plain fields, and the schemas of others."""
    properties = dict.fromkeys(texts.split(), _TEXT) | dict.fromkeys(numbers.split(), _NUMBER)
    properties |= dict.fromkeys(truths.split(), _TRUTH) | dict.fromkeys(lists.split(), _atomic(_TEXT)) | others
    needed = {"required": required.split()} if required else {}
    return {"type": "object", "properties": properties, **needed}


def _joined(schema: _Schema, other: _Schema) -> _Schema:
    return {**schema, "properties": schema["properties"] | other["properties"]}


def _atomic(items: _Schema) -> _Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}


def _keyed(items: _Schema, *keys: str) -> _Schema:
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }


if __name__ == "__main__":
    json.dump({"apiVersion": "v1", "kind": "List", "items": workload_crds()}, sys.stdout)
