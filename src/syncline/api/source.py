"""The source of a ConfigSync's files: a Git repository, or a ConfigMap or Secret in the namespace of the sync."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from syncline.api.connection import NameRef
from syncline.api.names import NAMESPACE
from syncline.api.rules import ValidationRule, text

AuthType = Literal["Token", "Basic", "SSH", "GitHubApp"]

_HOST = r"([a-zA-Z0-9][-.a-zA-Z0-9]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
# The form of scp: user@host:path.
_SCP = r"[a-zA-Z0-9_][-._a-zA-Z0-9]*@[a-zA-Z0-9][-.a-zA-Z0-9]*:[a-zA-Z0-9~_./][^\s:?#]*"
OVER_SSH = "self.repo.matches('^(ssh:|[^/@]+@[^/]+:)')"
"""Whether the repository of a struct with `repo` is read by ssh, as CEL."""

RepositoryUrl = Annotated[
    str,
    text(
        # A separate rule with its own message refuses passwords in the URL.
        rf"^((https?|ssh)://([^\s/?#@]*@)?{_HOST}/[^\s?#]+|{_SCP})$",
        "write the URL of a repository, such as https://git.example.com/team/config.git,"
        " ssh://git@git.example.com/team/config.git or git@git.example.com:team/config.git",
        max_length=1024,
    ),
]
RepositoryPath = Annotated[
    str,
    text(
        # All segments except "..": RE2 has no look-around for a shorter pattern.
        r"^([^/.\x00-\x1f][^/\x00-\x1f]*|\.([^/.\x00-\x1f][^/\x00-\x1f]*)?|\.\.[^/\x00-\x1f]+)"
        r"(/([^/.\x00-\x1f][^/\x00-\x1f]*|\.([^/.\x00-\x1f][^/\x00-\x1f]*)?|\.\.[^/\x00-\x1f]+))*/?$",
        'write a path within the repository, such as apps/web or apps/*.yaml: relative to its root, without ".."',
        max_length=512,
    ),
]
Revision = Annotated[
    str,
    text(
        r"^[^-\s:\\?\[\]\x00-\x1f\x7f][^:\\?\[\]\x00-\x1f\x7f]*$",
        "write a branch, a tag, a full ref such as refs/tags/v1, a range of versions such as ^1.4, or a commit",
        max_length=256,
    ),
]
SourceName = Annotated[
    str,
    text(
        NAMESPACE,
        'write the name of a folder: lowercase letters, digits and "-", such as base',
        max_length=63,
    ),
]


NO_CREDENTIALS = ValidationRule(
    "!self.repo.matches(r'^https?://[^/]*@') && !self.repo.matches(r'^ssh://[^/]*:[^/]*@')",
    "the URL contains credentials: move them to a Secret, and write its name in auth.secretRef",
    ".repo",
)
"""For each struct with `repo`."""


class GitAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """The credential for a repository."""

    type: Annotated[
        AuthType,
        Meta(
            description="The type of the credential, which decides the keys of the Secret. Token: `token`, and"
            " `username` if the host needs it, or `bearerToken`. Basic: `username` and `password`. SSH: `identity` (a"
            " private key) and `known_hosts`, and `password` if the key has one. GitHubApp: `appID`, `installationID`"
            " and `privateKey`, and `baseURL` for GitHub Enterprise Server."
        ),
    ]
    secret_ref: Annotated[
        NameRef,
        Meta(
            description="The Secret with the credential, in the namespace of the sync. If it has `tls.crt` and"
            " `tls.key`, the operator also presents this client certificate."
        ),
    ]


class Verification(Struct, frozen=True, kw_only=True, rename="camel"):
    """The keys that can sign a commit."""

    secret_ref: Annotated[
        NameRef,
        Meta(
            description="The Secret with the trusted public keys, in the namespace of the sync. Each value contains"
            " one or more SSH keys, or an armoured PGP key."
        ),
    ]


class GitSource(Struct, frozen=True, kw_only=True, rename="camel"):
    """Files of a Git repository."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        NO_CREDENTIALS,
        ValidationRule(
            f"!{OVER_SSH} || has(self.auth) && self.auth.type == 'SSH'",
            "a repository at ssh:// or git@host:path needs auth with type: SSH and a Secret with identity and"
            " known_hosts",
            ".auth",
        ),
        ValidationRule(
            f"{OVER_SSH} || !has(self.auth) || self.auth.type != 'SSH'",
            "auth with type: SSH needs a repository at ssh:// or git@host:path: write such a URL, or write type:"
            " Token, Basic or GitHubApp",
            ".auth.type",
        ),
        ValidationRule(
            f"!{OVER_SSH} || !has(self.caSecretRef) && !has(self.proxySecretRef)",
            "caSecretRef and proxySecretRef need a repository at https://: remove them",
        ),
    )

    repo: Annotated[
        RepositoryUrl,
        Meta(
            description="The URL of the repository: https or ssh, without credentials. `git@host:path` means ssh with"
            " a path relative to the home folder of the user. http is allowed only if the operator runs with"
            " `--allow-insecure-git`."
        ),
    ]
    path: Annotated[
        RepositoryPath,
        Meta(description="A file, a folder or a glob with `*`, `?` and `**`, relative to the root of the repository."),
    ] = "."
    revision: Annotated[
        Revision,
        Meta(
            description="A branch, a tag, a full ref, a range of versions such as `^1.4` or `>=1.2 <2`, or a commit. A"
            " range selects the highest tag in it."
        ),
    ] = "main"
    auth: Annotated[GitAuth | None, Meta(description="The credential for the repository. Default: anonymous.")] = None
    ca_secret_ref: Annotated[
        NameRef | None,
        Meta(
            description="The Secret with the certificate authorities of the server, as PEM in `ca.crt`, in the"
            " namespace of the sync. Default: the authorities that the operator's system trusts. If it has `tls.crt`"
            " and `tls.key`, the operator also presents this client certificate."
        ),
    ] = None
    proxy_secret_ref: Annotated[
        NameRef | None,
        Meta(
            description="The Secret with the proxy for the connection, in the namespace of the sync: `address`, and"
            " `username` and `password` if the proxy needs them."
        ),
    ] = None
    verify: Annotated[
        Verification | None,
        Meta(description="Accept only commits with a valid signature. Default: all commits."),
    ] = None
    submodules: Annotated[
        bool,
        Meta(
            description="Read submodules too. Submodules on the same server are read with the same credential, others"
            " without a credential. If false, a path that contains a submodule is refused."
        ),
    ] = False


class Source(Struct, frozen=True, kw_only=True, rename="camel"):
    """The source of the files: exactly one of `git`, `configMapRef` and `secretRef`."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "[has(self.git), has(self.configMapRef), has(self.secretRef)].exists_one(given, given)",
            "a source needs exactly one of git, configMapRef and secretRef: write one, or write sources for several",
        ),
    )

    git: Annotated[GitSource | None, Meta(description="A Git repository with the files.")] = None
    config_map_ref: Annotated[
        NameRef | None, Meta(description="A ConfigMap in the namespace of the sync. Each key is a file.")
    ] = None
    secret_ref: Annotated[
        NameRef | None, Meta(description="A Secret in the namespace of the sync. Each key is a file.")
    ] = None


class NamedSource(Source, frozen=True, kw_only=True, rename="camel"):
    """One of several sources. Its files are in a folder with its name."""

    name: Annotated[SourceName, Meta(description="The name of the source, and of the folder with its files.")]
