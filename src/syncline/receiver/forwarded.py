"""Who sends a request that came through proxies.

Each proxy adds the address that it was reached from at the right end of `X-Forwarded-For`; what stands further left
may be made up by the sender. So the header is read from the right, and only as far as the proxies are trusted.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

HEADER = "X-Forwarded-For"
Network = IPv4Network | IPv6Network


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read addresses and networks. Raises `ValueError` with what to write instead."""
    networks = []
    for text in texts:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"write an address or a network such as 10.0.0.0/8 instead of {text!r}") from None
        if not network.prefixlen:
            raise ValueError(f"{text} means every address, so that anybody could say who they are: name the proxies")
        networks.append(network)
    return tuple(networks)


def is_trusted(address: str | None, trusted: Sequence[Network]) -> bool:
    """Whether an address is one of the proxies that we trust."""
    found = _read(address or "")
    return found is not None and any(found in network for network in trusted if network.version == found.version)


def client_of(peer: str | None, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the address that a request came from, beyond all proxies that we trust.

    `peer` is the address of the connection and `forwarded` the lines of the header. What is no address, and what is
    left of it, is not believed: then the request is the last proxy's.
    """
    client = peer or ""
    if not is_trusted(peer, trusted):
        return client
    hops = [hop.strip() for line in forwarded for hop in line.split(",")]
    for hop in reversed(hops):
        found = _read(hop)
        if found is None:
            break
        client = str(found)
        if not is_trusted(client, trusted):
            break
    return client


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address as proxies write it: some add a port, and brackets."""
    text = text.partition("%")[0]
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
