"""The certificates of the operator's own TLS endpoints: authorities in a Secret, and a certificate for each replica.

The Secret is in the operator's own namespace. It holds the authorities with their keys; every replica signs a
certificate for itself, in memory. `core/serving_authorities.py` decides when an authority is made, and when it signs.
Replicas agree by the resourceVersion of the Secret. A Secret that is emptied, damaged or deleted is restored from the
memory of the replicas, so that clients still trust the certificates.
"""

import asyncio
import base64
import binascii
import contextlib
import random
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog
from msgspec import Struct, field

from syncline.api.common import GROUP, ObjectMeta
from syncline.core.serving_authorities import (
    CertificateAuthority,
    Lifetimes,
    bundle_of,
    merge_authorities,
    plan_authorities,
    signing_authority,
)
from syncline.engine.certificate_signing import make_authority, read_authority, sign_certificate
from syncline.kube.cache import Key
from syncline.kube.client import Client, PatchKind
from syncline.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from syncline.kube.reflector import Reflector
from syncline.kube.resources import SECRETS
from syncline.telemetry.certificate import ServingCertificate, load_pair

log = structlog.get_logger(__name__)

NAME = "syncline-serving-ca"
ROTATE = f"{GROUP}/rotate"
"""The annotation on the Secret that requests a new authority, with any value. It is removed afterwards."""
START_SECONDS = 5.0
MAX_PAUSE = 60.0
LONGEST_WAIT = 3600.0
"""The maximum seconds between two checks of the Secret."""
_ATTEMPTS = 8
_LIST, _BUNDLE, _TOKEN = "authorities.json", "ca.crt", "path"
_TOKEN_BYTES = 16
# The API server accepts only such segments in the path of a webhook.
_TOKEN_FORM = re.compile(r"[0-9a-f]{32}")


