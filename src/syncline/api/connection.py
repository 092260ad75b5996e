"""The connection to another cluster. All kinds that write to other clusters share it."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from syncline.api.common import LabelSelector
from syncline.api.content import DataKey
from syncline.api.names import NamespaceName, ObjectName
from syncline.api.rules import ValidationRule, text

MAX_AUTHORITIES = 262144

ConnectionType = Literal["KubeconfigSecret", "ServiceAccountToken", "SyncTarget"]

Server = Annotated[
    str,
    text(
        r"^https://[^\s/?#@]+(/[^\s?#]*)?$",
        "write the address of an API server, such as https://api.example.com:6443: with https, without credentials,"
        " query and fragment",
        max_length=2048,
    ),
]
CertificateAuthority = Annotated[
    str,
    text(
        r"^[a-zA-Z0-9+/=\s]+$",
        "write certificates as base64 of PEM, like certificate-authority-data in a kubeconfig",
        max_length=32768,
    ),
]


class SecretKeyRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A key of a Secret in the same namespace."""

    name: Annotated[ObjectName, Meta(description="The name of the Secret.")]
    key: Annotated[
        DataKey | None, Meta(description="The key. Default: the first well-known key that the Secret has.")
    ] = None


class NameRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object by its name."""

    name: Annotated[ObjectName, Meta(description="The name of the object.")]


class ClusterConnection(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A cluster, and the credential for it."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            self.type != 'KubeconfigSecret'
            || has(self.kubeconfigSecretRef)
            && !has(self.serviceAccountTokenRef) && !has(self.server) && !has(self.caData)
            && !has(self.syncTargetRef) && !has(self.selector) && !has(self.syncTargetNamespace)
            """,
            "type: KubeconfigSecret needs kubeconfigSecretRef and no other field: the kubeconfig contains all other"
            " settings",
        ),
        ValidationRule(
            """
            self.type != 'ServiceAccountToken'
            || has(self.serviceAccountTokenRef) && has(self.server)
            && !has(self.kubeconfigSecretRef)
            && !has(self.syncTargetRef) && !has(self.selector) && !has(self.syncTargetNamespace)
            """,
            "type: ServiceAccountToken needs serviceAccountTokenRef and server: write both, and no other field except"
            " caData",
        ),
        ValidationRule(
            """
            self.type != 'SyncTarget'
            || has(self.syncTargetRef) != has(self.selector)
            && !has(self.kubeconfigSecretRef) && !has(self.serviceAccountTokenRef)
            && !has(self.server) && !has(self.caData)
            """,
            "type: SyncTarget needs exactly one of syncTargetRef and selector, and no other field except"
            " syncTargetNamespace: the SyncTarget contains all other settings",
        ),
        ValidationRule(
            """
            !has(self.selector)
            || self.selector.?matchLabels.orValue({}).size() > 0
            || self.selector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would select every cluster: write the labels of the SyncTargets",
            ".selector",
        ),
    )

    type: Annotated[ConnectionType, Meta(description="The type of the connection.")]
    kubeconfig_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="For KubeconfigSecret: the Secret with the kubeconfig, in the namespace of this object."
            " Default keys: `value`, `value.yaml`, `kubeconfig` and `config`."
        ),
    ] = None
    service_account_token_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="For ServiceAccountToken: the Secret with the token, in the namespace of this object. Default"
            " key: `token`."
        ),
    ] = None
    server: Annotated[Server | None, Meta(description="For ServiceAccountToken: the address of the API server.")] = None
    ca_data: Annotated[
        CertificateAuthority | None,
        Meta(
            description="For ServiceAccountToken: the certificate authorities of the server, as base64 of PEM."
            " Default: `ca.crt` of the same Secret, else the authorities that the operator's system trusts."
        ),
    ] = None
    sync_target_ref: Annotated[NameRef | None, Meta(description="For SyncTarget: one SyncTarget by name.")] = None
    selector: Annotated[
        LabelSelector | None,
        Meta(description="For SyncTarget: selects all SyncTargets with these labels in the namespace."),
    ] = None
    sync_target_namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="For SyncTarget: the namespace of the SyncTargets. Default: the namespace of this object. A"
            " SyncTarget in another namespace must list the namespace of this object in `allowedNamespaces`. The"
            " operator searches no other namespace, because a SyncTarget there could receive objects of this"
            " namespace."
        ),
    ] = None


class NamedCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another cluster, with a name for people."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.clusterName) || self.connection.type == 'SyncTarget'",
            "the cluster has no name for status and events: write clusterName with a name of your choice",
        ),
        ValidationRule(
            "!has(self.clusterName) || !has(self.connection.selector)",
            "a selector can select several clusters, and each has the name of its SyncTarget: remove clusterName",
            ".clusterName",
        ),
    )

    cluster_name: Annotated[
        ObjectName | None,
        Meta(description="The name of the cluster in status and events. Default: the name of its SyncTarget."),
    ] = None
    connection: Annotated[ClusterConnection, Meta(description="The connection to the cluster.")]


class WrittenCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another cluster that this sync has written to."""

    name: Annotated[str, Meta(max_length=253, description="The name of the cluster in the spec, now or earlier.")]
    connection: Annotated[ClusterConnection, Meta(description="The connection to the cluster.")]


OWN_NAMES = ValidationRule(
    """
    !has(self.remoteClusters)
    || self.remoteClusters.all(one, !has(one.clusterName)
    || self.remoteClusters.exists_one(other, has(other.clusterName) && other.clusterName == one.clusterName))
    """,
    "two clusters have the same clusterName: write a different name for each",
    ".remoteClusters",
)
"""For each struct with a list of `remoteClusters`."""

AUTHORITIES = ValidationRule(
    f"""
    !has(self.remoteClusters)
    || self.remoteClusters.map(one, size(one.connection.?caData.orValue(''))).sum() <= {MAX_AUTHORITIES}
    """,
    f"the caData of all clusters have more than {MAX_AUTHORITIES} characters in total, and the status contains them"
    " too: move the certificates to ca.crt in the Secrets of the tokens, or split the sync",
    ".remoteClusters",
)
"""For the same structs: `status.clusters` contains all connections and must fit into the same object."""
