"""Pull requests by the API of a Git server: the API of GitHub, or the API of Gitea.

One pull request is open for a branch at a time: it is found, or else opened. The token is that of the repository. The
API is at the host of the repository, so that the token goes nowhere else; GitHub's own is at api.github.com.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from syncline.git.errors import (
    AuthenticationFailed,
    CertificateUntrusted,
    GitError,
    InvalidSource,
    PullRequestFailed,
    Refused,
    RepositoryNotFound,
    RepositoryUnreachable,
)
from syncline.git.githubapp import tls_context
from syncline.git.remotes import GitHubApp, Remote
from syncline.git.transport import GitTransport
from syncline.git.url import host_refusal

Provider = Literal["GitHub", "Gitea"]

_GITHUB_HOSTS = ("github.com", "www.github.com")
_DEADLINE = aiohttp.ClientTimeout(total=30)
_ANSWER_LIMIT = 2 * 1024 * 1024
_PAGE, _PAGES = 20, 50
_LABELS = 50
_COLOR = "0969da"
_TRANSIENT = (429, 500, 502, 503, 504)
_EXISTS = (409, 422)


class PullRequestWanted(Struct, frozen=True, kw_only=True):
    """A requested pull request."""

    branch: str
    base: str
    """The target branch; empty: the default branch of the repository."""
    title: str
    body: str
    labels: Sequence[str] = ()
    provider: Provider | None = None
    """The API of the server. None: GitHub for github.com and GitHub Apps, else Gitea."""


class PullRequest(Struct, frozen=True):
    """An open pull request."""

    url: str
    is_new: bool
    problem: str = ""
    """The cause of missing labels; empty if it has all labels."""


class _Branch(Struct, frozen=True):
    ref: str = ""


class _Pull(Struct):
    number: int
    html_url: str = ""
    state: str = "open"
    head: _Branch = _Branch()


class _Label(Struct):
    name: str
    id: int = 0


class _RepositoryInfo(Struct):
    default_branch: str = ""


class PullRequests:
    """Opens pull requests."""

    def __init__(self, transport: GitTransport) -> None:
        self._transport = transport

    async def ensure(self, remote: Remote, wanted: PullRequestWanted) -> PullRequest:
        """Return the open pull request of a branch, and open one if there is none. Raises `GitError`."""
        provider = wanted.provider or default_provider(remote)
        base = api_url(remote, provider)
        location = urlsplit(base)
        if location.scheme != "https":
            raise Refused("the API for pull requests must use https; write the repository's URL with https")
        if why := host_refusal(location.hostname or "", allow_loopback=self._transport.allows_loopback):
            raise Refused(f"the host {location.hostname} {why}")
        token = await self._transport.api_token(remote)
        connector = aiohttp.TCPConnector(
            resolver=self._transport.api_resolver(remote), ssl=tls_context(remote), limit=1
        )
        headers = {"Authorization": f"token {token}", "Accept": "application/json", "User-Agent": "syncline"}
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=_DEADLINE,
            headers=headers,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            api = _Api(session, base, remote.proxy.url if remote.proxy else None)
            return await _ensure(api, provider, wanted)


def default_provider(remote: Remote) -> Provider:
    """Return the most likely API of a Git server."""
    host = (urlsplit(remote.url).hostname or "").lower()
    return "GitHub" if host in _GITHUB_HOSTS or isinstance(remote.credential, GitHubApp) else "Gitea"


def api_url(remote: Remote, provider: Provider) -> str:
    """Return the URL of a repository in the API of its server. Raises `InvalidSource`."""
    parts = urlsplit(remote.url)
    names = parts.path.strip("/").removesuffix(".git").split("/")
    if parts.scheme not in ("https", "http") or len(names) < len(("owner", "name")) or not all(names):
        raise InvalidSource("a pull request needs a repository like https://host/owner/name.git")
    *above, owner, name = names
    place = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
    root = f"{parts.scheme}://{parts.netloc}" + "".join(f"/{one}" for one in above)
    if provider == "Gitea":
        return f"{root}/api/v1{place}"
    if isinstance(remote.credential, GitHubApp):
        return remote.credential.api + place
    if (parts.hostname or "").lower() in _GITHUB_HOSTS:
        return f"https://api.github.com{place}"
    return f"{root}/api/v3{place}"


async def _ensure(api: "_Api", provider: Provider, wanted: PullRequestWanted) -> PullRequest:
    base = wanted.base or (await api.get("", type=_RepositoryInfo)).default_branch
    if not base or base == wanted.branch:
        raise PullRequestFailed("the pull request has no branch that it is for: write git.ref as a branch")
    found = await _find(api, provider, wanted, base)
    is_new = found is None
    if found is None:
        body = {"title": wanted.title, "body": wanted.body, "head": wanted.branch, "base": base}
        status, answer = await api.ask("POST", "/pulls", body)
        if status in _EXISTS:  # another replica opened it, or the branch has no new commits
            found = await _find(api, provider, wanted, base)
            if found is None:
                raise PullRequestFailed(
                    f"{api.host} refuses the pull request; see whether {base} has the edits already"
                )
            is_new = False
        else:
            found = _decoded(api.host, _checked(api.host, status, answer), _Pull)
    problem = ""
    if wanted.labels:
        try:
            await _set_labels(api, provider, found.number, wanted.labels)
        except GitError as error:
            problem = f"the pull request has not all labels: {error.reason}"
    url = found.html_url if found.html_url.startswith("https://") else ""
    return PullRequest(url[:1024] or f"#{found.number}", is_new, problem)


async def _find(api: "_Api", provider: Provider, wanted: PullRequestWanted, base: str) -> _Pull | None:
    """Return the open pull request of a branch."""
    pulls: list[_Pull]
    if provider == "GitHub":
        query = {"state": "open", "head": f"{api.owner}:{wanted.branch}", "base": base, "per_page": str(_PAGE)}
        pulls = await api.get("/pulls", query, type=list[_Pull])
        return next((one for one in pulls if one.head.ref == wanted.branch), None)
    for page in range(1, _PAGES + 1):
        query = {"state": "open", "limit": str(_PAGE), "page": str(page)}
        pulls = await api.get("/pulls", query, type=list[_Pull])
        for one in pulls:
            if one.head.ref == wanted.branch and one.state == "open":
                return one
        if len(pulls) < _PAGE:
            return None
    return None


async def _set_labels(api: "_Api", provider: Provider, number: int, labels: Sequence[str]) -> None:
    names: list[Any] = list(labels)
    if provider == "Gitea":
        known = {one.name: one.id for one in await api.get("/labels", {"limit": str(_LABELS)}, type=list[_Label])}
        for name in labels:
            if name not in known:
                made = await api.ask("POST", "/labels", {"name": name, "color": f"#{_COLOR}"})
                known[name] = _decoded(api.host, _checked(api.host, *made), _Label).id
        names = [known[name] for name in labels]
    _checked(api.host, *await api.ask("POST", f"/issues/{number}/labels", {"labels": names}))


class _Api:
    """The API of one repository."""

    def __init__(self, session: aiohttp.ClientSession, base: str, proxy: str | None) -> None:
        self._session = session
        self._base = base
        self._proxy = proxy
        self.host = urlsplit(base).hostname or ""
        self.owner = base.rstrip("/").split("/")[-2]

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, type: type[Any]) -> Any:  # noqa: A002
        """Return the content at a path of the API."""
        status, answer = await self.ask("GET", path, query=query)
        return _decoded(self.host, _checked(self.host, status, answer), type)

    async def ask(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the content of the answer."""
        try:
            async with self._session.request(
                method, self._base + path, json=body, params=query, allow_redirects=False, proxy=self._proxy
            ) as answer:
                content = bytearray()
                async for chunk in answer.content.iter_chunked(65536):
                    content += chunk
                    if len(content) > _ANSWER_LIMIT:
                        raise PullRequestFailed(f"the answer of {self.host} is longer than {_ANSWER_LIMIT} bytes")
                return answer.status, bytes(content)
        except aiohttp.ClientConnectorCertificateError:
            raise CertificateUntrusted(
                f"the certificate of {self.host} is not trusted; write its certificate authority to 'ca.crt' in"
                " caSecretRef"
            ) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RepositoryUnreachable(f"the API of {self.host} is unreachable ({type(error).__name__})") from None


def _checked(host: str, status: int, content: bytes) -> bytes:
    if status in (200, 201):
        return content
    if status in _TRANSIENT:
        raise RepositoryUnreachable(f"the API of {host} answers {status}")
    if status in (401, 403):
        raise AuthenticationFailed(f"the API of {host} does not accept the token for pull requests ({status})")
    if status == 404:  # noqa: PLR2004 - HTTP's own number
        raise RepositoryNotFound(f"the API of {host} does not know the repository; check bidirectional.provider")
    raise PullRequestFailed(f"the API of {host} answers {status}")


def _decoded(host: str, content: bytes, type: type[Any]) -> Any:  # noqa: A002 - the word of msgspec
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise PullRequestFailed(
            f"the answer of the API of {host} cannot be read; check bidirectional.provider"
        ) from None
