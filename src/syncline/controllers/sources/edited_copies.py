"""Edited copies: a copy that was edited while its source was deleted. Of two sides, an edit beats a deletion.

The copy stays. Where its edits are written upstream, the source is created again from it.
"""

from msgspec import Struct

from syncline.controllers.sources.copies import CopyRules
from syncline.controllers.sources.upstream_reader import UpstreamResource
from syncline.controllers.targets.apply import WriterOf
from syncline.controllers.targets.clusters import TargetCluster
from syncline.core.objects import Body, Desired, Observed, Target
from syncline.core.outcome import Outcome
from syncline.core.plan import Verb
from syncline.core.upstream_objects import taken_down
from syncline.core.wire import DATA_KINDS
from syncline.engine.pair_memory import PairMemory
from syncline.engine.pairs import Pairs
from syncline.engine.writer import Writer
from syncline.kube.cache import Key
from syncline.kube.errors import KubeError
from syncline.kube.resources import Resource

EDITED = "EditedAfterDeletion"


class EditedCopies(Struct, frozen=True, kw_only=True):
    """Decides about the copies of one reconcile whose sources are gone."""

    rules: CopyRules
    writer: WriterOf
    memory: PairMemory

    async def outcome(self, site: TargetCluster, observed: Observed, one: UpstreamResource, key: Key) -> Outcome | None:
        """Return the outcome of a copy that was edited since the last agreement, or None. Raises `KubeError`."""
        rules = self.rules.pair_at(
            site.destination.cluster, Target(key.namespace, key.name, one.kind, self.rules.at.workspace)
        )
        resource, marker = one.resource, observed.marker
        if rules is None or rules.is_plain() or resource is None:
            return None
        if marker is None or (marker.mode != "Created" and not self._writer_at(site, one).takes_over):
            return None  # it was adopted: it is released as it is, and nothing of it goes upstream
        if not await self._is_edited(site, observed, one, resource):
            return None
        is_changed = any(step.resource == self.rules.resources[one.kind] for step in self.rules.spec.transforms)
        if rules.two_way and not is_changed:
            return await self._restore(site, observed, resource, key)
        message = (
            "its source was deleted, but the copy was edited since the two last agreed, so it stays: delete it too, or"
            " create the source again"
        )
        return Outcome(target=observed.target, state="Conflict", reason=EDITED, message=message, gone=True)

    async def _is_edited(
        self, site: TargetCluster, observed: Observed, one: UpstreamResource, resource: Resource
    ) -> bool:
        at, rules, writer = self.rules.at, self.rules.pairs[one.kind], self._writer_at(site, one)
        pairs = Pairs(at.cluster, at.client, writer, rules, memory=self.memory, desired_of=lambda _: None)
        body = Body(resource.api_version, resource.kind, {}) if one.kind not in DATA_KINDS else None
        scaled = (("spec", "replicas"),) if observed.scaled is not None else ()  # a change by an autoscaler is no edit
        desired = Desired(target=observed.target, body=body, digest="", source="", revision="", ignored=scaled)
        return await pairs.is_edited(desired)

    def _writer_at(self, site: TargetCluster, one: UpstreamResource) -> Writer:
        return self.writer(site, self.rules.policies[one.kind])

    async def _restore(self, site: TargetCluster, observed: Observed, resource: Resource, key: Key) -> Outcome:
        """Create the source again from its copy; the next reconcile finds the two in agreement."""
        target = observed.target
        below = site.cluster.informer(target.kind).resource
        manifest = await site.client.get(below, target.name, target.namespace or None)
        if manifest["metadata"].get("uid") != observed.uid:
            message = "it was replaced by another object, which is planned again"
            return Outcome(target=target, state="Pending", reason=EDITED, message=message, retry=True, gone=True)
        made = taken_down({"apiVersion": resource.api_version, "kind": resource.kind, **manifest})
        metadata = {**made["metadata"], "name": key.name}
        if key.namespace:
            metadata["namespace"] = key.namespace
        try:
            await self.rules.at.client.create(resource, {**made, "metadata": metadata}, key.namespace or None)
        except KubeError as error:
            message = f"it was edited after its source was deleted, and the source cannot be created again: {error}"
            return Outcome(target=target, state="Conflict", reason=EDITED, message=message, retry=True, gone=True)
        message = "it was edited after its source was deleted, so the source was created again from it"
        return Outcome(
            target=target, state="Synced", reason=EDITED, message=message, written=Verb.CREATE, retry=True, gone=True
        )
