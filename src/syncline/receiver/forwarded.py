"""The sender of a request that came through proxies.

Each proxy appends the address of its client at the right end of `X-Forwarded-For`. The sender can forge the values
further left. The header is therefore read from the right, and only as far as the proxies are trusted.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

HEADER = "X-Forwarded-For"
Network = IPv4Network | IPv6Network


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse addresses and networks. Raises `ValueError` with the remedy."""
    networks = []
    for text in texts:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"{text!r} is not an address or network: write a network such as 10.0.0.0/8") from None
        if not network.prefixlen:
            raise ValueError(
                f"{text} means every address, so that anybody could forge their address: write the addresses of the"
                " proxies"
            )
        networks.append(network)
    return tuple(networks)


def is_trusted(address: str | None, trusted: Sequence[Network]) -> bool:
    """Whether an address is a trusted proxy."""
    found = _read(address or "")
    return found is not None and any(found in network for network in trusted if network.version == found.version)


def client_of(peer: str | None, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the address that a request came from, before all trusted proxies.

    `peer` is the address of the connection and `forwarded` the lines of the header. A value that is not an address, and
    all values left of it, are ignored: then the last proxy is the sender.
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
    """Parse an address in the form of a proxy: some add a port and brackets."""
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
