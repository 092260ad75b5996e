"""TenantPolicy: what the syncs of some namespaces may do. Cluster-scoped: written by administrators, not by tenants."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, LabelSelector, ObjectMeta
from syncline.api.names import ObjectName
from syncline.api.rules import Rule, text
from syncline.api.status import Conditions

KIND = "TenantPolicy"
PLURAL = "tenantpolicies"
OWN_NAMESPACE = "{namespace}"
"""Stands in a pattern for the namespace of the sync."""

_HOST = r"([a-z0-9*][-.a-z0-9*]*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
_PATH = r"(/([^\s?#/{}\\%.][^\s?#/{}\\%]*|\.[^\s?#/{}\\%.][^\s?#/{}\\%]*|\{namespace\}[^\s?#/{}\\%]*))"

AccountPattern = Annotated[
    str,
    text(
        r"^[-.a-z0-9*?]+$",
        'write names or globs of service accounts: lowercase letters, digits, "-", ".", "*" and "?", such as deploy-*',
        max_length=253,
    ),
]
RepositoryPattern = Annotated[
    str,
    text(
        rf"^((https?|ssh)://([a-zA-Z0-9_][-._a-zA-Z0-9]*@)?{_HOST}{_PATH}+"
        rf"|[a-zA-Z0-9_][-._a-zA-Z0-9]*@[a-z0-9*][-.a-z0-9*]*:[^\s?#/{{}}\\%.][^\s?#{{}}\\%]*)$",
        "write URLs of repositories in lowercase up to the path, such as https://git.example.com/team-a/**:"
        ' "*" stands for a part of a host or a folder, "**" for any number of folders, {namespace} for the namespace of'
        " the sync",
        max_length=512,
    ),
]
SyncTargetPattern = Annotated[
    str,
    text(
        r"^([-a-z0-9*?]+|\{namespace\})/[-.a-z0-9*?]+$",
        "write the namespace and the name of SyncTargets, such as platform/prod-*; {namespace} is that of the sync",
        max_length=317,
    ),
]
ServerPattern = Annotated[
    str,
    text(
        rf"^https://{_HOST}{_PATH}*$",
        "write addresses of API servers in lowercase, such as https://*.example.com:6443: https, without a slash at the"
        " end",
        max_length=512,
    ),
]
DestinationPattern = Annotated[
    str,
    text(
        r"^([-a-z0-9*?]|\{namespace\})+$",
        'write names or globs of namespaces: lowercase letters, digits, "-", "*" and "?", such as team-a-*;'
        " {namespace} is that of the sync",
        max_length=63,
    ),
]
KindPattern = Annotated[
    str,
    text(
        r"^[A-Z*?][a-zA-Z0-9*?]*(\.[-.a-z0-9*?]+)?$",
        "write kinds with their groups, such as ConfigMap, Deployment.apps or *.networking.k8s.io",
        max_length=317,
    ),
]
KeyServicePattern = Annotated[
    str,
    text(
        rf"^(aws-kms|gcp-kms|azure-kv|vault|https://{_HOST}{_PATH}*)$",
        "write aws-kms, gcp-kms, azure-kv or vault, or addresses of Azure Key Vaults and Vault servers, such as"
        " https://vault.example.com:8200",
        max_length=512,
    ),
]

Accounts = Annotated[list[AccountPattern], Meta(max_length=50)]
Repositories = Annotated[list[RepositoryPattern], Meta(max_length=100)]
Destinations = Annotated[list[DestinationPattern], Meta(max_length=100)]
Kinds = Annotated[list[KindPattern], Meta(max_length=100)]
KeyServices = Annotated[list[KeyServicePattern], Meta(max_length=100)]


class AccountRule(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Whose rights syncs act with."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.default) || has(self.allowed) || self.required",
            "this asks for nothing: write required: true, default or allowed, or leave serviceAccount out",
        ),
    )

    required: Annotated[
        bool, Meta(description="A sync must act as an account of its namespace: the one it names, or the default.")
    ] = False
    default: Annotated[
        ObjectName | None,
        Meta(
            description="The account of a sync that names none. Where `allowed` is not written, it is the only one that"
            " a sync may name."
        ),
    ] = None
    allowed: Annotated[
        Accounts | None,
        Meta(
            description="The accounts that a sync may act as, with `*` and `?`, and it must act as one; the default is"
            " always allowed. Absent: any, or only the default where there is one.",
        ),
    ] = None


class ClusterRule(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Which other clusters may be reached; what is listed in neither field is not."""

    sync_targets: Annotated[
        list[SyncTargetPattern],
        Meta(max_length=100, description="The SyncTargets that a sync may use, as `namespace/name`, with `*` and `?`."),
    ] = field(default_factory=list)
    servers: Annotated[
        list[ServerPattern],
        Meta(
            max_length=100,
            description="The addresses that a kubeconfig or a token of the namespace may lead to, of a sync or of a"
            " SyncTarget.",
        ),
    ] = field(default_factory=list)


