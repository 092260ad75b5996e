"""The policy table of the API, cell by cell, and the rows that only a closer look shows."""

from itertools import product

import pytest
from tests.core.server import ApiServer
from tests.core.strategies import Edit, happen
from tests.core.world import EARLIER, HOME, OTHER, OWNER, Sync, here, want

from syncline.core.objects import Desired
from syncline.core.ownership import MARKER, OWNER_LABEL, RECONCILE
from syncline.core.plan import Policy, Verb, plan

POLICIES = ("Keep", "Sync", "Adopt", "Overwrite")
WANTED = want({"a": "1"}, labels={"team": "red"}, annotations={"note": "first"})
CHANGED = want({"a": "2"}, labels={"team": "red"}, annotations={"note": "first"}, revision="2")
FROZEN = want({"a": "1"}, labels={"team": "red"}, annotations={"note": "first"}, immutable=True)
BY_HAND = Edit("set data", "a", "by hand")
STRANGER = Edit("make anew", "", ({"a": "theirs"}, {}))
EQUAL_STRANGER = Edit("make anew", "", ({"a": "1"}, {}))
FREEZE = Edit("freeze")
CLONE = Edit("clone away and back")


class Situation:
    """What is found at the target, and which sync looks at it."""

    def __init__(self, *events: Edit | Sync, desired: Desired = WANTED, rival: str = "", kept: bool = False) -> None:
        self.events, self.desired, self.rival, self.kept = events, desired, rival, kept

    def arrange(self) -> ApiServer:
        server = ApiServer()
        for event in self.events:
            if isinstance(event, Edit):
                happen(server, HOME, event)
            else:
                Sync(server, event.policy, event.owner).reconcile(WANTED)
        return server


def made_by(owner: object = OWNER, management: str = "Sync") -> Sync:
    return Sync(ApiServer(), Policy(management=management), owner)


OURS = made_by()
LIVING = OTHER.ref

LEAVE_SYNCED = "leave Synced Synced"
LEFT_ALONE = ("leave Skipped NotOurs", "leave Conflict NotOurs", "adopt Synced Adopted", "adopt Synced Adopted")
CREATED = "create Synced Created"

