"""Calls the validation webhook of a sync before files are published. After a refusal, nothing is published."""

import asyncio
import socket
from urllib.parse import urlsplit

import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from syncline.agent.folder_sync import CheckError
from syncline.agent.local_http import LocalHttp, UnreachableError
from syncline.core.addresses import is_link_local, refusal
from syncline.core.gateway_plan import GatewayPlan
from syncline.files.publish import Publication

MAX_PATHS = 1000
MAX_SAID = 200
_OK = 300


async def ask_webhook(plan: GatewayPlan, work: Publication) -> None:
    """Ask the webhook whether the files may be published. Raises `CheckError` if not, or if there is no answer."""
    url = plan.check.webhook_url
    if not url:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CheckError("ValidationFailed", "the URL of the validation webhook is not http or https")
    addresses = _CheckedAddresses(await _addresses(parts.hostname))
    http = LocalHttp(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", addresses)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        answer = await http.send(
            "POST",
            path,
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode(_question(plan, work)),
            seconds=max(1, min(plan.check.webhook_timeout_seconds, 300)),
        )
    except UnreachableError as error:
        raise CheckError("ValidationFailed", f"the validation webhook: {error}") from None
    finally:
        await http.close()
    if answer.status >= _OK:
        said = answer.body[:MAX_SAID].decode(errors="replace")
        said = "".join(character for character in said if character.isprintable())
        raise CheckError("ValidationFailed", f"the validation webhook answers {answer.status}: {said or 'no reason'}")


def _question(plan: GatewayPlan, work: Publication) -> dict[str, object]:
    changes, live = work.plan, work.live
    return {
        "sync": plan.sync,
        "gateway": plan.gateway,
        "ref": plan.ref,
        "commit": plan.commit,
        "added": [path for path in changes.writes if path not in live][:MAX_PATHS],
        "modified": [path for path in (*changes.writes, *changes.modes) if path in live][:MAX_PATHS],
        "deleted": [*changes.first, *changes.deletes][:MAX_PATHS],
        "counts": changes.diff,
    }


async def _addresses(host: str) -> list[str]:
    """Resolve a host. Services of clouds and nodes are refused: a sync must not make the pod call them."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        raise CheckError("ValidationFailed", f"the validation webhook: {host} has no address") from None
    addresses = [str(info[4][0]) for info in found]
    for address in addresses:
        # The loopback address is the pod itself.
        why = refusal(address, allow_loopback=True) or ("is a link-local address" if is_link_local(address) else "")
        if why:
            raise CheckError("ValidationFailed", f"the validation webhook: {host} {why}")
    return addresses


class _CheckedAddresses(AbstractResolver):
    """Resolves to the checked addresses only, so that the connection cannot use others."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        return None
