"""How another cluster is reached; shared by the kinds that write to one."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from syncline.api.common import LabelSelector
from syncline.api.content import DataKey
from syncline.api.names import NamespaceName, ObjectName
from syncline.api.rules import Rule, text

MAX_AUTHORITIES = 262144

ConnectionType = Literal["KubeconfigSecret", "ServiceAccountToken", "SyncTarget"]

Server = Annotated[
    str,
    text(
        r"^https://[^\s/?#@]+(/[^\s?#]*)?$",
        "write the address of an API server, such as https://api.example.com:6443: https,"
        " and no credentials, query or fragment",
        max_length=2048,
    ),
]
CertificateAuthority = Annotated[
    str,
    text(
        r"^[a-zA-Z0-9+/=\s]+$",
        "write certificates as PEM in base64, as certificate-authority-data of a kubeconfig",
        max_length=32768,
    ),
]


class SecretKeyRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A key of a Secret of the same namespace."""

    name: Annotated[ObjectName, Meta(description="The name of the Secret.")]
    key: Annotated[DataKey | None, Meta(description="The key; default: the first well-known one that is there.")] = None


class NameRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object by its name."""

    name: Annotated[ObjectName, Meta(description="The name of the object.")]


class ClusterConnection(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A cluster, and the credential to act with there."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            """
            self.type != 'KubeconfigSecret'
            || has(self.kubeconfigSecretRef)
            && !has(self.serviceAccountTokenRef) && !has(self.server) && !has(self.caData)
            && !has(self.syncTargetRef) && !has(self.selector) && !has(self.syncTargetNamespace)
            """,
            "KubeconfigSecret needs kubeconfigSecretRef and takes nothing else: the kubeconfig says the rest",
        ),
        Rule(
            """
            self.type != 'ServiceAccountToken'
            || has(self.serviceAccountTokenRef) && has(self.server)
            && !has(self.kubeconfigSecretRef)
            && !has(self.syncTargetRef) && !has(self.selector) && !has(self.syncTargetNamespace)
            """,
            "ServiceAccountToken needs serviceAccountTokenRef and server, and takes nothing else but caData",
        ),
        Rule(
            """
            self.type != 'SyncTarget'
            || has(self.syncTargetRef) != has(self.selector)
            && !has(self.kubeconfigSecretRef) && !has(self.serviceAccountTokenRef)
            && !has(self.server) && !has(self.caData)
            """,
            "SyncTarget needs exactly one of syncTargetRef and selector, and takes nothing else but"
            " syncTargetNamespace: the SyncTarget says the rest",
        ),
        Rule(
            """
            !has(self.selector)
            || self.selector.?matchLabels.orValue({}).size() > 0
            || self.selector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would select every cluster: write the labels of those that you mean",
            ".selector",
        ),
    )

    type: Annotated[ConnectionType, Meta(description="What the cluster is known by.")]
    kubeconfig_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="For KubeconfigSecret: the Secret with the kubeconfig, in the namespace of this object."
            " Where no key is named: `value`, `value.yaml`, `kubeconfig` or `config`."
        ),
    ] = None
    service_account_token_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="For ServiceAccountToken: the Secret with the token, in the namespace of this object."
            " Where no key is named: `token`."
        ),
    ] = None
    server: Annotated[Server | None, Meta(description="For ServiceAccountToken: the address of the API server.")] = None
    ca_data: Annotated[
        CertificateAuthority | None,
        Meta(
            description="For ServiceAccountToken: the certificates that prove the server, as PEM in base64;"
            " default: `ca.crt` of the same Secret, else those that the operator's system trusts."
        ),
    ] = None
    sync_target_ref: Annotated[NameRef | None, Meta(description="For SyncTarget: the one SyncTarget.")] = None
    selector: Annotated[
        LabelSelector | None, Meta(description="For SyncTarget: all SyncTargets of the namespace with these labels.")
    ] = None
    sync_target_namespace: Annotated[
        NamespaceName | None,
        Meta(
            description="For SyncTarget: the namespace that its SyncTargets are in; default: that of this object."
            " Of another, those can be used whose `allowedNamespaces` say so. It is never guessed: whoever could put a"
            " SyncTarget where others look for theirs would be sent what is theirs."
        ),
    ] = None


class NamedCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another cluster, under the name that people know it by."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.clusterName) || self.connection.type == 'SyncTarget'",
            "give the cluster a name of your choice, for status and events: write clusterName",
        ),
        Rule(
            "!has(self.clusterName) || !has(self.connection.selector)",
            "a selector may mean several clusters, each known by the name of its SyncTarget: leave clusterName out",
            ".clusterName",
        ),
    )

    cluster_name: Annotated[
        ObjectName | None,
        Meta(description="What the cluster is called in status and events; default: the name of its SyncTarget."),
    ] = None
    connection: Annotated[ClusterConnection, Meta(description="How the cluster is reached.")]


class WrittenCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another cluster with copies of this sync."""

    name: Annotated[str, Meta(max_length=253, description="What the spec calls the cluster, or called it.")]
    connection: Annotated[ClusterConnection, Meta(description="How the cluster is reached.")]


OWN_NAMES = Rule(
    """
    !has(self.remoteClusters)
    || self.remoteClusters.all(one, !has(one.clusterName)
    || self.remoteClusters.exists_one(other, has(other.clusterName) && other.clusterName == one.clusterName))
    """,
    "two clusters have the same clusterName: give each a name of its own",
    ".remoteClusters",
)
"""For what has a list of `remoteClusters`."""

AUTHORITIES = Rule(
    f"""
    !has(self.remoteClusters)
    || self.remoteClusters.map(one, size(one.connection.?caData.orValue(''))).sum() <= {MAX_AUTHORITIES}
    """,
    f"the caData of all clusters have more than {MAX_AUTHORITIES} characters in all, and the status repeats them:"
    " put certificates as ca.crt into the Secrets of the tokens, or split the sync",
    ".remoteClusters",
)
"""Likewise: `status.clusters` has all connections, and must fit into the same object."""
