"""Admin access to the API of a sandbox or of a workspace, and how others get access."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from syncline.sandbox import kubeconfig
from syncline.sandbox.requests import Requests


class Access:
    """Requests as admin, tokens of ServiceAccounts, and kubeconfigs, which are written below the folder."""

    def __init__(self, folder: Path, server: str, ca: str, token: str) -> None:
        self.folder = folder
        self.server = server
        self.ca = ca
        self.token = token
        self._requests = Requests(server, ca, token)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
    ) -> dict[str, Any]:
        """Send one JSON request, as admin or with another token, to prepare or to look at a scene (PATCH applies)."""
        return self._requests.send(method, path, body, token=token, timeout=timeout)

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600) -> str:
        """Ask the API server for a token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.request("POST", path, body)["status"]["token"])

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """Write a self-contained kubeconfig for a token; it goes away with the sandbox."""
        return self._write_kubeconfig(name, kubeconfig.token_user(token))

    def _write_kubeconfig(self, name: str, user: Mapping[str, str]) -> Path:
        folder = self.folder / "kubeconfigs"
        folder.mkdir(exist_ok=True)
        path = folder / quote(name, safe="")
        kubeconfig.write(path, server=self.server, authority=self.ca, user=user, name=name)
        return path
