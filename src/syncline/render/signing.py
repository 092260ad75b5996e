"""Signatures for key services: AWS signature version 4, and assertions of Google service accounts. Pure."""

import base64
import hashlib
import hmac
import json
from datetime import datetime, timedelta

from cryptography.exceptions import InternalError
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from syncline.core.private_keys import KeyRefused, rsa_key
from syncline.render.key_credentials import AwsCredential, GoogleCredential

_SERVICE = "kms"
_TARGET = "TrentService.Decrypt"
_CONTENT = "application/x-amz-json-1.1"
_SCOPE = "https://www.googleapis.com/auth/cloudkms"
_LASTS = timedelta(minutes=10)


def aws_headers(credential: AwsCredential, host: str, region: str, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers of a signed decrypt request (AWS Signature Version 4)."""
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"content-type": _CONTENT, "host": host, "x-amz-date": moment, "x-amz-target": _TARGET}
    if credential.session_token:
        headers["x-amz-security-token"] = credential.session_token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join(("POST", "/", "", lines, names, hashlib.sha256(body).hexdigest()))
    scope = f"{day}/{region}/{_SERVICE}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    key = f"AWS4{credential.secret}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credential.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    sent = {name.title(): value for name, value in headers.items() if name != "host"}
    return {**sent, "Authorization": authorization}


def service_account_assertion(credential: GoogleCredential, audience: str, now: datetime) -> str:
    """Return the signed assertion for a token. Raises `KeyRefused` if the key is not an RSA key of a usual size."""
    key = rsa_key(credential.private_key.encode())
    header = {"alg": "RS256", "typ": "JWT"} | ({"kid": credential.private_key_id} if credential.private_key_id else {})
    issued = int(now.timestamp())
    claims = {
        "iss": credential.email,
        "scope": _SCOPE,
        "aud": audience,
        "iat": issued,
        "exp": issued + int(_LASTS.total_seconds()),
    }
    signed = ".".join(_part(json.dumps(one).encode()) for one in (header, claims))
    try:
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except (InternalError, ValueError):
        raise KeyRefused("is not a valid RSA key: nothing is signed") from None
    return f"{signed}.{_part(signature)}"


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
