"""The repository of an IgnitionSync, and how a change of it is noticed."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from syncline.api.connection import NameRef
from syncline.api.content import DataKey
from syncline.api.duration import Duration
from syncline.api.names import ObjectName
from syncline.api.rules import ValidationRule, text
from syncline.api.source import NO_CREDENTIALS, OVER_SSH, RepositoryUrl, Revision

RefPattern = Annotated[
    str,
    text(
        r"^[^-\s:\\\[\]\x00-\x1f\x7f][^\s:\\\[\]\x00-\x1f\x7f]*$",
        'write a branch, a tag or a commit, or a glob with "*" and "?", such as release/*',
        max_length=256,
    ),
]


class SecretKeySelector(Struct, frozen=True, kw_only=True, rename="camel"):
    """A key of a Secret in the namespace of the sync."""

    name: Annotated[ObjectName, Meta(description="The name of the Secret.")]
    key: Annotated[DataKey, Meta(description="The key in the Secret.")]


class SecretKeySource(Struct, frozen=True, kw_only=True, rename="camel"):
    """A value in a Secret."""

    secret_ref: Annotated[SecretKeySelector, Meta(description="The key of the Secret with the value.")]


class SSHKeyAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """A private key for ssh."""

    secret_ref: Annotated[SecretKeySelector, Meta(description="The key of the Secret with the private key.")]
    known_hosts: Annotated[
        SecretKeySource | None,
        Meta(
            description="The public keys of the server, in the format of `known_hosts`. Default: the key `known_hosts`"
            " of the same Secret. The operator connects to no server whose key is unknown."
        ),
    ] = None


class GitHubAppAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """A GitHub App."""

    app_id: Annotated[int, Meta(ge=1, description="The id of the App.")]
    installation_id: Annotated[int, Meta(ge=1, description="The id of its installation.")]
    private_key_secret_ref: Annotated[
        SecretKeySelector, Meta(description="The key of the Secret with the private key of the App, as PEM.")
    ]
    api_base_url: Annotated[
        Annotated[
            str,
            text(
                r"^https://[^\s/?#@]+(/[^\s?#]*)?$",
                "write the address of the API, such as https://github.example.com/api/v3",
                max_length=1024,
            ),
        ]
        | None,
        Meta(
            description="The address of the API of a GitHub Enterprise Server. Default: `https://api.github.com` for"
            " github.com, else `/api/v3` of the host of the repository."
        ),
    ] = field(default=None, name="apiBaseURL")


class TokenAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """A token for https."""

    secret_ref: Annotated[SecretKeySelector, Meta(description="The key of the Secret with the token.")]


class IgnitionGitAuth(Struct, frozen=True, kw_only=True, rename="camel"):
    """The credential for the repository: at most one."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "[has(self.sshKey), has(self.githubApp), has(self.token)].filter(given, given).size() <= 1",
            "a repository has one credential: write at most one of sshKey, githubApp and token",
        ),
    )

    ssh_key: Annotated[SSHKeyAuth | None, Meta(description="A private key, for a repository at ssh.")] = None
    github_app: Annotated[GitHubAppAuth | None, Meta(description="A GitHub App, for a repository at https.")] = None
    token: Annotated[TokenAuth | None, Meta(description="A token, for a repository at https.")] = None


_SSH_KEY = "has(self.auth) && has(self.auth.sshKey)"


class IgnitionGit(Struct, frozen=True, kw_only=True, rename="camel"):
    """The repository with the files, and the ref that gateways follow."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        NO_CREDENTIALS,
        ValidationRule(
            f"!{OVER_SSH} || {_SSH_KEY}",
            "a repository at ssh:// or git@host:path needs a private key: write auth.sshKey",
            ".auth",
        ),
        ValidationRule(
            f"{OVER_SSH} || !({_SSH_KEY})",
            "auth.sshKey needs a repository at ssh:// or git@host:path: write such a URL, or write auth.token or"
            " auth.githubApp",
            ".auth",
        ),
        ValidationRule(
            f"!{OVER_SSH} || !has(self.caSecretRef)",
            "caSecretRef needs a repository at https://: remove it",
            ".caSecretRef",
        ),
    )

    repo: Annotated[
        RepositoryUrl,
        Meta(
            description="The URL of the repository: https or ssh, without credentials. http is allowed only if the"
            " operator runs with `--allow-insecure-git`."
        ),
    ]
    ref: Annotated[
        Revision,
        Meta(description="A branch, a tag, a full ref, a range of versions such as `^1.4`, or a commit."),
    ]
    auth: Annotated[
        IgnitionGitAuth | None, Meta(description="The credential for the repository. Default: anonymous.")
    ] = None
    ca_secret_ref: Annotated[
        NameRef | None,
        Meta(
            description="The Secret with the certificate authorities of the server, as PEM in `ca.crt`, in the"
            " namespace of the sync. Default: the authorities that the operator's system trusts."
        ),
    ] = None


class RefWebhook(Struct, frozen=True, kw_only=True, rename="camel"):
    """Webhooks of Git hosts and delivery tools, at `/webhook/{namespace}/{name}` of the operator."""

    enabled: Annotated[bool, Meta(description="If false, webhooks for this sync are refused.")] = True
    port: Annotated[
        int,
        Meta(
            ge=1,
            le=65535,
            description="Accepted from earlier configurations. The operator listens on the address of its flag"
            " `--webhook-bind`; another value is reported as unsupported.",
        ),
    ] = 8443
    secret_ref: Annotated[
        SecretKeySelector | None,
        Meta(
            description="The key of the Secret that webhooks are signed with. Default: the secret of the operator, if"
            " it has one."
        ),
    ] = None
    allowed_refs: Annotated[
        list[RefPattern],
        Meta(
            max_length=50,
            description="The refs that a webhook can request: names, or globs with `*` and `?`. Default: `git.ref`, and"
            " all tags.",
        ),
    ] = field(default_factory=list)


class RefPolling(Struct, frozen=True, kw_only=True, rename="camel"):
    """The regular check of the repository."""

    RULES: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            "duration(self.interval) >= duration('1s') && duration(self.interval) <= duration('24h')",
            "write an interval from 1s to 24h, such as 60s; enabled: false stops the checks",
            ".interval",
        ),
    )

    enabled: Annotated[
        bool,
        Meta(description="If false, only webhooks and `syncline reconcile` make the operator check the repository."),
    ] = True
    interval: Annotated[
        Duration,
        Meta(
            description="The time between two checks, at least `--min-interval` of the operator (default 10s). "
            "All syncs of the repository share one check."
        ),
    ] = "60s"
