"""A sync in a world of its own: makes plans from what the server shows, and carries them out."""

from collections.abc import Mapping

from msgspec import Struct, structs
from tests.core.server import KEYS, ApiServer

from syncline.core.digest import combined_digest
from syncline.core.ignored_fields import compared_values
from syncline.core.objects import Content, Desired, Observed, Target
from syncline.core.ownership import Owner, object_id_of
from syncline.core.plan import Action, Policy, Verb, merged_content, plan
from syncline.core.prune_plan import plan_prune
from syncline.core.request_bodies import create_body, release_patch, update_patch

CLUSTER = "cluster-uid"
HOME = Target("team-a", "settings")
OWNER = Owner("ConfigMapSync", "ops", "settings", "uid-of-the-sync", keys=KEYS)
EARLIER = Owner("ConfigMapSync", "ops", "settings", "uid-of-an-earlier-sync-of-this-name", keys=KEYS)
OTHER = Owner("ConfigMapSync", "ops", "other", "uid-of-another-sync", keys=KEYS)


def here(target: Target) -> str:
    return object_id_of(CLUSTER, target)


def want(
    data: Mapping[str, str] | None = None,
    binary: Mapping[str, str] | None = None,
    *,
    target: Target = HOME,
    immutable: bool = False,
    secret_type: str = "",
    ignored: tuple[tuple[str, ...], ...] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    revision: str = "1",
) -> Desired:
    content = Content(data=data or {}, binary_data=binary or {}, immutable=immutable, type=secret_type)
    leaves = compared_values(content.value_digests(), ignored)
    return Desired(
        target=target,
        content=content,
        digest=combined_digest(leaves),
        value_digests=leaves,
        ignored=ignored,
        source="shared/settings",
        revision=revision,
        labels=labels or {},
        annotations=annotations or {},
    )


class Sync(Struct, frozen=True):
    """A sync with its server."""

    server: ApiServer
    policy: Policy = Policy()
    owner: Owner = OWNER

    def under(self, management: str | None = None, conflict: str | None = None) -> "Sync":
        changed = {"management": management, "conflict": conflict}
        policy = structs.replace(self.policy, **{key: value for key, value in changed.items() if value is not None})
        return structs.replace(self, policy=policy)

    def plan(self, desired: Desired, *, rival: str = "", kept: bool = False) -> tuple[Action, Observed | None]:
        """Plan from what a cache holds; read the body where the plan asks for it."""
        observed = self.server.see(desired.target)
        action = plan(
            desired, observed, self.owner, here(desired.target), self.policy, competing_owner=rival, created_once=kept
        )
        if action.verb is Verb.READ:
            observed = self.server.see(desired.target, body=True)
            action = plan(
                desired,
                observed,
                self.owner,
                here(desired.target),
                self.policy,
                competing_owner=rival,
                created_once=kept,
            )
        return action, observed

    def carry_out(self, action: Action, desired: Desired, observed: Observed | None) -> None:
        change, at = action.change, here(desired.target)
        match action.verb:
            case Verb.CREATE if change is not None:
                self.server.create(create_body(desired, self.owner, at, change, desired.content))
            case Verb.UPDATE | Verb.ADOPT if change is not None and observed is not None:
                self.server.patch(desired.target, update_patch(desired, observed, self.owner, at, change))
            case Verb.RECREATE if change is not None and observed is not None:
                content = merged_content(desired, observed, change)
                self.server.delete(desired.target, uid=observed.uid, version=observed.version)
                self.server.create(create_body(desired, self.owner, at, change, content))
            case Verb.LEAVE:
                pass
            case verb:
                raise AssertionError(f"{verb} without what it needs: {action}")

    def reconcile(self, desired: Desired, *, rival: str = "", kept: bool = False) -> Action:
        action, observed = self.plan(desired, rival=rival, kept=kept)
        self.carry_out(action, desired, observed)
        return action

    def remove(self, target: Target) -> Action | None:
        """Let go of one target, as pruning and the end of a sync do."""
        observed = self.server.see(target)
        action = (
            None if observed is None else plan_prune(observed, self.owner, CLUSTER, "Pruned", "is no longer wanted")
        )
        if action is not None and observed is not None and action.verb is Verb.DELETE:
            self.server.delete(target, uid=observed.uid, version=observed.version)
        if action is not None and observed is not None and action.verb is Verb.RELEASE:
            self.server.patch(target, release_patch(observed))
        return action
