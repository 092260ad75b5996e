"""Network addresses that a connection must not lead to.

A tenant names the server, and the operator connects, possibly to servers that only the operator can reach. Loopback and
link-local addresses are refused unless a flag allows them for development. Metadata services of clouds, and addresses
that are not of one machine, are always refused. Private ranges are allowed, because clusters and Git servers are there.
"""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK = "is this machine itself, which is refused without --allow-loopback"
"""Why a name or address of this machine is refused."""

# Metadata services give credentials to any machine or pod that asks. Each address is from its cloud's documentation.
METADATA = {
    "169.254.169.254": "AWS, Google Cloud, Azure, OpenStack, DigitalOcean, Hetzner and others: instance metadata",
    "169.254.170.2": "AWS ECS: credentials of a task",
    "169.254.170.23": "AWS EKS Pod Identity: credentials of a pod",
    "fd00:ec2::254": "AWS: instance metadata over IPv6",
    "fd00:ec2::23": "AWS EKS Pod Identity over IPv6",
    "fd20:ce::254": "Google Cloud: instance metadata over IPv6",
    "fe80::a9fe:a9fe": "OpenStack and Akamai: instance metadata over IPv6",
    "fd00:a9fe:a9fe::1": "Akamai (Linode): instance metadata over IPv6",
    "169.254.42.42": "Scaleway: instance metadata",
    "fd00:42::42": "Scaleway: instance metadata over IPv6",
    "169.254.0.23": "Tencent Cloud: instance metadata",
    "100.100.100.200": "Alibaba Cloud: instance metadata",
    "fd00:100::100:200": "Alibaba Cloud: instance metadata over IPv6",
    "168.63.129.16": "Azure: the platform's own services on a host",
    "192.0.0.192": "Oracle Cloud: instance metadata of older images",
    "fd00:c1::a9fe:a9fe": "Oracle Cloud: instance metadata over IPv6",
}
_METADATA = frozenset(map(ipaddress.ip_address, METADATA))
# Networks of IPv6 whose last 32 bits are an IPv4 address: NAT64 (RFC 6052) and IPv4-translated (RFC 2765).
_EMBEDDING = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
# In the prefix for NAT64 within a network (RFC 8215), the network chooses the place of the IPv4 address (RFC 6052). The
# places are bytes of the address, and byte 8 is never part of it.
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_LOCAL_PLACES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))
# The end of an address that a tunnel between IPv4 hosts uses (ISATAP, RFC 5214), without the bit for global addresses.
_TUNNEL_ID = bytes((0, 0, 0x5E, 0xFE))
_GLOBAL_BIT = 2
_IPV4_BITS = 32


def refusal(address: str, *, allow_loopback: bool) -> str | None:
    """Return why an IP address is refused, or None."""
    try:
        given = _parsed(address)
    except ValueError:
        return "is not an IP address"
    return next((why for each in _meant(given) if (why := _refusal(each, allow_loopback=allow_loopback))), None)


def is_link_local(address: str) -> bool:
    """Whether an IP address, or the IPv4 address inside it, is link-local, as for services of nodes and clouds."""
    try:
        return any(each.is_link_local for each in _meant(_parsed(address)))
    except ValueError:
        return False


def is_loopback_name(host: str) -> bool:
    """Whether a host's name always means this machine."""
    return host == "localhost" or host.endswith((".localhost", ".localdomain"))


def _refusal(address: Address, *, allow_loopback: bool) -> str | None:
    if address in _METADATA:
        return "is the address of a cloud's metadata service"
    if address.is_unspecified or address.is_multicast or int(address) == 2**_IPV4_BITS - 1:
        return "is not the address of a server"
    if allow_loopback:
        return None
    if address.is_loopback:
        return LOOPBACK
    if address.is_link_local:
        return "is a link-local address, which is refused without --allow-loopback"
    return None


def _parsed(address: str) -> Address:
    """Return the address without its zone: a zone only chooses the interface, and makes addresses unequal."""
    return ipaddress.ip_address(address.partition("%")[0])


def _meant(address: Address) -> tuple[Address, ...]:
    """Return the address, and the IPv4 addresses that it contains."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    meant: list[Address] = [address]
    meant += [inner for inner in (address.ipv4_mapped, address.sixtofour) if inner]
    if address.teredo:
        meant += address.teredo
    if any(address in network for network in _EMBEDDING) or 1 < int(address) < 2**_IPV4_BITS:
        meant.append(ipaddress.IPv4Address(int(address) % 2**_IPV4_BITS))
    if address in _LOCAL_NAT64:
        meant += _translated(address.packed)
    if bytes((address.packed[8] & ~_GLOBAL_BIT, *address.packed[9:12])) == _TUNNEL_ID:
        meant.append(ipaddress.IPv4Address(address.packed[12:]))
    return tuple(meant)


def _translated(packed: bytes) -> list[Address]:
    """Return the IPv4 addresses that a translator of a network could read from an address.

    Bytes of zeros, where no IPv4 address is, are not taken for one.
    """
    found = [bytes(packed[place] for place in places) for places in _LOCAL_PLACES]
    return [ipaddress.IPv4Address(each) for each in found if any(each)]
