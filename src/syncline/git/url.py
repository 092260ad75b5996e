"""The location of a repository: its parsed URL, and the addresses of its host.

    https://host[:port]/path
    ssh://[user@]host[:port]/path      the path is one of the server's file system
    [user@]host:path                   ssh as scp writes it: the path begins at the user's home, unless it begins with /

A URL is validated before it is passed to `git`. Names are resolved here, the addresses are checked, and `git` and `ssh`
can use only these addresses: a name cannot have one address for the check and another for the connection.
"""

import contextlib
import re
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from msgspec import Struct

from syncline.core.addresses import LOOPBACK, is_loopback_name, refusal
from syncline.git.errors import InvalidSource, Refused, RepositoryUnreachable
from syncline.lookups import Lookups

_SCP = re.compile(
    r"(?:([A-Za-z0-9_][A-Za-z0-9._-]{0,63})@)?([A-Za-z0-9][A-Za-z0-9.-]{0,252}):([A-Za-z0-9~_./][^\s:?#]*)"
)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}|[0-9A-Fa-f:.]{2,45}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\"'`<>|{}]")
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_MAX_LENGTH = 2048
_LIKE_HTTPS = "write it as https://host/path, ssh://git@host/path or git@host:path"


class GitUrl(Struct, frozen=True):
    """A URL that is safe to pass to git."""

    url: str
    scheme: str
    host: str
    port: int
    user: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port: the scope of a credential."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_ssh(self) -> bool:
        """Whether git uses ssh."""
        return self.scheme == "ssh"


def parse_url(url: str, *, allow_insecure: bool = False, allow_loopback: bool = False) -> GitUrl:
    """Parse a URL. Raises `InvalidSource` or `Refused`, with the remedy, for a URL that git must not use."""
    if not url or len(url) > _MAX_LENGTH or _FORBIDDEN.search(url):
        raise InvalidSource(f"the repository's URL is empty, too long or has invalid characters; {_LIKE_HTTPS}")
    if url.startswith("-") or "::" in url.split("/", maxsplit=1)[0]:
        raise Refused(f"the repository's URL is not one of https or ssh; {_LIKE_HTTPS}")
    location = _read(url)
    if location.scheme == "http" and not allow_insecure:
        raise Refused("a repository over http is refused without --allow-insecure-git; use https")
    if why := host_refusal(location.host, allow_loopback=allow_loopback):
        raise Refused(f"the host {location.host} {why}")
    return location


def canonical(url: str) -> str:
    """Return the normalized URL of a repository. A URL that cannot be parsed is returned unchanged.

    A path in the form of scp that begins with `/` or `~` means the same in a URL; one that begins at the home of the
    user has no other form that every server knows.
    """
    if _FORBIDDEN.search(url):
        return url
    if "://" not in url:
        scp = _SCP.fullmatch(url)
        if scp is None:
            return url
        user, host, path = (part or "" for part in scp.groups())
        place = f"{user}@{host.lower()}" if user else host.lower()
        if not path.startswith(("/", "~")):
            return f"{place}:{path}"
        # In a URL, and only there, git reads %xx as a character.
        return f"ssh://{place}/{path.removeprefix('/').replace('%', '%25')}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    user, separator, rest = parts.netloc.rpartition("@")
    host = rest.lower()
    if port is not None and port == _PORTS.get(parts.scheme):
        host = host.rpartition(":")[0]
    return parts._replace(netloc=f"{user}{separator}{host}").geturl()


def _read(url: str) -> GitUrl:
    if "://" not in url:
        scp = _SCP.fullmatch(url)
        if scp is None:
            raise InvalidSource(f"the repository's URL has no scheme; {_LIKE_HTTPS}")
        user, host, _ = scp.groups()
        return GitUrl(url, "ssh", host.lower(), _PORTS["ssh"], user or "")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise InvalidSource(f"the host or port of the repository's URL is not valid; {_LIKE_HTTPS}") from None
    if parts.scheme not in _PORTS:
        raise Refused(f"the scheme {parts.scheme[:20]!r} is refused; {_LIKE_HTTPS}")
    ssh = parts.scheme == "ssh"
    if parts.password is not None or (parts.username is not None and not ssh):
        raise InvalidSource(
            "the repository's URL contains credentials; move them to a Secret, and write its name in auth.secretRef"
        )
    if not _HOST.fullmatch(host) or (parts.username is not None and not _USER.fullmatch(parts.username)):
        raise InvalidSource(f"the host or user of the repository's URL is not valid; {_LIKE_HTTPS}")
    if parts.query or parts.fragment or parts.path in ("", "/"):
        raise InvalidSource(
            "the repository's URL has no path, or more than a path; remove ? or # and the text after it"
        )
    return GitUrl(url, parts.scheme, host, port or _PORTS[parts.scheme], parts.username or "")


def host_refusal(host: str, *, allow_loopback: bool) -> str | None:
    """Return why a host is refused, or None."""
    bare = host.rstrip(".")
    if is_loopback_name(bare):
        return None if allow_loopback else LOOPBACK
    address = as_address(bare)
    return refusal(address, allow_loopback=allow_loopback) if address else None


def as_address(host: str) -> str | None:
    """Return the address of a host that is an address, also in forms of system resolvers, such as 127.1."""
    if ":" in host:
        return host
    with contextlib.suppress(OSError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return None


async def addresses(
    host: str, port: int, *, allow_loopback: bool, lookups: Lookups, tenants: Collection[str] = ()
) -> list[str]:
    """Resolve a host. Raises `Refused` if one of its addresses is refused, and `Unreachable` if it has none."""
    try:
        infos = await lookups.find(host, port, *tenants)
    except TimeoutError:
        raise RepositoryUnreachable(f"the name server does not answer for {host}") from None
    except OSError:
        raise RepositoryUnreachable(
            f"the host {host} has no address; check the repository's URL and the cluster's DNS"
        ) from None
    found = [address for _, address in infos]
    for address in found:
        if why := refusal(address, allow_loopback=allow_loopback):
            raise Refused(f"the host {host} is {address}, which {why}")
    return found