class QuotaRule(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """How much there may be in each namespace; nobody uses up what other namespaces have."""

    syncs: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        Meta(description="Syncs of all kinds. Of more, the oldest are carried out."),
    ] = None
    targets: Annotated[
        Annotated[int, Meta(ge=0, le=10_000_000)] | None,
        Meta(description="Objects that all syncs together write, in all clusters. A sync that would exceed it waits."),
    ] = None
    build_seconds_per_hour: Annotated[
        Annotated[int, Meta(ge=0, le=3600)] | None,
        Meta(
            description="Seconds within an hour in which ConfigSyncs build and validate. Then they wait, and what was"
            " applied stays in force. Time that several builds run at once is split between them."
        ),
    ] = None
    mirror_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=1 << 50)] | None,
        Meta(description="Bytes on the operator's disk of what ConfigSyncs have fetched from repositories."),
    ] = None


class TenantPolicySpec(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Which namespaces, and what their syncs may do. What is absent is not limited; an empty list allows nothing."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            """
            self.namespaceSelector.?matchLabels.orValue({}).size() > 0
            || self.namespaceSelector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would govern every namespace, also those of the platform: write the labels of the"
            " tenant's, or matchExpressions with kubernetes.io/metadata.name and Exists if you mean all",
            ".namespaceSelector",
        ),
    )

    namespace_selector: Annotated[
        LabelSelector, Meta(description="The namespaces whose syncs and SyncTargets this policy governs.")
    ]
    service_account: Annotated[AccountRule | None, Meta(description="Whose rights syncs act with.")] = None
    repositories: Annotated[
        Repositories | None,
        Meta(
            description="The repositories that a ConfigSync may read: `*` stands for a part of a host or a folder, `**`"
            " for any number of folders, `{namespace}` for the namespace of the sync. With this list, neither"
            " `proxySecretRef` nor `submodules` may be used: both lead elsewhere.",
        ),
    ] = None
    clusters: Annotated[
        ClusterRule | None,
        Meta(description="Which other clusters may be reached. `{}`: none. This cluster is always allowed."),
    ] = None
    destination_namespaces: Annotated[
        Destinations | None,
        Meta(
            description="The namespaces that may be written to, in any cluster: names, or globs with `*` and `?`;"
            " `{namespace}` is that of the sync. With this list, objects without a namespace may be written only where"
            " `kinds` has them.",
        ),
    ] = None
    kinds: Annotated[
        Kinds | None,
        Meta(
            description="The kinds that may be written, such as `ConfigMap`, `Deployment.apps` or `*.apps`.",
        ),
    ] = None
    key_services: Annotated[
        KeyServices | None,
        Meta(
            description="The key services that open encrypted files: `aws-kms`, `gcp-kms`, `azure-kv`, `vault`, or the"
            " addresses of Azure Key Vaults and Vault servers. age and PGP keys need none."
        ),
    ] = None
    quotas: Annotated[QuotaRule | None, Meta(description="How much there may be, in each namespace by itself.")] = None


class TenantPolicyStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is so, as of `observedGeneration`."""

    observed_generation: Annotated[int, Meta(ge=0, description="The generation of the spec that this is about.")] = 0
    conditions: Conditions = field(default_factory=list)
    namespaces: Annotated[int, Meta(ge=0, description="Namespaces that the selector matches.")] = 0
    syncs: Annotated[int, Meta(ge=0, description="Syncs in these namespaces, of all kinds.")] = 0


class TenantPolicy(Struct, kw_only=True, rename="camel"):
    """Limits what the syncs of some namespaces may do. Of several that match, all hold."""

    metadata: ObjectMeta
    spec: TenantPolicySpec
    status: TenantPolicyStatus = field(default_factory=TenantPolicyStatus)
    api_version: str = API_VERSION
    kind: str = KIND
