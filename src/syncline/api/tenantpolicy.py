"""TenantPolicy: limits for the syncs of some namespaces. It is cluster-scoped: administrators write it, not tenants."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from syncline.api.common import API_VERSION, LabelSelector, ObjectMeta
from syncline.api.names import ObjectName
from syncline.api.rules import ValidationRule, text
from syncline.api.status import Conditions

KIND = "TenantPolicy"
PLURAL = "tenantpolicies"
OWN_NAMESPACE = "{namespace}"
"""The placeholder for the namespace of the sync in a pattern."""

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
        ' "*" matches a part of a host or a folder, "**" any number of folders, {namespace} the namespace of'
        " the sync",
        max_length=512,
    ),
]
SyncTargetPattern = Annotated[
    str,
    text(
        r"^([-a-z0-9*?]+|\{namespace\})/[-.a-z0-9*?]+$",
        "write the namespace and the name of SyncTargets, such as platform/prod-*; {namespace} is the namespace of"
        " the sync",
        max_length=317,
    ),
]
ServerPattern = Annotated[
    str,
    text(
        rf"^https://{_HOST}{_PATH}*$",
        "write addresses of API servers in lowercase, such as https://*.example.com:6443: with https, without a slash"
        " at the end",
        max_length=512,
    ),
]
DestinationPattern = Annotated[
    str,
    text(
        r"^([-a-z0-9*?]|\{namespace\})+$",
        'write names or globs of namespaces: lowercase letters, digits, "-", "*" and "?", such as team-a-*;'
        " {namespace} is the namespace of the sync",
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
    """The service accounts that syncs act as."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "has(self.default) || has(self.allowed) || self.required",
            "serviceAccount sets no limit: write required: true, default or allowed, or remove serviceAccount",
        ),
    )

    required: Annotated[
        bool,
        Meta(
            description="If true, a sync must act as a service account of its namespace: the account in its spec, or"
            " the default."
        ),
    ] = False
    default: Annotated[
        ObjectName | None,
        Meta(
            description="The service account of a sync that names none. Without `allowed`, it is also the only account"
            " that a sync can name."
        ),
    ] = None
    allowed: Annotated[
        Accounts | None,
        Meta(
            description="The service accounts that a sync can act as, with `*` and `?`. A sync must act as one of"
            " them. The default is always allowed. Absent: only the default, or all accounts if there is no default.",
        ),
    ] = None


class ClusterRule(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """The other clusters that syncs can use. A cluster that is in neither list is refused."""

    sync_targets: Annotated[
        list[SyncTargetPattern],
        Meta(max_length=100, description="The SyncTargets that a sync can use, as `namespace/name`, with `*` and `?`."),
    ] = field(default_factory=list)
    servers: Annotated[
        list[ServerPattern],
        Meta(
            max_length=100,
            description="The API servers that syncs and SyncTargets of the namespace can connect to with a kubeconfig"
            " or a token.",
        ),
    ] = field(default_factory=list)


class QuotaRule(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Quotas for each namespace. Each namespace has its own quota."""

    syncs: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        Meta(
            description="The maximum number of syncs of all kinds. If there are more, the operator reconciles only the"
            " oldest."
        ),
    ] = None
    targets: Annotated[
        Annotated[int, Meta(ge=0, le=10_000_000)] | None,
        Meta(
            description="The maximum number of objects that all syncs together write, in all clusters. A sync that"
            " would exceed it waits."
        ),
    ] = None
    build_seconds_per_hour: Annotated[
        Annotated[int, Meta(ge=0, le=3600)] | None,
        Meta(
            description="The maximum number of seconds in an hour in which ConfigSyncs build and validate. After that"
            " they wait, and the applied objects stay. Builds that run at the same time share the time."
        ),
    ] = None
    mirror_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=1 << 50)] | None,
        Meta(description="The maximum number of bytes on the operator's disk for the repositories of ConfigSyncs."),
    ] = None


class TenantPolicySpec(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The namespaces, and the limits for their syncs. An absent field sets no limit. An empty list allows nothing."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            """
            self.namespaceSelector.?matchLabels.orValue({}).size() > 0
            || self.namespaceSelector.?matchExpressions.orValue([]).size() > 0
            """,
            "an empty selector would select every namespace, including those of the platform: write the labels of the"
            " tenant's namespaces, or matchExpressions with kubernetes.io/metadata.name and Exists for all namespaces",
            ".namespaceSelector",
        ),
    )

    namespace_selector: Annotated[
        LabelSelector, Meta(description="Selects the namespaces whose syncs and SyncTargets this policy limits.")
    ]
    service_account: Annotated[AccountRule | None, Meta(description="The service accounts that syncs can act as.")] = (
        None
    )
    repositories: Annotated[
        Repositories | None,
        Meta(
            description="The repositories that a ConfigSync can read. `*` matches a part of a host or a folder, `**`"
            " any number of folders, and `{namespace}` the namespace of the sync. With this list, `proxySecretRef`"
            " and `submodules` are refused, because they can lead to other servers.",
        ),
    ] = None
    clusters: Annotated[
        ClusterRule | None,
        Meta(description="The other clusters that syncs can use. `{}` allows none. This cluster is always allowed."),
    ] = None
    destination_namespaces: Annotated[
        Destinations | None,
        Meta(
            description="The namespaces that syncs can write to, in all clusters: names, or globs with `*` and `?`."
            " `{namespace}` is the namespace of the sync. With this list, syncs can write a cluster-scoped kind only"
            " if it is in `kinds`.",
        ),
    ] = None
    kinds: Annotated[
        Kinds | None,
        Meta(
            description="The kinds that syncs can write, such as `ConfigMap`, `Deployment.apps` or `*.apps`.",
        ),
    ] = None
    key_services: Annotated[
        KeyServices | None,
        Meta(
            description="The key services that syncs can use to decrypt files: `aws-kms`, `gcp-kms`, `azure-kv`,"
            " `vault`, or the addresses of Azure Key Vaults and Vault servers. age and PGP keys need no key service."
        ),
    ] = None
    quotas: Annotated[QuotaRule | None, Meta(description="Quotas for each namespace.")] = None


class TenantPolicyStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The observed state of the policy."""

    observed_generation: Annotated[
        int, Meta(ge=0, description="The generation of the spec that this status refers to.")
    ] = 0
    conditions: Conditions = field(default_factory=list)
    namespaces: Annotated[int, Meta(ge=0, description="The number of namespaces that the selector matches.")] = 0
    syncs: Annotated[int, Meta(ge=0, description="The number of syncs of all kinds in these namespaces.")] = 0


class TenantPolicy(Struct, kw_only=True, rename="camel"):
    """Limits the syncs of some namespaces. If several policies select a namespace, all of them apply."""

    metadata: ObjectMeta
    spec: TenantPolicySpec
    status: TenantPolicyStatus = field(default_factory=TenantPolicyStatus)
    api_version: str = API_VERSION
    kind: str = KIND
