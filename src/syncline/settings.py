"""The settings of the operator: the flags of `syncline run`, and the objects that depend on them."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from syncline.controllers.tenancy import Policies, Tenancy
from syncline.core.webhook_configuration import AdmissionUrlError, check_url
from syncline.engine.own_rights import OwnRights
from syncline.engine.readiness import Waived
from syncline.git import Mirrors, default_folder
from syncline.receiver import Network, read_networks
from syncline.render.build_pool import BuildPool
from syncline.render.key_services import KeyServices
from syncline.telemetry.bind import OFF


class SettingsError(Exception):
    """A flag is not valid. The message names the flag and the cause."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the operator. Each field is a flag of `syncline run`."""

    namespace: str = "syncline-system"
    leader_elect: bool = False
    metrics_bind: str = "0"
    health_bind: str = "0"
    metrics_cert_dir: str = ""
    allow_insecure_metrics: bool = False
    allow_unchecked_authors: bool = False
    watch_namespaces: Sequence[str] = ()
    min_interval: float = 10.0
    default_service_account: str = ""
    require_service_account: bool = False
    protected_namespaces: Sequence[str] = ()
    allow_kinds: Sequence[str] = ()
    allow_loopback: bool = False
    allow_insecure_git: bool = False
    allow_unconfined_builds: bool = False
    git_cache: str = ""
    webhook_bind: str = "0"
    webhook_secret_file: str = ""
    trusted_proxies: Sequence[str] = ()
    depot_bind: str = "0"
    depot_url: str = ""
    depot_cert_dir: str = ""
    admission_bind: str = "0"
    admission_url: str = ""
    admission_cert_dir: str = ""
    agent_image: str = ""

    def mirrors(self) -> Mirrors:
        """Return the mirrors of repositories."""
        return Mirrors(
            Path(self.git_cache) if self.git_cache else default_folder(),
            allow_insecure=self.allow_insecure_git,
            allow_loopback=self.allow_loopback,
            unconfined=self.allow_unconfined_builds,
        )

    def builder(self) -> BuildPool:
        """Return the pool that builds manifests."""
        services = KeyServices(allow_loopback=self.allow_loopback)
        return BuildPool(key_services=services, unconfined=self.allow_unconfined_builds)

    def waived(self) -> Waived:
        """Return the features that the operator runs without."""
        return Waived(confinement=self.allow_unconfined_builds, author_checks=self.allow_unchecked_authors)

    def tenancy(self, rights: OwnRights | None = None, policies: Policies | None = None) -> Tenancy:
        """Return the settings for tenants: from the flags, the operator's rights and the policies of the cluster."""
        return Tenancy(
            rights=rights,
            policies=policies,
            guarded=frozenset({self.namespace, *self.protected_namespaces}),
            default_account=self.default_service_account,
            require_account=self.require_service_account,
            min_interval=self.min_interval,
        )

    def webhook_secret(self) -> bytes | None:
        """Read the secret that authenticates push webhooks for all syncs. Raises `SettingsError`."""
        if not self.webhook_secret_file:
            return None
        try:
            secret = Path(self.webhook_secret_file).read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"--webhook-secret-file cannot be read: {error.strerror}") from None
        if not secret:
            raise SettingsError("--webhook-secret-file is empty, so anybody could sign: write a secret to the file")
        return secret

    def proxies(self) -> Sequence[Network]:
        """Read the trusted proxies of push webhooks. Raises `SettingsError`."""
        try:
            return read_networks(self.trusted_proxies)
        except ValueError as error:
            raise SettingsError(f"--trusted-proxies: {error}") from None

    def checked_depot_url(self) -> str:
        """Return the address of the depot for agents, without a trailing slash. Raises `SettingsError`."""
        if not self.depot_url:
            return ""
        if self.depot_bind == OFF:
            raise SettingsError("--depot-url needs --depot-bind: without it, no depot is served")
        try:
            parts = urlsplit(self.depot_url)
            valid = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid or parts.query or parts.fragment or parts.username is not None:
            raise SettingsError(f"--depot-url {self.depot_url}: write https://HOST or https://HOST:PORT")
        return self.depot_url.rstrip("/")

    def checked_admission_url(self) -> str:
        """Return the address of the admission webhook for the API server. Raises `SettingsError`."""
        if self.admission_url:
            if self.admission_bind == OFF:
                raise SettingsError("--admission-url needs --admission-bind: without it, nobody answers there")
            try:
                check_url(self.admission_url)
            except AdmissionUrlError as error:
                raise SettingsError(f"--admission-url {self.admission_url}: {error}") from None
        return self.admission_url
