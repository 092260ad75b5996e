"""What must be so at rest, and what is not.

The judgement is over the objects first (what must be there, what must not, what must not have been touched), and then
over what the syncs say of it. Where the end depends on history (merges, edits, orphans), `history` tells it.
"""

from collections import defaultdict
from collections.abc import Callable

from tests.churn.api import Json, Place
from tests.churn.history import History
from tests.churn.names import PRUNE, RECONCILE
from tests.churn.oracle import content
from tests.churn.oracle.deviation import Deviation
from tests.churn.oracle.marks import Mark, mark_of, owner_of
from tests.churn.oracle.status import HELD, judge_status, ready_of
from tests.churn.oracle.wanted import Want, Wishes, closed, wishes_of
from tests.churn.snapshot import Snapshot

States = set[str]
Recent = Callable[[set[str]], int]
"""How many copies of these names the operator has deleted within ten minutes."""

_CLOSED: dict[str, States] = {"missing": {"Pending", "Failed"}, "ignored": {"Skipped"}, "terminating": {"Skipped"}}
_TAKEN_OVER = frozenset({"adopt", "overwrite"})
GUARD = 10


def judge(snapshot: Snapshot, history: History, recent: Recent = lambda _: 0) -> list[Deviation]:
    """Return all that is wrong."""
    return _Judge(snapshot, history, recent).run()


