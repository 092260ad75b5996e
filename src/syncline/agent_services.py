"""The endpoints for agents: the depot, its address and certificates, and the admission webhook for their pods.

Every replica serves it, whether or not it leads.
"""

from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from syncline.admission_service import AdmissionService, admission_hosts
from syncline.controllers.author_check import AuthorCheck
from syncline.controllers.gateways.fleet import DepotAccess
from syncline.controllers.kinds.ignitionsync import IgnitionSyncReconciler
from syncline.depot.authentication import Authentication, pod_review
from syncline.depot.server import Depot
from syncline.engine.serving_authority import ServingAuthority
from syncline.kube.client import Client
from syncline.settings import Settings
from syncline.telemetry import Check, ServingCertificate
from syncline.telemetry.bind import OFF, named_host
from syncline.telemetry.certificate_folder import CertificateFolder

DEPOT_SERVICE = "syncline-depot"
"""The Service in front of the depots of all replicas."""
CERT_DIR_FLAG = "--depot-cert-dir"


class Certificates(Protocol):
    """The certificate of a server, and the CA certificates for its clients."""

    @property
    def certificate(self) -> ServingCertificate:
        """The certificate."""

    @property
    def ca(self) -> str:
        """The CA certificates for clients, as PEM. Empty while there are none."""

    async def start(self) -> None:
        """Start to renew the certificates."""

    async def stop(self) -> None:
        """Stop renewing the certificates."""


class AgentServices:
    """Serves agents from `start` to `stop`."""

    def __init__(self, settings: Settings, client: Client) -> None:
        """Read the settings. Raises `SettingsError` and `BindError`."""
        self._bind = settings.depot_bind
        self._given_url = settings.checked_depot_url()
        self._namespace = settings.namespace
        self._client = client
        self._depot: Depot | None = None
        self._on_certificates: Callable[[], None] = lambda: None
        self._certificates: Certificates | None = None
        self._authority = ServingAuthority(
            client,
            settings.namespace,
            (*hosts_of(settings), *admission_hosts(settings)),
            on_change=self._certificates_changed,
        )
        self._has_authority = settings.admission_bind != OFF or (self._bind != OFF and not settings.depot_cert_dir)
        if self._bind != OFF:
            self._certificates = self._new_certificates(settings)
        self._admission = AdmissionService(settings, client, self._authority)
        self.access = DepotAccess(self._url, self._ca)
        """The access of agents to the depot."""

    def connect(
        self, gateways: IgnitionSyncReconciler, authors: AuthorCheck | None, *, ready: Callable[[], bool]
    ) -> None:
        """Set the gateways whose plans are served, and the check of authors. Nothing is served before `ready`."""
        fleet = gateways.fleet
        self._admission.connect(gateways, self.access, authors)
        self._on_certificates = fleet.certificates_changed
        self._depot = Depot(
            self._bind,
            certificate=self._certificates.certificate if self._certificates is not None else None,
            authentication=Authentication(pod_review(self._client)),
            plans=fleet.plans,
            ready=ready,
        )

    async def start(self) -> dict[str, str]:
        """Listen, and return the addresses by name. Raises `BindError`."""
        served = {}
        if self._has_authority:
            await self._authority.start()
        if self._depot is not None and self._certificates is not None:
            if self._certificates is not self._authority:
                await self._certificates.start()
            await self._depot.start()
            served["depot"] = self._depot.address
        return {**served, **await self._admission.start()}

    async def stop(self) -> None:
        """Stop listening, and end all connections."""
        await self._admission.stop()
        if self._depot is not None:
            await self._depot.stop()
        if self._certificates is not None:
            await self._certificates.stop()
        await self._authority.stop()

    def checks(self) -> dict[str, Check]:
        """Return the checks of `/readyz`."""
        return {"depot": self._is_served, **self._admission.checks()}

    def _is_served(self) -> tuple[bool, str]:
        if self._certificates is None:
            return True, "no files are served to agents: --depot-bind is 0"
        if self._depot is None or not self._depot.address:
            return False, "the depot does not listen yet"
        if not self._certificates.ca:
            return False, "the certificates of the depot cannot be read or made yet: the log has the cause"
        return True, f"files are served to agents at {self._url()}"

    def _new_certificates(self, settings: Settings) -> Certificates:
        if settings.depot_cert_dir:
            return CertificateFolder(CERT_DIR_FLAG, settings.depot_cert_dir, self._certificates_changed)
        return self._authority

    def _certificates_changed(self) -> None:
        self._on_certificates()

    def _url(self) -> str:
        """Return the address of the depot: of the flag, of a bind that names a host, or of the Service."""
        address = self._depot.address if self._depot is not None else ""
        if not address:
            return ""
        if self._given_url:
            return self._given_url
        if host := named_host(self._bind):
            port = address.rpartition(":")[2]
            return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        return f"https://{DEPOT_SERVICE}.{self._namespace}.svc"

    def _ca(self) -> str:
        return self._certificates.ca if self._certificates is not None else ""


def hosts_of(settings: Settings) -> tuple[str, ...]:
    """Return the host names and IP addresses by which agents reach the depot."""
    service = f"{DEPOT_SERVICE}.{settings.namespace}"
    given = urlsplit(settings.checked_depot_url()).hostname or ""
    named = (DEPOT_SERVICE, service, f"{service}.svc", f"{service}.svc.cluster.local")
    return tuple(dict.fromkeys(host for host in (*named, given, named_host(settings.depot_bind)) if host))
