"""Clusters to be members: real ones with accounts of their own, and one that says what it is told to."""

import asyncio
import datetime as dt
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.fleet.forms import encode, secret

from syncline.fleet import Credentials, Fleet, MemberKey, RemoteCluster, SecretWire, Timeouts
from syncline.fleet.credentials import validate
from syncline.fleet.secrets import kubeconfig_connection
from syncline.kube.identity import LOGICAL_CLUSTERS
from syncline.sandbox import RequestError, Sandbox
from syncline.sandbox.pki import Authority
from syncline.testing.proxy import FaultProxy

QUICK = Timeouts(
    connect=1.0,
    request=3.0,
    probe=1.0,
    heartbeat=1.0,
    confirm=0.05,
    backoff_min=0.05,
    backoff_max=0.2,
    idle=0.3,
    reread=0.1,
)
# Far below the two minutes of the faults, and far above what a busy machine takes: not a measurement.
UNHURRIED = 60.0
KEY = MemberKey("team-a", "Secret", "edge")
_KUBE_SYSTEM = "/api/v1/namespaces/kube-system"


def credentials_of(wire: SecretWire) -> Credentials:
    return validate(kubeconfig_connection(wire, None), wire.origin, allow_loopback=True)


def kubeconfig(server: str, authority: str | bytes, user: dict[str, str]) -> str:
    cluster = {"server": server, "certificate-authority-data": encode(authority)}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "main",
        }
    )