# What is found there                        Keep, Sync, Adopt, Overwrite: what is done, what the target is then, why.
TABLE: dict[str, tuple[Situation, tuple[str, str, str, str]]] = {
    "absent": (Situation(), (CREATED,) * 4),
    "absent, deleted by somebody after it had its copy": (
        Situation(kept=True),
        ("leave Skipped Kept", CREATED, CREATED, CREATED),
    ),
    "absent, and wanted by an older sync": (Situation(rival=LIVING), ("leave Conflict ClaimedByOther",) * 4),
    "foreign": (Situation(STRANGER), LEFT_ALONE),
    "foreign, equal to the source": (Situation(EQUAL_STRANGER), LEFT_ALONE),
    "foreign: a clone of a copy in another namespace": (Situation(OURS, CLONE), LEFT_ALONE),
    "foreign: our label was taken off": (Situation(OURS, Edit("unlabel", OWNER_LABEL)), LEFT_ALONE),
    "foreign: our annotation was taken off": (Situation(OURS, Edit("unannotate", MARKER)), LEFT_ALONE),
    "foreign: our annotation cannot be read": (Situation(OURS, Edit("annotate", MARKER, "?")), LEFT_ALONE),
    "of another sync that lives": (
        Situation(made_by(OTHER), rival=LIVING),
        ("leave Conflict OwnedByOther",) * 4,
    ),
    "of another sync that is gone": (Situation(made_by(OTHER)), LEFT_ALONE),
    "ours, unchanged": (Situation(OURS), (LEAVE_SYNCED,) * 4),
    "ours, unchanged, and wanted by an older sync": (Situation(OURS, rival=LIVING), (LEAVE_SYNCED,) * 4),
    "ours, changed by others": (
        Situation(OURS, BY_HAND),
        ("leave Skipped Kept", *["update Synced DriftRepaired"] * 3),
    ),
    "ours, changed by others into what the source says now": (
        Situation(OURS, Edit("set data", "a", "2"), desired=CHANGED),
        (LEAVE_SYNCED, *["update Synced MetadataRepaired"] * 3),
    ),
    "ours, while the source changed": (
        Situation(OURS, desired=CHANGED),
        ("leave Skipped Kept", *["update Synced SourceChanged"] * 3),
    ),
    "ours, changed by others while the source changed": (
        Situation(OURS, BY_HAND, desired=CHANGED),
        ("leave Skipped Kept", *["update Synced DriftRepaired"] * 3),
    ),
    "ours, with a label of ours changed": (
        Situation(OURS, Edit("label", "team", "blue")),
        (LEAVE_SYNCED, *["update Synced MetadataRepaired"] * 3),
    ),
    "ours, with an annotation of ours removed": (
        Situation(OURS, Edit("unannotate", "note")),
        (LEAVE_SYNCED, *["update Synced MetadataRepaired"] * 3),
    ),
    "ours, with a label that somebody added": (
        Situation(OURS, Edit("label", "theirs", "red")),
        (LEAVE_SYNCED, LEAVE_SYNCED, LEAVE_SYNCED, "update Synced MetadataRepaired"),
    ),
    "ours, with an annotation that somebody added": (
        Situation(OURS, Edit("annotate", "theirs", "red")),
        (LEAVE_SYNCED, LEAVE_SYNCED, LEAVE_SYNCED, "update Synced MetadataRepaired"),
    ),
    "of an earlier sync of this name, unchanged": (
        Situation(made_by(EARLIER)),
        (LEAVE_SYNCED, *["update Synced Reowned"] * 3),
    ),
    "of an earlier sync of this name, changed by others": (
        Situation(made_by(EARLIER), BY_HAND),
        ("leave Skipped Kept", *["update Synced Reowned"] * 3),
    ),
    "ours, annotated reconcile: Disabled": (
        Situation(OURS, BY_HAND, Edit("annotate", RECONCILE, "Disabled")),
        ("leave Skipped ReconcileDisabled",) * 4,
    ),
    "foreign, annotated reconcile: Disabled": (
        Situation(STRANGER, Edit("annotate", RECONCILE, "Disabled")),
        ("leave Skipped ReconcileDisabled",) * 4,
    ),
    "immutable, ours, unchanged": (Situation(OURS, FREEZE), (LEAVE_SYNCED,) * 4),
    "immutable, ours, while the source changed": (
        Situation(OURS, FREEZE, desired=CHANGED),
        ("leave Skipped Kept", *["recreate Synced Recreated"] * 3),
    ),
    "immutable, taken over by us, while the source changed": (
        Situation(STRANGER, made_by(management="Adopt"), FREEZE, desired=CHANGED),
        ("leave Skipped Kept", "leave Failed Immutable", "leave Failed Immutable", "recreate Synced Recreated"),
    ),
    "immutable, overwritten by us, while the source changed": (
        Situation(STRANGER, made_by(management="Overwrite"), FREEZE, desired=CHANGED),
        ("leave Skipped Kept", *["recreate Synced Recreated"] * 3),
    ),
    "immutable, foreign": (
        Situation(STRANGER, FREEZE),
        (*LEFT_ALONE[:2], "leave Failed Immutable", "recreate Synced Recreated"),
    ),
    "immutable, foreign, equal to the source": (Situation(EQUAL_STRANGER, FREEZE), LEFT_ALONE),
    "ours, while the source became immutable": (
        Situation(
            OURS, desired=want({"a": "1"}, immutable=True, labels={"team": "red"}, annotations={"note": "first"})
        ),
        (LEAVE_SYNCED, *["update Synced MetadataRepaired"] * 3),
    ),
}


CELLS = [
    pytest.param(situation, management, expected, id=f"{found} - {management}")
    for found, (situation, row) in TABLE.items()
    for management, expected in zip(POLICIES, row, strict=True)
]


@pytest.mark.parametrize(("situation", "management", "expected"), CELLS)
def test_what_is_done(situation: Situation, management: str, expected: str) -> None:
    sync = Sync(situation.arrange(), Policy(management=management))

    action, _ = sync.plan(situation.desired, rival=situation.rival, kept=situation.kept)

    assert f"{action.verb.value} {action.state} {action.reason}" == expected


@pytest.mark.parametrize(("situation", "management", "expected"), CELLS)
def test_it_can_be_done_and_is_then_quiet(situation: Situation, management: str, expected: str) -> None:
    sync = Sync(situation.arrange(), Policy(management=management))
    before = sync.server.snapshot()

    sync.reconcile(situation.desired, rival=situation.rival, kept=situation.kept)

    left = expected.startswith("leave")
    assert (sync.server.snapshot() == before) is left
    quiet = sync.server.snapshot()
    sync.reconcile(situation.desired, rival=situation.rival, kept=situation.kept)
    assert sync.server.snapshot() == quiet


