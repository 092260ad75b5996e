"""The values of the Helm chart: one entry for each, with its default, its schema and its description.

`values.yaml`, `values.schema.json` and the README of the chart are generated from this list, in this order.
"""

from typing import Any

from msgspec import Struct

from syncline.core.profiles import DEFAULT, MEANINGS, PROFILES
from syncline.deploy.chart.schemas import (
    ACCOUNT,
    ANY_OBJECT,
    DURATION,
    ISSUER,
    NAME,
    NO_NAME,
    PORT,
    QUANTITY,
    RESOURCE,
    SOME_TEXT,
    STRINGS,
    SWITCH,
    TEXT,
    ValueSchema,
    choice,
    distinct,
    integer,
    many,
    record,
)
from syncline.deploy.names import IMAGE
from syncline.deploy.rights import AS_SHIPPED
from syncline.deploy.workload import deployment


class ChartValue(Struct, frozen=True):
    """One value of the chart."""

    path: str
    """The keys, separated by dots."""
    default: Any
    schema: ValueSchema
    description: str


_POD_SPEC: dict[str, Any] = deployment()[-1]["spec"]["template"]["spec"]
_SIZES = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in _POD_SPEC["volumes"] if "emptyDir" in volume}
_OWN_CERTIFICATE = (
    "A Secret with tls.crt, tls.key and ca.crt. Empty, and no issuer: the operator makes and renews its certificates."
)
_TENANT_KINDS: ValueSchema = {
    "anyOf": [choice("all", "none"), many(choice(*AS_SHIPPED.tenant_kinds))],
}
_PROFILES = "; ".join(f"`{profile}`: {MEANINGS[profile]}" for profile in PROFILES)

