"""The Secrets that an IgnitionSync names: whether they exist. Their values are not read here.

The API key and the headers of requests are mounted into the pods of gateways. The operator only checks whether the
Secrets exist, so that a missing Secret is reported before a pod waits for it.
"""

from collections.abc import Iterator

from syncline.api.ignition_rollout import Snapshots
from syncline.api.ignitionsync import IgnitionSyncSpec
from syncline.controllers.errors import SyncError
from syncline.controllers.sources.references import Requester
from syncline.core.objects import Target
from syncline.core.remedies import grant, with_cause
from syncline.engine.cluster import Cluster
from syncline.engine.kind_informer import MetaWire
from syncline.kube.cache import Key
from syncline.kube.errors import Forbidden, NotFound


def named_secrets(spec: IgnitionSyncSpec) -> Iterator[tuple[str, str]]:
    """Yield the names of all Secrets of a spec, each with the field that names it."""
    git, auth = spec.git, spec.git.auth
    if auth is not None and auth.token is not None:
        yield auth.token.secret_ref.name, "git.auth.token"
    if auth is not None and auth.ssh_key is not None:
        yield auth.ssh_key.secret_ref.name, "git.auth.sshKey"
        if auth.ssh_key.known_hosts is not None:
            yield auth.ssh_key.known_hosts.secret_ref.name, "git.auth.sshKey.knownHosts"
    if auth is not None and auth.github_app is not None:
        yield auth.github_app.private_key_secret_ref.name, "git.auth.githubApp"
    if git.ca_secret_ref is not None:
        yield git.ca_secret_ref.name, "git.caSecretRef"
    if spec.webhook.enabled and spec.webhook.secret_ref is not None:
        yield spec.webhook.secret_ref.name, "webhook.secretRef"
    if spec.gateway.api_key_secret_ref is not None:
        yield spec.gateway.api_key_secret_ref.name, "gateway.apiKeySecretRef"
    if spec.apply.http is not None:
        for header in spec.apply.http.headers:
            yield header.secret_ref.name, "apply.http.headers"
    yield from _of_bucket(spec.snapshots)


def _of_bucket(snapshots: Snapshots | None) -> Iterator[tuple[str, str]]:
    bucket = snapshots.storage.s3 if snapshots is not None else None
    if bucket is None:
        return
    if bucket.access_key_secret_ref is not None:
        yield bucket.access_key_secret_ref.name, "snapshots.storage.s3.accessKeySecretRef"
    if bucket.secret_key_secret_ref is not None:
        yield bucket.secret_key_secret_ref.name, "snapshots.storage.s3.secretKeySecretRef"


async def missing_secret(hub: Cluster, requester: Requester, spec: IgnitionSyncSpec) -> SyncError | None:
    """Name the first Secret that does not exist, or that the identity of the sync may not read."""
    namespace = requester.key.namespace
    for name, field in dict(named_secrets(spec)).items():
        target = Target(namespace, name, "Secret")
        informer = await hub.open_kind(target.group_kind)
        known = informer.managed.at(target) is not None or informer.unmanaged.get(Key(namespace, name)) is not None
        if known and requester.user is None:  # only the server knows the rights of an account
            continue
        try:
            found = await hub.acting_as(requester.user).get(
                informer.resource, name, namespace, type=MetaWire, metadata_only=True
            )
        except NotFound:
            message = f"Secret {name}, which {field} names, does not exist in {namespace}: create it"
            return SyncError("ReferenceNotFound", message)
        except Forbidden as error:
            remedy = f"{grant(requester.user, error.verb, error.resource)} for Secret {name}, which {field} names"
            return SyncError("ReferenceUnreadable", with_cause(remedy, error), retry=True)
        informer.observe_unmanaged(found.metadata, requester.sync)
    return None
