"""Where the files of a ConfigSync come from: a Git repository, or an object of the sync's namespace."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from syncline.api.connection import NameRef
from syncline.api.names import NAMESPACE
from syncline.api.rules import Rule, text

AuthType = Literal["Token", "Basic", "SSH", "GitHubApp"]

_HOST = r"([a-zA-Z0-9][-.a-zA-Z0-9]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
# As scp writes it: user@host:path.
_SCP = r"[a-zA-Z0-9_][-._a-zA-Z0-9]*@[a-zA-Z0-9][-.a-zA-Z0-9]*:[a-zA-Z0-9~_./][^\s:?#]*"
_OVER_SSH = "self.repo.matches('^(ssh:|[^/@]+@[^/]+:)')"

RepositoryUrl = Annotated[
    str,
    text(
        # That it carries no password is a rule of its own, with words of its own.
        rf"^((https?|ssh)://([^\s/?#@]*@)?{_HOST}/[^\s?#]+|{_SCP})$",
        "write the URL of a repository, such as https://git.example.com/team/config.git,"
        " ssh://git@git.example.com/team/config.git or git@git.example.com:team/config.git",
        max_length=1024,
    ),
]
RepositoryPath = Annotated[
    str,
    text(
        # Segments other than "..": RE2 has no look-around that would say it shorter.
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


class GitAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who the repository is asked as."""

    type: Annotated[
        AuthType,
        Meta(
            description="What the Secret holds. Token: `token`, and `username` where the host wants one, or"
            " `bearerToken`. Basic:"
            " `username` and `password`. SSH: `identity` (a private key) and `known_hosts`, and `password` where the"
            " key has one. GitHubApp: `appID`, `installationID` and `privateKey`, and `baseURL` of an own GitHub."
        ),
    ]
    secret_ref: Annotated[
        NameRef,
        Meta(
            description="The Secret, in the sync's namespace. With `tls.crt` and `tls.key` in it, a client certificate"
            " is shown too."
        ),
    ]


class Verification(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who must have signed the commit."""

    secret_ref: Annotated[
        NameRef,
        Meta(
            description="The Secret, in the sync's namespace, with the public keys that are trusted: each value is one"
            " or more SSH keys or an armoured PGP key."
        ),
    ]


class GitSource(Struct, frozen=True, kw_only=True, rename="camel"):
    """Files of a Git repository."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!self.repo.matches(r'^https?://[^/]*@') && !self.repo.matches(r'^ssh://[^/]*:[^/]*@')",
            "leave the credentials out of the URL: put them into a Secret and name it in auth.secretRef",
            ".repo",
        ),
        Rule(
            f"!{_OVER_SSH} || has(self.auth) && self.auth.type == 'SSH'",
            "a repository at ssh:// or git@host:path needs auth with type: SSH and a Secret with identity and"
            " known_hosts",
            ".auth",
        ),
        Rule(
            f"{_OVER_SSH} || !has(self.auth) || self.auth.type != 'SSH'",
            "auth with type: SSH is for a repository at ssh:// or git@host:path: write that URL, or type: Token, Basic"
            " or GitHubApp",
            ".auth.type",
        ),
        Rule(
            f"!{_OVER_SSH} || !has(self.caSecretRef) && !has(self.proxySecretRef)",
            "caSecretRef and proxySecretRef are for a repository at https://: leave them out",
        ),
    )

    repo: Annotated[
        RepositoryUrl,
        Meta(
            description="The URL of the repository: https or ssh, without credentials; or `git@host:path`, which is ssh"
            " with a path that begins at the home of the user. http only where the operator"
            " runs with `--allow-insecure-git`."
        ),
    ]
    path: Annotated[
        RepositoryPath,
        Meta(description="A file, a folder or a glob with `*`, `?` and `**`, relative to the root."),
    ] = "."
    revision: Annotated[
        Revision,
        Meta(
            description="A branch, a tag, a full ref, a range of versions such as `^1.4` or `>=1.2 <2` (the highest tag"
            " in it is taken), or a commit."
        ),
    ] = "main"
    auth: Annotated[GitAuth | None, Meta(description="Who the repository is asked as; default: nobody.")] = None
    ca_secret_ref: Annotated[
        NameRef | None,
        Meta(
            description="A Secret of the sync's namespace with the certificates that prove the server, as PEM under"
            " `ca.crt`; default: those that the operator's system trusts. With `tls.crt` and `tls.key` in it, a client"
            " certificate is shown too."
        ),
    ] = None
    proxy_secret_ref: Annotated[
        NameRef | None,
        Meta(
            description="A Secret of the sync's namespace with the proxy to go through: `address`, and `username` and"
            " `password` where it wants them."
        ),
    ] = None
    verify: Annotated[
        Verification | None,
        Meta(description="Take only commits with a good signature; default: any."),
    ] = None
    submodules: Annotated[
        bool,
        Meta(
            description="Read submodules too: of the same server with the same credential, of others with none. Else a"
            " path that has one is refused."
        ),
    ] = False


class Source(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where files come from: exactly one of `git`, `configMapRef` and `secretRef`."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.git), has(self.configMapRef), has(self.secretRef)].exists_one(given, given)",
            "write exactly one of git, configMapRef and secretRef; use sources for several",
        ),
    )

    git: Annotated[GitSource | None, Meta(description="Files of a Git repository.")] = None
    config_map_ref: Annotated[
        NameRef | None, Meta(description="A ConfigMap of the sync's namespace; each key is a file.")
    ] = None
    secret_ref: Annotated[NameRef | None, Meta(description="A Secret of the sync's namespace; each key is a file.")] = (
        None
    )


class NamedSource(Source, frozen=True, kw_only=True, rename="camel"):
    """One of several sources; its files are in a folder of its name."""

    name: Annotated[SourceName, Meta(description="The folder that the files are in, beside those of the others.")]
