"""The API for pull requests of GitHub and of Gitea, over the TLS of a `GitServer`, with faults on request.

It has what both document: pull requests are listed and opened, labels are made and set, a second pull request for the
same branch is refused, and everything needs the token.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from syncline.testing.gitserver import GitServer, Repository

Json = dict[str, Any]


class Forge:
    """The pull requests of one repository `OWNER/NAME`, for a token."""

    def __init__(self, server: GitServer, owner: str, name: str, token: str) -> None:
        self.token = token
        self.pulls: list[Json] = []
        """The pull requests, oldest first: number, title, body, head, base, state and labels."""
        self.labels: list[Json] = []
        """The labels of the repository; those of Gitea have ids."""
        self.requests: list[tuple[str, str]] = []
        """The methods and paths of all requests, in order."""
        self.status = 0
        """What requests are answered instead."""
        self.without_labels = False
        """Whether labels are refused."""
        self._repository: Repository = server.repository(f"{owner}/{name}")
        self._url = f"https://127.0.0.1:{server.port}/{owner}/{name}"
        for api in ("v1", "v3"):
            root = f"/api/{api}/repos/{owner}/{name}"
            server.routes[root] = server.routes[f"{root}/*"] = self._answers(root, needs_ids=api == "v1")

    def _answers(self, root: str, *, needs_ids: bool) -> Callable[[web.BaseRequest, bytes], web.StreamResponse]:
        def answer(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
            path = unquote(request.path).removeprefix(root)
            self.requests.append((request.method, path))
            if self.status:
                return web.Response(status=self.status)
            if request.headers.get("Authorization") != f"token {self.token}":
                return web.json_response({"message": "Bad credentials"}, status=401)
            given = json.loads(body) if body else {}
            return self._answer(request.method, path, dict(request.query), given, needs_ids=needs_ids)

        return answer

    def _answer(self, method: str, path: str, query: dict[str, str], given: Json, *, needs_ids: bool) -> web.Response:
        answer = web.json_response({"message": "Not Found"}, status=404)
        match method, path.strip("/").split("/"):
            case "GET", [""]:
                answer = web.json_response({"default_branch": "main"})
            case "GET", ["pulls"]:
                answer = web.json_response(self._listed(query))
            case "POST", ["pulls"]:
                answer = self._open(given)
            case "GET", ["labels"]:
                answer = web.json_response(self.labels)
            case "POST", ["labels"]:
                self.labels.append({"id": len(self.labels) + 1, "name": given["name"]})
                answer = web.json_response(self.labels[-1], status=201)
            case "POST", ["issues", number, "labels"]:
                answer = self._label(int(number), given["labels"], needs_ids=needs_ids)
        return answer

    def _listed(self, query: dict[str, str]) -> list[Json]:
        found = [one for one in self.pulls if query.get("state") in (None, "all", one["state"])]
        if "head" in query:
            found = [one for one in found if one["head"]["label"] == query["head"]]
        size, page = int(query.get("limit") or query.get("per_page") or "30"), int(query.get("page", "1"))
        return found[size * (page - 1) : size * page]

    def _open(self, given: Json) -> web.Response:
        heads = self._repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads/").split("\n")
        if given["head"] not in heads or given["base"] not in heads:
            return web.json_response({"message": "no such branch"}, status=404)
        if any(one["head"]["ref"] == given["head"] and one["state"] == "open" for one in self.pulls):
            return web.json_response({"message": "A pull request already exists"}, status=422)
        number = len(self.pulls) + 1
        owner = self._url.split("/")[-2]
        pull = {
            "number": number,
            "state": "open",
            "title": given["title"],
            "body": given["body"],
            "head": {"ref": given["head"], "label": f"{owner}:{given['head']}"},
            "base": {"ref": given["base"]},
            "labels": [],
            "html_url": f"{self._url}/pulls/{number}",
        }
        self.pulls.append(pull)
        return web.json_response(pull, status=201)

    def _label(self, number: int, labels: list[Any], *, needs_ids: bool) -> web.Response:
        if self.without_labels:
            return web.json_response({"message": "forbidden"}, status=403)
        by_id = {one["id"]: one["name"] for one in self.labels}
        names = [by_id[one] for one in labels] if needs_ids else labels
        known = self.pulls[number - 1]["labels"]
        known += [name for name in names if name not in known]
        return web.json_response([{"name": name} for name in known])