_IMAGE = (
    ChartValue("image.repository", IMAGE.partition(":")[0], TEXT, "The repository of the image."),
    ChartValue("image.tag", "", TEXT, "The tag. Empty: the version of the chart's application."),
    ChartValue(
        "image.digest",
        "",
        {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "The digest of the image, `sha256:...`. It is used instead of the tag.",
    ),
    ChartValue("image.pullPolicy", "IfNotPresent", choice("Always", "IfNotPresent", "Never"), "When it is pulled."),
    ChartValue(
        "imagePullSecrets",
        [],
        many({**record(name=NAME), "required": ["name"]}),
        "Secrets with the credentials of the registry.",
    ),
)

_OPERATOR = (
    ChartValue("replicas", 1, integer(0), "The number of replicas. One leads, the others are standbys."),
    ChartValue("leaderElection", True, SWITCH, "Elect one leader. Several replicas need it, and so does an update."),
    ChartValue(
        "resources",
        _POD_SPEC["containers"][0]["resources"],
        record(requests=ANY_OBJECT, limits=ANY_OBJECT, claims=many(ANY_OBJECT)),
        ("The resources of the container. The memory limit is the sum of all components at their own limits."),
    ),
    ChartValue("gitCache.size", _SIZES["cache"], QUANTITY, "The size of the volume for mirrors of repositories."),
    ChartValue("tmp.size", _SIZES["tmp"], QUANTITY, "The size of /tmp, in memory: files of builds."),
    ChartValue("watchNamespaces", [], many(NAME), "Reconcile only syncs in these namespaces. Empty: all."),
    ChartValue("minInterval", "10s", DURATION, "The smallest interval that a sync can have."),
    ChartValue("log.format", "json", choice("json", "console"), "The format of the log."),
    ChartValue("log.level", "info", choice("debug", "info", "warning", "error"), "The least level that is logged."),
)

_RIGHTS = (
    ChartValue("rights.profile", DEFAULT, choice(*PROFILES), f"The operator's own rights. {_PROFILES}."),
    ChartValue(
        "rights.tenantKinds",
        "all",
        _TENANT_KINDS,
        "The kinds of Syncline that the cluster's roles edit and admin can write: `all`, `none` or a list of plurals.",
    ),
    ChartValue(
        "rights.write",
        [],
        distinct(RESOURCE),
        "Resources that the operator can write with its own rights, in addition to its profile: `limitranges`,"
        " `widgets.example.com`. Each gets a ClusterRole.",
    ),
    ChartValue(
        "rights.read",
        [],
        distinct(RESOURCE),
        "Resources that the operator can watch, so that syncs with a service account can write them.",
    ),
    ChartValue("serviceAccount.annotations", {}, STRINGS, "Annotations of the ServiceAccount."),
)

_TENANCY = (
    ChartValue("tenancy.requireServiceAccount", False, SWITCH, "Refuse syncs that name no service account."),
    ChartValue("tenancy.defaultServiceAccount", "", NO_NAME, "The service account of syncs that name none."),
    ChartValue(
        "tenancy.protectedNamespaces",
        [],
        many(SOME_TEXT),
        "Namespaces, names or globs, that globs and selectors of syncs never match, in addition to `kube-*` and the"
        " operator's.",
    ),
    ChartValue(
        "tenancy.allowedKinds", [], many(SOME_TEXT), "Protected kinds that are copied: `Lease.coordination.k8s.io`."
    ),
)

_WEBHOOKS = (
    ChartValue("webhooks.enabled", True, SWITCH, "Accept push webhooks of Git hosts."),
    ChartValue(
        "webhooks.service.type",
        "ClusterIP",
        choice("ClusterIP", "NodePort", "LoadBalancer"),
        ("The type of the Service."),
    ),
    ChartValue("webhooks.service.port", 80, PORT, "The port of the Service."),
    ChartValue("webhooks.service.annotations", {}, STRINGS, "Annotations of the Service."),
    ChartValue(
        "webhooks.secret.name",
        "",
        NO_NAME,
        "A Secret with a key that authenticates push webhooks for all syncs, in addition to the secret of each sync."
        " The operator reads it at its start.",
    ),
    ChartValue(
        "webhooks.secret.key", "secret", {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}, "The key in that Secret."
    ),
    ChartValue(
        "webhooks.trustedProxies",
        [],
        many(SOME_TEXT),
        "Addresses and networks of proxies whose X-Forwarded-For is trusted.",
    ),
    ChartValue("webhooks.ingress.enabled", False, SWITCH, "Create an Ingress."),
    ChartValue("webhooks.ingress.className", "", NO_NAME, "The class of the Ingress."),
    ChartValue("webhooks.ingress.annotations", {}, STRINGS, "Annotations of the Ingress."),
    ChartValue("webhooks.ingress.host", "", TEXT, "The host of the Ingress."),
    ChartValue("webhooks.ingress.tlsSecretName", "", NO_NAME, "The Secret with the certificate of the host."),
    ChartValue("webhooks.httpRoute.enabled", False, SWITCH, "Create an HTTPRoute of the Gateway API."),
    ChartValue("webhooks.httpRoute.annotations", {}, STRINGS, "Annotations of the HTTPRoute."),
    ChartValue("webhooks.httpRoute.parentRefs", [], many(ANY_OBJECT), "The Gateways of the HTTPRoute."),
    ChartValue("webhooks.httpRoute.hostnames", [], many(SOME_TEXT), "The hostnames of the HTTPRoute."),
)

_METRICS = (
    ChartValue("metrics.enabled", True, SWITCH, "Serve metrics over TLS, to clients with the right to read them."),
    ChartValue("metrics.service.annotations", {}, STRINGS, "Annotations of the Service."),
    ChartValue("metrics.readers", [], distinct(ACCOUNT), "ServiceAccounts that can read the metrics."),
    ChartValue(
        "metrics.certificate.secretName",
        "",
        NO_NAME,
        "A Secret of type kubernetes.io/tls, with ca.crt if there is a ServiceMonitor. Empty, and no issuer: the"
        " operator creates a self-signed certificate.",
    ),
    ChartValue("metrics.certificate.issuerRef", {}, ISSUER, "An issuer of cert-manager, which creates the Secret."),
    ChartValue("metrics.serviceMonitor.enabled", False, SWITCH, "Create a ServiceMonitor of the Prometheus operator."),
    ChartValue("metrics.serviceMonitor.labels", {}, STRINGS, "Labels by which Prometheus finds it."),
    ChartValue("metrics.serviceMonitor.interval", "30s", DURATION, "The interval of the scrapes."),
    ChartValue("metrics.prometheusRule.enabled", False, SWITCH, "Create a PrometheusRule with alerts."),
    ChartValue("metrics.prometheusRule.labels", {}, STRINGS, "Labels by which Prometheus finds it."),
    ChartValue("metrics.prometheusRule.extraRules", [], many(ANY_OBJECT), "Rules of your own in the same group."),
)

_AGENTS = (
    ChartValue("depot.enabled", True, SWITCH, "Serve the files of IgnitionSyncs to agents."),
    ChartValue(
        "depot.url",
        "",
        {"type": "string", "pattern": "^(https://.+)?$"},
        "The address for agents. Empty: that of the Service.",
    ),
    ChartValue(
        "depot.service.type", "ClusterIP", choice("ClusterIP", "NodePort", "LoadBalancer"), "The type of the Service."
    ),
    ChartValue("depot.service.annotations", {}, STRINGS, "Annotations of the Service."),
    ChartValue("depot.certificate.secretName", "", NO_NAME, _OWN_CERTIFICATE),
    ChartValue("depot.certificate.issuerRef", {}, ISSUER, "An issuer of cert-manager, which creates the Secret."),
    ChartValue("admission.enabled", True, SWITCH, "Add agents to new pods that ask for one."),
    ChartValue("admission.certificate.secretName", "", NO_NAME, _OWN_CERTIFICATE),
    ChartValue(
        "admission.certificate.issuerRef",
        {},
        ISSUER,
        "An issuer of cert-manager, which creates the Secret. The operator writes its `ca.crt` into the webhook"
        " configuration.",
    ),
    ChartValue("agent.image", "", TEXT, "The image of agents. Empty: the image of the operator."),
)

_SCHEDULING = (
    ChartValue("networkPolicy.enabled", True, SWITCH, "Admit only traffic to the ports of the pod."),
    ChartValue(
        "networkPolicy.ingress",
        [],
        many(ANY_OBJECT),
        "Rules instead of the default, which admits everybody to these ports.",
    ),
    ChartValue("networkPolicy.egress", [{}], many(ANY_OBJECT), "Rules for the traffic to other hosts. Default: all."),
    ChartValue("podDisruptionBudget.enabled", False, SWITCH, "Create a PodDisruptionBudget."),
    ChartValue(
        "podDisruptionBudget.maxUnavailable",
        1,
        {"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+%?$"},
        ("The pods that a drain can remove at a time."),
    ),
    ChartValue(
        "topologySpreadConstraints", [], many(ANY_OBJECT), "Constraints. The labelSelector is added if it is missing."
    ),
    ChartValue("affinity", {}, ANY_OBJECT, "The affinity of the pods."),
    ChartValue("nodeSelector", {}, STRINGS, "The labels of the nodes."),
    ChartValue("tolerations", [], many(ANY_OBJECT), "The tolerations of the pods."),
    ChartValue("priorityClassName", "", NO_NAME, "The priority class of the pods."),
    ChartValue("podAnnotations", {}, STRINGS, "Annotations of the pods."),
    ChartValue("podLabels", {}, STRINGS, "Labels of the pods."),
    ChartValue("extraArgs", [], many(SOME_TEXT), "More flags of `syncline run`."),
    ChartValue("extraEnv", [], many(ANY_OBJECT), "More environment variables, such as those of a proxy."),
    ChartValue("extraVolumes", [], many(ANY_OBJECT), "More volumes."),
    ChartValue("extraVolumeMounts", [], many(ANY_OBJECT), "More mounts of volumes."),
)

_CHART = (
    ChartValue("crds.install", True, SWITCH, "Install and upgrade the CRDs. They stay when the release is removed."),
    ChartValue("labels", {}, STRINGS, "Labels of all objects."),
    ChartValue("enabled", True, SWITCH, "For charts that depend on this one: a value for their condition."),
    ChartValue("global", {}, ANY_OBJECT, "For charts that depend on this one. Not used."),
)

VALUES = (*_IMAGE, *_RIGHTS, *_TENANCY, *_OPERATOR, *_WEBHOOKS, *_METRICS, *_AGENTS, *_SCHEDULING, *_CHART)
