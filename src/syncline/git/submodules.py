"""Submodules: where they are said to be, and what may open them."""

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace

from syncline.git.errors import InvalidSource, Refused
from syncline.git.remotes import Remote
from syncline.git.url import GitUrl, canonical

_SETTING = re.compile(r"submodule\.(.*)\.(path|url)", re.DOTALL)


def urls(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs of submodules by their paths, as `.gitmodules` has them."""
    found: dict[str, dict[str, str]] = {}
    for key, value in settings.items():
        if match := _SETTING.fullmatch(key):
            found.setdefault(match[1], {})[match[2]] = value
    return {each["path"].strip("/"): each["url"] for each in found.values() if "path" in each and "url" in each}


def absolute(base: str, url: str) -> str:
    """Return the URL of a submodule; one that begins with `./` or `../` is relative to its parent's."""
    if not url.startswith(("./", "../")):
        return url
    head, separator, path = base.partition("://")
    if separator:
        host, _, rest = path.partition("/")
        root = f"{head}://{host}/"
    else:
        host, _, rest = base.partition(":")
        root = f"{host}:"
    joined = posixpath.normpath(posixpath.join(rest.rstrip("/"), url))
    if joined.startswith(".."):
        raise InvalidSource("the URL of a submodule leads out of its server; check .gitmodules")
    return root + joined


def remote_of(parent: Remote, at: GitUrl, url: str, location: GitUrl) -> Remote:
    """Return the remote of a submodule: with the credential of its parent on the same server, with none elsewhere."""
    if at.origin == location.origin:
        return replace(parent, url=canonical(url))
    if location.is_ssh:
        raise Refused(
            f"the submodule at {location.host} is on another server than the repository, which needs a key of its own; "
            "use an https URL in .gitmodules"
        )
    return Remote(canonical(url), proxy=None if urlsplit(parent.url).scheme not in ("https", "http") else parent.proxy)
