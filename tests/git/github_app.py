"""GitHub's side of an app: installation tokens for signed claims."""

import base64
import datetime as dt
import json

from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from syncline.testing.gitserver import GitServer

TOKEN = "canary-9c8b7a6f5e4d3c2b"


class App:
    """An app with the id 7 and one installation. Its tokens are `TOKEN-1`, `TOKEN-2` and so on."""

    def __init__(self, server: GitServer, installation: int = 42) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.installation = installation
        self.issued = 0
        self.lifetime = dt.timedelta(hours=1)
        self.status = 201
        self.token = TOKEN
        self.padding = 0
        """The bytes of an answer beside the token."""
        server.routes[f"/api/v3/app/installations/{installation}/access_tokens"] = self.answer

    @property
    def pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )

    @property
    def secret(self) -> dict[str, bytes]:
        return {"appID": b"7", "installationID": str(self.installation).encode(), "privateKey": self.pem}

    def answer(self, request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        claim = request.headers["Authorization"].removeprefix("Bearer ")
        signed, _, signature = claim.rpartition(".")
        self.key.public_key().verify(decode(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        body = json.loads(decode(signed.split(".")[1]))
        assert body["iss"].startswith("7")
        assert body["exp"] - body["iat"] <= 600
        self.issued += 1
        expires = dt.datetime.now(dt.UTC) + self.lifetime
        answer = {
            "permissions": "x" * self.padding,
            "token": f"{self.token}-{self.issued}",
            "expires_at": expires.isoformat(),
        }
        return web.json_response(answer, status=self.status)


def decode(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
