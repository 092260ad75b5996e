"""A sync in a world of its own: makes plans from what the server shows, and carries them out."""

from collections.abc import Mapping

from msgspec import Struct, structs
from tests.core.server import KEYS, ApiServer

from syncline.core.digest import leaves_digest
from syncline.core.ignoring import compared_leaves
from syncline.core.objects import Content, Desired, Seen, Target
from syncline.core.ownership import Owner, place
from syncline.core.plan import Action, Policy, Verb, merged_content, plan
from syncline.core.surplus import plan_removal
from syncline.core.writing import create_body, release_patch, update_patch

CLUSTER = "cluster-uid"
HOME = Target("team-a", "settings")
OWNER = Owner("ConfigMapSync", "ops", "settings", "uid-of-the-sync", keys=KEYS)
EARLIER = Owner("ConfigMapSync", "ops", "settings", "uid-of-an-earlier-sync-of-this-name", keys=KEYS)
OTHER = Owner("ConfigMapSync", "ops", "other", "uid-of-another-sync", keys=KEYS)


def here(target: Target) -> str:
    return place(CLUSTER, target)


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
    leaves = compared_leaves(content.leaves(), ignored)
    return Desired(
        target=target,
        content=content,
        digest=leaves_digest(leaves),
        leaves=leaves,
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

    def plan(self, desired: Desired, *, rival: str = "", kept: bool = False) -> tuple[Action, Seen | None]:
        """Plan from what a cache holds; read the body where the plan asks for it."""
        seen = self.server.see(desired.target)
        action = plan(desired, seen, self.owner, here(desired.target), self.policy, rival=rival, kept=kept)
        if action.verb is Verb.READ:
            seen = self.server.see(desired.target, body=True)
            action = plan(desired, seen, self.owner, here(desired.target), self.policy, rival=rival, kept=kept)
        return action, seen

    def carry_out(self, action: Action, desired: Desired, seen: Seen | None) -> None:
        edit, at = action.edit, here(desired.target)
        match action.verb:
            case Verb.CREATE if edit is not None:
                self.server.create(create_body(desired, self.owner, at, edit, desired.content))
            case Verb.UPDATE | Verb.ADOPT if edit is not None and seen is not None:
                self.server.patch(desired.target, update_patch(desired, seen, self.owner, at, edit))
            case Verb.RECREATE if edit is not None and seen is not None:
                content = merged_content(desired, seen, edit)
                self.server.delete(desired.target, uid=seen.uid, version=seen.version)
                self.server.create(create_body(desired, self.owner, at, edit, content))
            case Verb.LEAVE:
                pass
            case verb:
                raise AssertionError(f"{verb} without what it needs: {action}")

    def reconcile(self, desired: Desired, *, rival: str = "", kept: bool = False) -> Action:
        action, seen = self.plan(desired, rival=rival, kept=kept)
        self.carry_out(action, desired, seen)
        return action

    def remove(self, target: Target) -> Action | None:
        """Let go of one target, as pruning and the end of a sync do."""
        seen = self.server.see(target)
        action = None if seen is None else plan_removal(seen, self.owner, CLUSTER, "Pruned", "is no longer wanted")
        if action is not None and seen is not None and action.verb is Verb.DELETE:
            self.server.delete(target, uid=seen.uid, version=seen.version)
        if action is not None and seen is not None and action.verb is Verb.RELEASE:
            self.server.patch(target, release_patch(seen))
        return action
