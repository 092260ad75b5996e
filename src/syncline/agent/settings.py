"""The settings of `syncline agent`: flags, or the environment that the admission webhook gives the container."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

ENV_DEPOT_URL = "SYNCLINE_DEPOT_URL"
ENV_CA = "SYNCLINE_CA"
"""The CA certificates of the depot, as PEM."""
ENV_CA_FILE = "SYNCLINE_CA_FILE"
"""A file with these certificates. It is read again after a change."""
ENV_TOKEN_FILE = "SYNCLINE_TOKEN_FILE"  # noqa: S105 - the name of a variable
ENV_DATA = "SYNCLINE_DATA"
ENV_GATEWAY_URL = "SYNCLINE_GATEWAY_URL"
"""Only if the gateway does not listen at the loopback address and the port of the plan."""
ENV_API_KEY_FILE = "SYNCLINE_API_KEY_FILE"
ENV_SECRETS_DIR = "SYNCLINE_SECRETS_DIR"
"""A folder with the values of headers, one file each."""
ENV_HEALTH_BIND = "SYNCLINE_HEALTH_BIND"
ENV_LOG_FORMAT = "SYNCLINE_LOG_FORMAT"

STARTUP_PATH = "/startupz"
"""Returns 200 once the files are in the folder: for the startup probe."""
HEALTH_PATH = "/healthz"
"""Returns 200 while the agent works: for the liveness probe."""
READY_PATH = "/readyz"
"""Returns 200 while the folder has the files of the newest plan."""

OFF = "0"


class AgentSettingsError(Exception):
    """The settings are not complete, or contradict each other. The message names the flag and the variable."""


class AgentSettings(Struct, frozen=True, kw_only=True):
    """The source and the destination of the files of an agent."""

    data: str
    """The data folder."""
    depot_url: str = ""
    ca: str = ""
    ca_file: str = ""
    token_file: str = ""
    kubeconfig: str = ""
    """With a kubeconfig, the agent requests its own token, and reads the address of the depot from the cluster."""
    namespace: str = ""
    sync: str = ""
    pod: str = ""
    gateway_url: str = ""
    api_key_file: str = ""
    secrets_dir: str = ""
    health_bind: str = OFF
    once: bool = False

    @property
    def outside(self) -> bool:
        """Whether the agent runs outside of its pod, with a kubeconfig."""
        return bool(self.kubeconfig)


def settings_of(given: Mapping[str, str | bool | None], environment: Mapping[str, str]) -> AgentSettings:
    """Return the settings: each from its flag, else from its variable. Raises `AgentSettingsError`."""

    def text(flag: str, variable: str = "") -> str:
        return str(given.get(flag) or "") or (environment.get(variable, "") if variable else "")

    settings = AgentSettings(
        data=text("data", ENV_DATA),
        depot_url=text("depot_url", ENV_DEPOT_URL),
        ca="" if given.get("ca_file") else environment.get(ENV_CA, ""),
        ca_file=text("ca_file", ENV_CA_FILE),
        token_file=text("token_file", ENV_TOKEN_FILE),
        kubeconfig=text("kubeconfig"),
        namespace=text("namespace"),
        sync=text("sync"),
        pod=text("pod"),
        gateway_url=text("gateway_url", ENV_GATEWAY_URL),
        api_key_file=text("api_key_file", ENV_API_KEY_FILE),
        secrets_dir=text("secrets_dir", ENV_SECRETS_DIR),
        health_bind=text("health_bind", ENV_HEALTH_BIND) or OFF,
        once=bool(given.get("once")),
    )
    _check(settings)
    return settings


def _check(settings: AgentSettings) -> None:
    if not settings.data:
        raise AgentSettingsError(f"name the folder of the gateway with --data or {ENV_DATA}")
    if settings.outside:
        missing = [flag for flag in ("namespace", "sync", "pod") if not getattr(settings, flag)]
        if missing:
            raise AgentSettingsError(f"--kubeconfig needs --{' and --'.join(missing)}: a token is bound to one pod")
    else:
        if not settings.depot_url or not settings.token_file:
            raise AgentSettingsError(
                f"name the depot with --depot-url or {ENV_DEPOT_URL}, and a token with --token-file or"
                f" {ENV_TOKEN_FILE}; outside of a pod, write --kubeconfig, --namespace, --sync and --pod"
            )
        if not settings.ca and not settings.ca_file:
            raise AgentSettingsError(f"name the certificates of the depot with --ca-file, {ENV_CA_FILE} or {ENV_CA}")
    _check_url("--depot-url", settings.depot_url, schemes=("https",))
    _check_url("--gateway-url", settings.gateway_url, schemes=("http", "https"))


def _check_url(flag: str, url: str, *, schemes: tuple[str, ...]) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username is not None:
        raise AgentSettingsError(f"{flag} {url}: write {' or '.join(f'{one}://HOST:PORT' for one in schemes)}")