class AuthorityWire(Struct):
    """The Secret as it is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class _Entry(Struct):
    certificate: str
    key: str
    created: float


class _Held(Struct, frozen=True):
    """The content of the Secret."""

    authorities: tuple[CertificateAuthority, ...] = ()
    token: str = ""


class ServingAuthority:
    """The authorities of one installation, from `start` to `stop`, and the certificate of this replica."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        names: Sequence[str],
        *,
        on_change: Callable[[], None] | None = None,
        lifetimes: Lifetimes | None = None,
    ) -> None:
        """`names` are the host names and IP addresses that the certificate is for.

        `on_change` is called after `ca` has changed.
        """
        self._client = client
        self._namespace = namespace
        self._names = tuple(dict.fromkeys(names))
        self._lifetimes = lifetimes or Lifetimes()
        self._listeners = [on_change] if on_change is not None else []
        self._held = _Held()
        self.ready = asyncio.Event()
        """Set when there are authorities."""
        self.certificate = ServingCertificate(_Signed(self).renew, "depot and admission")
        """The certificate of this replica. While nothing is `ready`, no client can connect."""
        self._agreeing = asyncio.Lock()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._watch: Reflector[AuthorityWire, str] = Reflector(
            client,
            SECRETS,
            decode=AuthorityWire,
            project=lambda wire: wire.metadata.resource_version,
            namespace=namespace,
            fields=f"metadata.name={NAME}",
            on_change=self._changed,
            part="serving-ca",
        )

    @property
    def ca(self) -> str:
        """The certificates of all authorities that are trusted now, as PEM. Empty before they are `ready`."""
        return bundle_of(self._held.authorities)

    @property
    def token(self) -> str:
        """A random text that all replicas share, for an address that others cannot guess. Empty before `ready`."""
        return self._held.token

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call this after `ca` or `token` has changed, too."""
        self._listeners.append(on_change)

    async def start(self) -> None:
        """Read the authorities, or make one, and follow them.

        It returns after some seconds, even if the API server does not answer: then it is retried in the background.
        """
        self._tasks = [
            asyncio.create_task(self._watch.run(), name="the watch of the serving authorities"),
            asyncio.create_task(self._follow(), name="the rotation of the serving authorities"),
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self.ready.wait()

    async def stop(self) -> None:
        """Follow the authorities no longer. The certificate stays as it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def refresh(self) -> None:
        """Read the authorities now, before the watch reports them. Raises `KubeError`."""
        await self._agree()

    def sign(self) -> tuple[str, bytes, bytes]:
        """Return a new certificate and its key, PEM, with the id of the authority that signed it."""
        now = time.time()
        signer = self.signer(now)
        return signer.id, *sign_certificate(signer, self._names, now, self._lifetimes.certificate)

    def signer(self, now: float) -> CertificateAuthority:
        """Return the authority that signs now. If all have expired, this is the newest of them."""
        return signing_authority(self._held.authorities, now, self._lifetimes) or self._held.authorities[-1]

    @property
    def renewed_after(self) -> float:
        """The age at which a certificate is replaced, in seconds."""
        return self._lifetimes.certificate / 3

    def _changed(self, _key: Key, _old: str | None, _new: str | None, _by: str) -> None:
        self._news.set()

    async def _follow(self) -> None:
        pause = 0.0
        while True:
            try:
                wait, pause = await self._agree(), 0.0
            except KubeError as error:
                wait = pause = min(MAX_PAUSE, max(1.0, pause * 2))
                log.warning(
                    "the serving authorities cannot be read or written; those in memory stay in use",
                    secret=f"{self._namespace}/{NAME}",
                    error=str(error),
                    retry_in=pause,
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait, LONGEST_WAIT)):
                    await self._news.wait()
            self._news.clear()

    async def _agree(self) -> float:
        """Bring the Secret and the memory together. Return the seconds until the next decision. Raises `KubeError`."""
        for attempt in range(_ATTEMPTS):
            try:
                async with self._agreeing:
                    return await self._agree_once()
            except (AlreadyExists, Conflict):
                if attempt + 1 == _ATTEMPTS:
                    raise
                await asyncio.sleep(random.uniform(0.0, 0.05 * 2**attempt))  # noqa: S311 - replicas write at once
        raise AssertionError("unreachable")

    async def _agree_once(self) -> float:
        now = time.time()
        try:
            wire = await self._client.get(SECRETS, NAME, self._namespace, type=AuthorityWire)
        except NotFound:
            wire = None
        found = self._read(wire)
        requested = self._is_requested(wire)
        merged = merge_authorities(found.authorities, self._held.authorities, now, self._lifetimes)
        plan = plan_authorities(merged, now, self._lifetimes, requested=requested)
        authorities = plan.kept
        if plan.due:
            made = make_authority(now, self._lifetimes.authority)
            authorities = (*authorities, made)
            plan = plan_authorities(authorities, now, self._lifetimes)
        agreed = _Held(authorities, found.token or self._held.token or secrets.token_hex(_TOKEN_BYTES))
        await self._write(wire, agreed, requested=requested)
        self._adopt(agreed)
        return plan.wait

    def _read(self, wire: AuthorityWire | None) -> _Held:
        """Return the content of the Secret, or that of this replica if the Secret is lost or damaged."""
        where = f"{self._namespace}/{NAME}"
        if wire is None:
            if self._held.authorities:
                log.error("the Secret of the serving authorities was deleted; it is written again", secret=where)
            return self._held
        found = _read_secret(wire.data or {})
        if not found.authorities:
            log.error("the Secret has no readable serving authority; it is written again", secret=where)
            return _Held(self._held.authorities, found.token)
        return found

    def _is_requested(self, wire: AuthorityWire | None) -> bool:
        """Whether somebody asks for a new authority: by the annotation, or by deleting the Secret."""
        if wire is None:
            return bool(self._held.authorities)
        return ROTATE in wire.metadata.annotations

    async def _write(self, wire: AuthorityWire | None, agreed: _Held, *, requested: bool) -> None:
        """Write the Secret, unless it is as agreed already."""
        data = _secret_data(agreed)
        if wire is None:
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": NAME, "namespace": self._namespace},
                "data": data,
            }
            await self._client.create(SECRETS, body, self._namespace)
        elif requested or any((wire.data or {}).get(name) != value for name, value in data.items()):
            # The version makes the server refuse it if another replica was faster.
            meta = {"uid": wire.metadata.uid, "resourceVersion": wire.metadata.resource_version}
            change = {"metadata": {**meta, "annotations": {ROTATE: None}}, "data": data}
            await self._client.patch(SECRETS, NAME, self._namespace, change, PatchKind.MERGE)

    def _adopt(self, agreed: _Held) -> None:
        before, self._held = self._held, agreed
        self.ready.set()
        known, trusted = ({one.id for one in held.authorities} for held in (before, agreed))
        if known != trusted:
            log.info(
                "the serving authorities have changed", added=sorted(trusted - known), left=sorted(known - trusted)
            )
        if known != trusted or before.token != agreed.token:
            for listener in self._listeners:
                listener()


class _Signed:
    """Signs the certificate of an endpoint anew when it gets old, and when another authority signs."""

    def __init__(self, authority: ServingAuthority) -> None:
        self._authority = authority
        self._signer = ""
        self._made = 0.0

    def renew(self, context: ssl.SSLContext) -> bool:
        if not self._authority.ready.is_set():
            return False
        now, first = time.time(), not self._signer
        age = now - self._made
        if self._authority.signer(now).id == self._signer and 0 <= age < self._authority.renewed_after:
            return False
        signer, certificate, key = self._authority.sign()
        load_pair(context, certificate, key)
        self._signer, self._made = signer, now
        return not first


def _read_secret(data: Mapping[str, str]) -> _Held:
    """Return what the data of the Secret holds, without the entries that cannot be read."""
    try:
        entries = msgspec.json.decode(_decoded(data.get(_LIST, "")) or b"[]", type=list[_Entry])
    except msgspec.MsgspecError:
        entries = []
    authorities = []
    for entry in entries:
        try:
            authorities.append(read_authority(entry.certificate, entry.key, entry.created))
        except ValueError as error:
            log.warning("a serving authority of the Secret cannot be read and is left out", error=str(error))
    token = _decoded(data.get(_TOKEN, "")).decode(errors="replace")
    return _Held(tuple(authorities), token if _TOKEN_FORM.fullmatch(token) else "")


def _secret_data(held: _Held) -> dict[str, str]:
    entries = [_Entry(one.certificate, one.key, one.created) for one in held.authorities]
    values = {
        _BUNDLE: bundle_of(held.authorities).encode(),
        _LIST: msgspec.json.encode(entries),
        _TOKEN: held.token.encode(),
    }
    return {name: base64.b64encode(value).decode() for name, value in values.items()}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""
