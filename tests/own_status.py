"""A status as the operator itself would have written it: with a proof that it did."""

from typing import Any

import msgspec

from syncline import deploy
from syncline.api.kinds import KINDS
from syncline.api.status import SyncStatus
from syncline.core.status_proof import sign_status
from syncline.engine.markkeys import NAME, read_keys
from syncline.sandbox import RequestError, Sandbox


def write_own_status(sandbox: Sandbox, path: str, **changes: Any) -> None:
    """Change fields of the status of a sync, by its path, and sign it with the key of the operator."""
    secret = sandbox.request("GET", f"/api/v1/namespaces/{deploy.NAMESPACE}/secrets/{NAME}")
    keys = read_keys(secret["data"], NAME)
    while True:
        body = sandbox.request("GET", path)
        type_ = next(kind.status for kind in KINDS if kind.kind == body["kind"])
        assert issubclass(type_, SyncStatus)
        status = msgspec.convert({**body.get("status", {}), **changes}, type_)
        signed = sign_status(status, body["kind"], body["metadata"]["uid"], keys)
        try:
            sandbox.request("PUT", f"{path}/status", {**body, "status": msgspec.to_builtins(signed)})
        except RequestError as error:
            if error.status != 409:
                raise
        else:
            return