class _Judge:
    def __init__(self, snapshot: Snapshot, history: History, recent: Recent) -> None:
        self._snapshot = snapshot
        self._history = history
        self._recent = recent
        self._wishes = wishes_of(snapshot, history.git)
        self._marks = {place: mark for place in snapshot.objects if (mark := mark_of(snapshot, place)) is not None}
        self._lives = {owner_of(uid): life for uid, life in history.lives.items()}
        self._found: list[Deviation] = []

    def run(self) -> list[Deviation]:
        states = {ref: self._judge_targets(wishes) for ref, wishes in self._wishes.items()}
        unwanted, spared = self._judge_marked()
        self._judge_foreign()
        for ref, wishes in self._wishes.items():
            self._found += judge_status(wishes, states[ref], unwanted[ref], spared[ref])
            if ready_of(wishes.sync).get("reason") == HELD:
                self._judge_hold(wishes, unwanted[ref])
        for name, namespace in self._snapshot.namespaces.items():
            if "deletionTimestamp" in namespace["metadata"]:
                self._add("stuck", "", ("Namespace", "", name), "the namespace is still being deleted")
        return self._found

    def _add(self, what: str, ref: str, place: Place | None, message: str) -> None:
        self._found.append(Deviation(what, ref, place, message))

    def _judge_targets(self, wishes: Wishes) -> dict[Place, States]:
        """Return in which states each target may be."""
        if not wishes.active or wishes.problem:
            return {}
        states = {place: self._judge_target(wishes, want) for place, want in wishes.wants.items()}
        states |= {place: _CLOSED[why] for place, why in wishes.closed.items()}
        return states | {place: {"Pending"} for place in wishes.waiting}

    def _judge_target(self, wishes: Wishes, want: Want) -> States:
        body = self._snapshot.objects.get(want.place)
        if body is None:
            return self._judge_absent(wishes, want)
        if body["metadata"].get("annotations", {}).get(RECONCILE) == "Disabled":
            return {"Skipped"}
        mark = self._marks.get(want.place)
        if mark is not None and mark.ref == wishes.ref:
            return self._judge_ours(wishes, want, body, mark)
        if mark is not None and mark.ref in self._wishes:
            return {"Conflict"}
        if wishes.policy in ("Sync", "Keep"):
            return {"Conflict"} if wishes.policy == "Sync" else {"Skipped"}
        self._add("not taken over", wishes.ref, want.place, f"the policy is {wishes.policy}")
        return {"Synced"}

    def _judge_absent(self, wishes: Wishes, want: Want) -> States:
        place = want.place
        if any(other.age < wishes.age and place in other.claims() for other in self._wishes.values()):
            return {"Conflict"}
        if wishes.policy == "Keep" and self._history.deletes[place]:
            return {"Skipped", "Synced"}
        self._add("missing", wishes.ref, place, "there is no copy")
        return {"Synced"}

    def _judge_ours(self, wishes: Wishes, want: Want, body: Json, mark: Mark) -> States:
        place, uid = want.place, body["metadata"]["uid"]
        former = mark.owner != owner_of(wishes.uid)
        if wishes.policy == "Keep":
            return {"Synced", "Skipped"}
        if wishes.two_way:
            assert want.source is not None
            source = self._snapshot.objects[want.source]
            wrong, states = content.pair_differences(wishes, body, source, want, self._history)
        elif wishes.conflict == "Merge":
            wrong = content.merged_differences(body, want, self._history)
            states = {"Synced", "Conflict"}
        else:
            wrong, states = content.differences(body, want, extras=wishes.policy == "Overwrite"), {"Synced"}
            if wrong and wishes.conflict == "Skip" and self._may_be_edited(place, uid):
                return {"Conflict"}
        if former:
            wrong.append("it is still marked as a copy of a sync that is gone")
        if wrong:
            self._add("wrong content", wishes.ref, place, "; ".join(wrong))
        return states

    def _may_be_edited(self, place: Place, uid: str) -> bool:
        """Whether a copy may hold an edit; one that was put back from a backup may hold an edit from before."""
        return place in self._history.restored or content.was_edited(self._history, place, uid)

    def _judge_marked(self) -> tuple[dict[str, set[Place]], dict[str, set[Place]]]:
        """Find copies that must not be there; return those that a living sync must remove, and those that it may."""
        unwanted: dict[str, set[Place]] = defaultdict(set)
        spared: dict[str, set[Place]] = defaultdict(set)
        for place, mark in self._marks.items():
            wishes = self._wishes.get(mark.ref)
            if wishes is not None and mark.owner == owner_of(wishes.uid):
                if place in wishes.wants:
                    continue
                if self._may_stay(wishes, place, mark):
                    spared[mark.ref].add(place)
                else:
                    unwanted[mark.ref].add(place)
                    if ready_of(wishes.sync).get("reason") != HELD:
                        self._add("unwanted", mark.ref, place, self._why_unwanted(wishes, mark))
            elif why := self._judge_orphan(place, mark):
                self._add("orphan", mark.ref, place, why)
        return unwanted, spared

    def _may_stay(self, wishes: Wishes, place: Place, mark: Mark) -> bool:
        body = self._snapshot.objects[place]
        annotations = body["metadata"].get("annotations", {})
        if not wishes.active or wishes.problem or {annotations.get(PRUNE), annotations.get(RECONCILE)} & {"Disabled"}:
            return True
        if closed(self._snapshot.namespace_of(place)):
            return True
        if place in self._history.restored:
            return True  # its marks are of an earlier object: it is owned again where it is wanted, and not removed
        source = tuple(mark.source.split("/")) if mark.source else ()
        source = (source[0].partition(".")[0], *source[1:]) if source else ()
        gone = bool(source) and source not in self._snapshot.objects
        if place in wishes.waiting or source in wishes.absent:
            return wishes.orphans or (wishes.two_way and self._may_be_edited(place, body["metadata"]["uid"]))
        if gone and wishes.orphans:
            return True
        partial = wishes.ref.startswith("ConfigSync/") and "missing" in wishes.closed.values()
        return not wishes.prune or partial

    def _why_unwanted(self, wishes: Wishes, mark: Mark) -> str:
        if wishes.absent:
            return f"its source {mark.source} is gone"
        return "its sync does not want it here"

    def _judge_orphan(self, place: Place, mark: Mark) -> str:
        """Say why a copy without its sync must not be there, or nothing."""
        life = self._lives.get(mark.owner)
        if place in self._history.restored:
            return ""
        if life is None:
            return "its sync is unknown"
        if life.deleted is None:
            return "its sync has gone without having been deleted"
        if life.may_leave or place in self._history.exempted or self._history.was_closed(place[1], life.deleted):
            return ""
        return f"its sync (UID {life.uid}) was deleted {self._history.elapsed() - life.deleted:.0f} s ago"

    def _judge_foreign(self) -> None:
        for place, (uid, version) in list(self._history.foreign.items()):
            body = self._snapshot.objects.get(place)
            if body is None:
                self._add("foreign deleted", "", place, f"a user's object (UID {uid}) is gone")
            elif body["metadata"]["uid"] != uid:
                self._add("foreign replaced", "", place, f"a user's object (UID {uid}) has been replaced")
            elif place[2] not in _TAKEN_OVER and body["metadata"]["resourceVersion"] != version:
                self._add("foreign touched", "", place, f"a user's object was last written at version {version}")

    def _judge_hold(self, wishes: Wishes, unwanted: set[Place]) -> None:
        names = {place[2] for place in unwanted}
        recent = self._recent(names)
        if len(unwanted) + recent <= GUARD:
            message = f"removals are held, and only {len(unwanted)} copies are unwanted, {recent} were removed lately"
            self._add("held without cause", wishes.ref, None, message)
