"""URLs of repositories and servers, and patterns of them: read into parts, so that nothing can be written two ways.

    https://*.example.com/team-a/**

A part of a pattern is matched against the same part of a URL: a `*` in the host never reaches into the path, one in a
folder never beyond it, and `**` stands for any number of folders. What could be read in two ways (dot segments, encoded
slashes, semicolons, a second `@`) is no URL here, and so is matched by nothing.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from syncline.core.selectors import glob_matches

PORTS = {"https": 443, "http": 80, "ssh": 22}
HOME = "scp"
"""The scheme of `user@host:path`, whose path begins at the home of the user: ssh with a path is another place."""
ANY_FOLDERS = "**"

_URL = re.compile(r"(https?|ssh)://(?:([^/@:%]+)@)?([^/@]+)((?:/.*)?)", re.IGNORECASE | re.DOTALL)
_SCP = re.compile(r"([^/@:%]+)@([^/@:]+):(.+)", re.DOTALL)
_PLACE = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9*_](?:[a-z0-9*_.-]*[a-z0-9*_])?\.?)(?::([0-9]{1,5}))?")
_STRANGE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\"'`<>|{}?#]")
# Some servers drop what follows a semicolon, or dots and spaces at the end of a folder: `..;x` is `..` to them.
_NO_FOLDER = re.compile(r"[. ]*|.*[;/%].*", re.DOTALL)
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class PlainUrl(Struct, frozen=True, kw_only=True):
    """A URL, or a pattern of URLs, in its parts."""

    scheme: str
    user: str = ""
    host: str
    port: int
    folders: tuple[str, ...] = ()


def parse(url: str) -> PlainUrl | None:
    """Read a URL or a pattern; None for what is none, or could be read in two ways."""
    if _STRANGE.search(url):
        return None
    if (match := _URL.fullmatch(url)) is not None:
        scheme, user, where, path = (part or "" for part in match.groups())
        return _plain(scheme.lower(), user, where, path)
    if "://" not in url and (match := _SCP.fullmatch(url)) is not None:
        user, host, path = match.groups()
        if "%" in path:  # read as it stands here, and decoded in a URL
            return None
        return _plain("ssh", user, host, path) if path.startswith(("/", "~")) else _plain(HOME, user, host, f"/{path}")
    return None


def matches(pattern: str, url: str) -> bool:
    """Whether a URL is one of those that a pattern stands for."""
    wanted, found = parse(pattern), parse(url)
    if wanted is None or found is None:
        return False
    return (
        (wanted.scheme, wanted.user, wanted.port) == (found.scheme, found.user, found.port)
        and glob_matches(wanted.host, found.host)
        and _folders_match(wanted.folders, found.folders)
    )


def _plain(scheme: str, user: str, where: str, path: str) -> PlainUrl | None:
    place = _PLACE.fullmatch(where.lower())
    folders = _folders(path if path.startswith("/") else f"/{path}")
    if place is None or folders is None:
        return None
    host, port = place.groups()
    number = int(port) if port else PORTS.get(scheme, PORTS["ssh"])
    return PlainUrl(scheme=scheme, user=user, host=host.removesuffix("."), port=number, folders=folders)


def _folders(path: str) -> tuple[str, ...] | None:
    """Split a path, with its escapes undone once; None where that leads anywhere but down."""
    segments = path.removeprefix("/").removesuffix("/").split("/") if path.strip("/") else []
    found: list[str] = []
    for segment in segments:
        if _ESCAPE.search(segment):
            return None
        try:
            folder = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            return None
        if _NO_FOLDER.fullmatch(folder) or _STRANGE.search(folder):
            return None
        found.append(folder)
    if found and found[-1] not in (".git", ANY_FOLDERS):
        found[-1] = found[-1].removesuffix(".git")
    return tuple(found) if found or path in ("", "/") else None


def _folders_match(pattern: Sequence[str], folders: Sequence[str]) -> bool:
    """Match folder by folder; `**` takes any number of them. Each pair is looked at once."""
    reached = {0}
    for part in pattern:
        if part == ANY_FOLDERS:
            reached = set(range(min(reached), len(folders) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(folders) and glob_matches(part, folders[at])}
    return len(folders) in reached
