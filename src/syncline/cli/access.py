"""Checks of rights with the API server: of the operator, of a service account, of a credential for another cluster."""

from collections.abc import Mapping, Sequence
from typing import Any

from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Target
from syncline.core.outcome import Outcome
from syncline.core.remedies import grant_operator, grant_writer, with_cause
from syncline.core.rights import WATCHING
from syncline.kube.client import Client
from syncline.kube.errors import KubeError
from syncline.kube.resources import Resource
from syncline.kube.reviews import groups_of

_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
_OWN_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


class RightsReviews:
    """Checks each right once. A right that cannot be checked is not refused, but reported: see `unchecked`."""

    def __init__(self, client: Client, operator: str) -> None:
        self._client = client
        self.operator = operator
        """The identity of the operator at the API server."""
        self._answers: dict[tuple[str, str, str, str, str], bool] = {}
        self.unchecked: dict[str, str] = {}
        """The identities whose rights could not be checked, and the cause."""

    async def refusal(
        self, site: TargetCluster, user: str | None, target: Target, verbs: Sequence[str]
    ) -> Outcome | None:
        """Return why a target cannot be written with these verbs; None if it can be written, or if this is unknown."""
        resource = next(
            (informer.resource for informer in site.cluster.informers() if informer.kind == target.kind), None
        )
        if resource is None:
            return None  # the kind is not served yet
        remote = not site.destination.local
        watcher = _Asker(site.client, f"the credential of cluster {site.destination.cluster}") if remote else None
        writer = watcher or (_Asker(site.client, user) if user is not None else None)
        missing = [verb for verb in WATCHING if not await self._may(watcher, verb, resource, "")]
        if missing:
            message = self._message(watcher, missing, resource, "", read=writer is not None)
            return _refused(target, "KindNotWatched", message)
        missing = [verb for verb in verbs if not await self._may(writer, verb, resource, target.namespace)]
        if missing:
            return _refused(target, "Forbidden", self._message(writer, missing, resource, target.namespace))
        return None

    def _message(
        self, who: "_Asker | None", verbs: Sequence[str], resource: Resource, namespace: str, *, read: bool = False
    ) -> str:
        what = str(resource.group_resource)
        where = f" in namespace {namespace!r}" if namespace else " in all namespaces"
        lacking = f"may not {', '.join(verbs)} {what}{where}"
        if who is not None:
            remedy = grant_writer(who.name, what, namespace) or f"give {who.name} the right"
            return with_cause(remedy, f"{who.name} {lacking}")
        return with_cause(grant_operator(what, read=read), f"{self.operator} {lacking}")

    async def _may(self, who: "_Asker | None", verb: str, resource: Resource, namespace: str) -> bool:
        name = who.name if who is not None else self.operator
        if name in self.unchecked:
            return True
        try:
            # A right for all namespaces needs no check of each namespace.
            return await self._ask(who, name, verb, resource, "") or (
                bool(namespace) and await self._ask(who, name, verb, resource, namespace)
            )
        except KubeError as error:
            self.unchecked[name] = str(error)
            return True

    async def _ask(self, who: "_Asker | None", name: str, verb: str, resource: Resource, namespace: str) -> bool:
        key = (name, verb, resource.group, resource.plural, namespace)
        if key not in self._answers:
            asked = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
            client, kind = (who.client, _OWN_REVIEWS) if who is not None else (self._client, _REVIEWS)
            subject = {} if who is not None else {"user": name, "groups": groups_of(name)}
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"resourceAttributes": asked, **subject}}
            answer: Mapping[str, Any] = await client.create(kind, body)
            self._answers[key] = bool((answer.get("status") or {}).get("allowed"))
        return self._answers[key]


class _Asker:
    """An identity that the API server knows from the client's credential."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name


def _refused(target: Target, reason: str, message: str) -> Outcome:
    return Outcome(target=target, state="Failed", reason=reason, message=message)