class Remote:
    """A control plane as a tenant has it: an account with rights over namespaces and ConfigMaps, and its tokens."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.namespace = f"fleet-{secrets.token_hex(4)}"
        self.uid = sandbox.request("GET", _KUBE_SYSTEM)["metadata"]["uid"]
        self._home = f"/api/v1/namespaces/{self.namespace}"
        sandbox.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        sandbox.request("POST", f"{self._home}/serviceaccounts", {"metadata": {"name": "syncline"}})
        self.allow("namespaces", "configmaps")

    def allow(self, *resources: str, groups: Sequence[str] = ("",), read: Sequence[str] = ()) -> None:
        """Let the account do everything with these, read these, and nothing else."""
        role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{self.namespace}"
        rules = [{"apiGroups": list(groups), "resources": list(resources), "verbs": ["*"]}] if resources else []
        if read:
            rules.append({"apiGroups": list(groups), "resources": list(read), "verbs": ["get", "list", "watch"]})
        self._apply(role, "ClusterRole", {"rules": rules})
        binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{self.namespace}"
        subject = {"kind": "ServiceAccount", "name": "syncline", "namespace": self.namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.namespace}
        self._apply(binding, "ClusterRoleBinding", {"roleRef": reference, "subjects": [subject]})

    def issue(self, name: str = "") -> str:
        """Make a token; one with a name can be revoked by it."""
        spec: dict[str, object] = {"expirationSeconds": 3600}
        if name:
            made = self.sandbox.request("POST", f"{self._home}/secrets", {"metadata": {"name": name}})
            spec["boundObjectRef"] = {
                "kind": "Secret",
                "apiVersion": "v1",
                "name": name,
                "uid": made["metadata"]["uid"],
            }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"{self._home}/serviceaccounts/syncline/token"
        return str(self.sandbox.request("POST", path, body)["status"]["token"])

    def revoke(self, name: str) -> None:
        self.sandbox.request("DELETE", f"{self._home}/secrets/{name}")

    def is_known(self, token: str) -> bool:
        try:
            self.sandbox.request("GET", "/version", token=token)
        except RequestError as error:
            if error.status != 401:
                raise
            return False
        return True

    def secret(self, token: str = "", *, server: str = "", **metadata: str) -> SecretWire:
        """Make the Secret that a tenant would put beside their syncs."""
        user = {"token": token or self.issue()}
        text = kubeconfig(server or self.sandbox.server, self.sandbox.ca, user)
        return secret({"value": text}, **metadata)  # type: ignore[arg-type]

    def secret_with_certificate(self, user: str, *, begins: dt.datetime, ends: dt.datetime) -> SecretWire:
        """Make one with a client certificate that is good between two moments."""
        certificate, key = _client_certificate(self.sandbox, user, begins, ends)
        data = {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}
        return secret({"value": kubeconfig(self.sandbox.server, self.sandbox.ca, data)})

    def _apply(self, path: str, kind: str, body: dict[str, object]) -> None:
        manifest = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self.namespace},
            **body,
        }
        self.sandbox.request("PATCH", f"{path}?fieldManager=tests&force=true", manifest)


def _client_certificate(sandbox: Sandbox, user: str, begins: dt.datetime, ends: dt.datetime) -> tuple[bytes, bytes]:
    authority = x509.load_pem_x509_certificate(sandbox.ca.encode())
    signer = serialization.load_pem_private_key((sandbox.folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    serial = x509.random_serial_number()
    builder = x509.CertificateBuilder(authority.subject, name, key.public_key(), serial, begins, ends).add_extension(
        x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    pem = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    return pem, private


class Impostor:
    """A server behind real TLS that answers as it is told: every request, or all but those for its identity."""

    def __init__(self) -> None:
        self.authority = Authority.create()
        self.server = ""
        self.uid: str | None = "uid-1"
        """What it says that the UID of kube-system is; None: it answers that as it answers all else."""
        self.answer: Callable[[], web.Response] = lambda: web.json_response({"kind": "Namespace"})
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.hold: Callable[[], Awaitable[None]] | None = None
        self._runner: web.ServerRunner | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        self.asked.append((request.method, request.path))
        self.tokens.add(request.headers.get("Authorization", ""))
        if self.hold is not None:
            await self.hold()
        if self.uid is not None and request.path == _KUBE_SYSTEM:
            return web.json_response({"metadata": {"name": "kube-system", "uid": self.uid}})
        if self.uid is not None and request.path == LOGICAL_CLUSTERS.path(name="cluster"):
            return web.Response(status=404, text="404 page not found")  # as a server says it of what it does not serve
        if self.uid is not None and request.path == "/version":
            return web.json_response({"gitVersion": "v1.99.0"})
        return self.answer()

    def secret(self, token: str = "a-token") -> SecretWire:
        return secret({"value": kubeconfig(self.server, self.authority.certificate, {"token": token})})

    def drop_connections(self) -> None:
        assert self._runner
        assert self._runner.server
        for connection in self._runner.server.connections:
            if connection.transport:
                connection.transport.abort()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Impostor"]:
        await self._start(0)
        try:
            yield self
        finally:
            await self._stop()

    async def rebuild(self) -> None:
        """Come back at the same address with a new certificate authority."""
        await self._stop()
        self.authority = Authority.create()
        await self._start(int(self.server.rpartition(":")[2]))

    async def _start(self, port: int) -> None:
        self._runner = web.ServerRunner(web.Server(self.handle, handler_cancellation=True), shutdown_timeout=0.1)
        await self._runner.setup()
        with _tls(self.authority) as context:
            await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context).start()
        self.server = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        assert self._runner
        self.drop_connections()
        await self._runner.cleanup()
        await asyncio.sleep(0.05)  # for connections that end in the middle of an answer


@contextmanager
def _tls(authority: Authority):  # type: ignore[no-untyped-def]  # noqa: ANN202
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.write_bytes(b"".join(authority.serving()))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair)
        yield context


class Vault:
    """A Secret that can change, and who has read it."""

    def __init__(self, wire: SecretWire) -> None:
        self.wire = wire
        self.reads = 0

    async def read(self) -> Credentials:
        self.reads += 1
        return credentials_of(self.wire)


def join(fleet: Fleet, vault: Vault, key: MemberKey = KEY, *, user: str = "a sync") -> RemoteCluster:
    """Have a fleet use what a Secret holds now, and read it again when it must."""
    return fleet.get_or_create(key, credentials_of(vault.wire), user=user, reread=vault.read)


@contextmanager
def proxied(sandbox: Sandbox) -> Iterator[FaultProxy]:
    """Put a proxy before a control plane for a while."""
    with FaultProxy(sandbox) as running:
        yield running
        running._thread.run(asyncio.sleep(0.1))  # what its clients have just left behind is closed first