@pytest.mark.parametrize("management", POLICIES)
@pytest.mark.parametrize("events", [(OURS,), (OURS, BY_HAND), (STRANGER,)])
def test_an_object_that_is_being_deleted_is_waited_for(events: tuple[Edit | Sync, ...], management: str) -> None:
    server = Situation(*events).arrange()
    server.objects[HOME]["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"

    action, _ = Sync(server, Policy(management=management)).plan(CHANGED)

    assert f"{action.verb.value} {action.state} {action.reason}" == "leave Pending Terminating"


def test_a_conflict_says_how_to_take_the_object_over() -> None:
    action, _ = Sync(Situation(STRANGER).arrange()).plan(WANTED)
    assert "Adopt or Overwrite" in action.message


def test_an_older_owner_is_named() -> None:
    action, _ = Sync(Situation(made_by(OTHER)).arrange()).plan(WANTED, rival=LIVING)
    assert "ConfigMapSync/ops/other" in action.message


@pytest.mark.parametrize(
    ("advice", "management"),
    [("set resourceManagementPolicy: Overwrite", "Overwrite"), ("delete it", "Adopt")],
)
def test_the_advice_for_an_immutable_adopted_object_helps(advice: str, management: str) -> None:
    sync = Sync(Situation(STRANGER, made_by(management="Adopt"), FREEZE).arrange(), Policy(management="Adopt"))
    assert advice in sync.reconcile(CHANGED).message

    if advice == "delete it":
        sync.server.remove(HOME)
    sync.under(management).reconcile(CHANGED)

    assert sync.server.objects[HOME]["data"] == {"a": "2"}


@pytest.mark.parametrize("management", ["Adopt", "Overwrite"])
def test_what_was_taken_over_is_marked_so_and_stays_marked_so(management: str) -> None:
    sync = Sync(Situation(STRANGER).arrange(), Policy(management=management))
    sync.reconcile(WANTED)
    taken = sync.server.see(HOME)
    sync.under("Sync").reconcile(CHANGED)
    changed = sync.server.see(HOME)

    for observed in (taken, changed):
        assert observed is not None
        assert observed.marker is not None
        assert observed.marker.mode == {"Adopt": "Adopted", "Overwrite": "Overwritten"}[management]


def test_adopt_keeps_the_labels_of_others_and_overwrite_removes_them() -> None:
    labels = {}
    for management in ("Adopt", "Overwrite"):
        situation = Situation(STRANGER, Edit("label", "theirs", "red"))
        sync = Sync(situation.arrange(), Policy(management=management))
        sync.reconcile(WANTED)
        labels[management] = sync.server.objects[HOME]["metadata"]["labels"].keys()

    assert labels == {"Adopt": {"theirs", "team", OWNER_LABEL}, "Overwrite": {"team", OWNER_LABEL}}


@pytest.mark.parametrize("management", ["Adopt", "Overwrite"])
def test_finalizers_of_what_is_taken_over_stay(management: str) -> None:
    sync = Sync(Situation(STRANGER).arrange(), Policy(management=management))
    sync.reconcile(WANTED)
    assert sync.server.objects[HOME]["metadata"]["finalizers"] == ["example.com/theirs"]


def test_a_label_that_somebody_had_added_follows_the_source_once_the_source_has_it() -> None:
    sync = Sync(Situation(OURS, Edit("label", "tier", "1")).arrange())
    tiered = want({"a": "1"}, labels={"team": "red", "tier": "1"}, annotations={"note": "first"})
    sync.reconcile(tiered)
    sync.reconcile(WANTED)
    assert sync.server.objects[HOME]["metadata"]["labels"].keys() == {"team", OWNER_LABEL}


@pytest.mark.parametrize(
    "found", ["absent", "ours, while the source changed", "immutable, ours, while the source changed"]
)
def test_only_the_repair_of_an_edit_is_called_drift(found: str) -> None:
    situation, _ = TABLE[found]
    action, _ = Sync(situation.arrange()).plan(situation.desired)
    assert not action.drift


@pytest.mark.parametrize("found", TABLE)
def test_only_a_merge_and_a_takeover_read_the_body(found: str) -> None:
    situation, _ = TABLE[found]
    observed = situation.arrange().see(HOME)
    for management, conflict in product(POLICIES, ("SourceWins", "Skip")):
        policy = Policy(management=management, conflict=conflict)
        action = plan(
            situation.desired,
            observed,
            OWNER,
            here(HOME),
            policy,
            competing_owner=situation.rival,
            created_once=situation.kept,
        )
        # Of an object that proves nothing, nothing is cached but that it is there.
        is_unknown = observed is not None and bool(observed.trimmed) and policy.takes_over
        assert action.verb is not Verb.READ or is_unknown


def test_drift_names_who_changed_the_copy() -> None:
    server = Situation(OURS, BY_HAND).arrange()
    server.objects[HOME]["metadata"]["managedFields"] = [
        {"manager": "syncline", "time": "2030-01-02T00:00:00Z"},
        {"manager": "kubectl-edit", "time": "2030-01-01T00:00:00Z"},
    ]
    action, _ = Sync(server).plan(WANTED)
    assert action.drift
    assert "kubectl-edit" in action.message
