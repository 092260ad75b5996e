"""Doubles of key services, over TLS, each with its own rules about who may decrypt; and files that they open."""

import base64
import datetime as dt
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyrage
import yaml
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from syncline.render import tools

HOSTS = (
    "kms.eu-west-1.amazonaws.com",
    "oauth2.googleapis.com",
    "cloudkms.googleapis.com",
    "login.microsoftonline.com",
    "plant.vault.azure.net",
    "vault.example.com",
)
ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"
RESOURCE = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
TOKEN = "hunter2-token"


class Doubles:
    """All services on one port, told apart by the host that was asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, str]] = []
        self.keys: dict[str, bytes] = {}
        """What is encrypted, by what it was encrypted to."""
        self.google = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.port = 0
        self.ca, self._chain = _certificate(folder)

    def wrap(self, data_key: bytes) -> str:
        """Encrypt a key for the services: only they know what it stands for."""
        name = base64.b64encode(f"wrapped-{len(self.keys)}".encode()).decode()
        self.keys[name] = data_key
        return name

    @property
    def secret(self) -> dict[str, bytes]:
        """The credentials of all services, as a decryption Secret holds them."""
        private = self.google.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        google = {"type": "service_account", "client_email": "a@p.example", "private_key": private, "project_id": "p"}
        azure = {"tenantId": "t", "clientId": "c", "clientSecret": TOKEN, "vaultUrl": "https://plant.vault.azure.net"}
        return {
            "aws-kms": f"[default]\naws_access_key_id = AKID\naws_secret_access_key = {TOKEN}\n".encode(),
            "gcp-kms": json.dumps(google).encode(),
            "azure-kv": json.dumps(azure).encode(),
            "vault-token": TOKEN.encode(),
            "vault-address": b"https://vault.example.com",
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Doubles"]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._chain)
        runner = web.ServerRunner(web.Server(self._serve), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        self.asked.append((str(request.host), request.path))
        match request.host:
            case "kms.eu-west-1.amazonaws.com":
                return self._aws(request, json.loads(body))
            case "oauth2.googleapis.com":
                return self._google_token(body.decode())
            case "cloudkms.googleapis.com":
                return self._google(request, json.loads(body))
            case "login.microsoftonline.com":
                good = f"client_secret={TOKEN}" in body.decode()
                return web.json_response({"access_token": TOKEN} if good else {}, status=200 if good else 401)
            case "plant.vault.azure.net":
                return self._azure(request, json.loads(body))
            case _:
                return self._vault(request, json.loads(body))

    def _aws(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if "Credential=AKID/" not in request.headers["Authorization"] or body["KeyId"] != ARN:
            return web.json_response({"__type": "AccessDeniedException"}, status=400)
        return web.json_response({"Plaintext": self._open(body["CiphertextBlob"])})

    def _google_token(self, form: str) -> web.Response:
        signed, _, signature = form.partition("assertion=")[2].rpartition(".")
        raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        self.google.public_key().verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return web.json_response({"access_token": TOKEN})

    def _google(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return web.json_response({}, status=403)
        assert request.path == f"/v1/{RESOURCE}:decrypt"
        return web.json_response({"plaintext": self._open(body["ciphertext"])})

    def _azure(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return web.json_response({}, status=403)
        assert request.path == "/keys/k/v1/decrypt"
        plain = self._open(body["value"])
        return web.json_response({"value": plain.replace("+", "-").replace("/", "_").rstrip("=")})

    def _vault(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if request.headers["X-Vault-Token"] != TOKEN:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        assert request.path == "/v1/sops/transit/decrypt/k"
        return web.json_response({"data": {"plaintext": self._open(body["ciphertext"])}})

    def _open(self, wrapped: str) -> str:
        return base64.b64encode(self.keys[wrapped]).decode()


class ToDoubles(AbstractResolver):
    """Finds every host at the doubles, or at an address of the test's choice."""

    def __init__(self, doubles: Doubles, address: str = "127.0.0.1") -> None:
        self._doubles = doubles
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del port
        found = {"hostname": host, "host": self._address, "port": self._doubles.port, "family": family}
        return [ResolveResult(**found, proto=0, flags=socket.AI_NUMERICHOST)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        return


def encrypted_for(doubles: Doubles, service: str, folder: Path, text: str, **more: str) -> bytes:
    """Encrypt a file with the real sops for an age key, then leave the data key to a service instead."""
    identity = pyrage.x25519.Identity.generate()
    (folder / "plain.yaml").write_text(text)
    command = [str(tools.find("sops")), "--disable-version-check", "encrypt", "--age", str(identity.to_public())]
    sealed = subprocess.run(
        [*command, "plain.yaml"], cwd=folder, env={"HOME": str(folder)}, check=True, capture_output=True
    ).stdout.decode()
    content, _, _ = sealed.partition("\nsops:")
    metadata = yaml.safe_load(sealed)["sops"]
    data_key = pyrage.decrypt(metadata.pop("age")[0]["enc"].encode(), [identity])
    wrapped = doubles.wrap(data_key)
    entries = {
        "kms": {"arn": ARN, "enc": wrapped, "aws_profile": ""},
        "gcp_kms": {"resource_id": RESOURCE, "enc": wrapped},
        "azure_kv": {"vault_url": "https://plant.vault.azure.net", "name": "k", "version": "v1", "enc": wrapped},
        "hc_vault": {
            "vault_address": "https://vault.example.com",
            "engine_path": "sops/transit",
            "key_name": "k",
            "enc": wrapped,
        },
    }
    metadata[service] = [{**entries[service], "created_at": "2026-01-01T00:00:00Z", **more}]
    return f"{content}\n{yaml.safe_dump({'sops': metadata})}".encode()


def _certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "doubles")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = folder / "doubles.pem"
    chain.write_bytes(pem + private)
    return ssl.create_default_context(cadata=pem.decode()), chain
