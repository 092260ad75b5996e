"""The status of an upstream object, from the statuses of its copies."""

import random
from copy import deepcopy
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import thorough

from syncline.core.status_upward import CopyStatus, upward_status

Json = dict[str, Any]
EARLY, LATE, LATEST = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


def condition(kind: str, status: str, time: str = EARLY, **more: Any) -> Json:
    return {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": time, **more}


def copy(
    target: str = "east", *, status: Json | None = None, mark: int = 3, generation: int = 7, **more: Any
) -> CopyStatus:
    full = {"observedGeneration": 7, **(status or {})}
    return CopyStatus(target=target, generation=generation, marked_generation=mark, status=full, **more)


def lost(target: str = "west", last_seen: str = LATE) -> CopyStatus:
    return CopyStatus(target=target, reachable=False, last_seen=last_seen, generation=7, marked_generation=3)


def deployment(*copies: CopyStatus, before: Json | None = None, **more: Any) -> Json:
    found = upward_status("Deployment.apps", 3, before or {}, copies, **more)
    assert found is not None
    return found


class TestOneTarget:
    STATUS: ClassVar[Json] = {
        "replicas": 2,
        "readyReplicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        "conditions": [condition("Available", "True"), condition("Progressing", "True")],
    }

    def test_its_fields_are_copied(self) -> None:
        assert deployment(copy(status=self.STATUS)) == {**self.STATUS, "observedGeneration": 3}

    def test_nothing_is_written_when_equal(self) -> None:
        before = {**self.STATUS, "observedGeneration": 3}
        assert upward_status("Deployment.apps", 3, before, [copy(status=self.STATUS)]) is None

    @pytest.mark.parametrize(
        "behind",
        [
            copy(mark=2),
            copy(mark=4),
            copy(generation=8),
            copy(generation=0),
            CopyStatus(target="east", generation=7, marked_generation=3),
        ],
    )
    def test_the_generation_does_not_advance_before_the_target_has_observed_ours(self, behind: CopyStatus) -> None:
        assert upward_status("Deployment.apps", 3, {"observedGeneration": 2}, [behind]) is None
        assert upward_status("Deployment.apps", 3, {"replicas": 1}, [behind]) == {}

    def test_a_kind_without_observed_generations_gets_none(self) -> None:
        plain = CopyStatus(target="east", generation=7, marked_generation=3, status={"phase": "Ready"})
        assert upward_status("Widget.example.com", 3, {}, [plain]) == {"phase": "Ready"}

    def test_generations_of_conditions_are_translated_too(self) -> None:
        status = {"conditions": [condition("Ready", "True", observedGeneration=7)]}
        found = upward_status("Widget.example.com", 3, {}, [copy(status=status)])
        assert found == {"observedGeneration": 3, "conditions": [condition("Ready", "True", observedGeneration=3)]}
        behind = {"conditions": [condition("Ready", "True", observedGeneration=6)]}
        before = {"observedGeneration": 2, "conditions": [condition("Ready", "False", observedGeneration=2)]}
        found = upward_status("Widget.example.com", 3, before, [copy(status=behind, mark=2)])
        assert found == {"observedGeneration": 2, "conditions": [condition("Ready", "True", observedGeneration=2)]}

    def test_of_a_service_only_addresses_and_conditions_go_up(self) -> None:
        status = {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}, "other": 1}
        service = CopyStatus(target="east", status=status)
        found = upward_status("Service", 3, {"theirs": 1}, [service])
        assert found == {"theirs": 1, "loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}

    def test_the_whole_status_of_any_other_kind_goes_up(self) -> None:
        widget = copy(status={"phase": "Ready", "nested": {"a": [1]}})
        found = upward_status("Widget.example.com", 3, {"old": 1}, [widget])
        assert found == {"phase": "Ready", "nested": {"a": [1]}, "observedGeneration": 3}

    def test_the_caller_can_name_the_fields(self) -> None:
        widget = copy(status={"phase": "Ready", "secret": "x"})
        assert upward_status("Widget.example.com", 3, {}, [widget], fields=frozenset({"phase"})) == {"phase": "Ready"}

    def test_no_target_says_nothing(self) -> None:
        assert upward_status("Deployment.apps", 3, {"replicas": 1}, []) is None


def counts(**numbers: int) -> Json:
    return {f"{name}Replicas" if name != "replicas" else name: number for name, number in numbers.items()}


class TestSeveralTargets:
    EAST = counts(replicas=3, ready=3, updated=2, available=3)
    WEST = counts(replicas=2, ready=1, updated=2, available=1, unavailable=1)

    def test_divided_counters_are_summed(self) -> None:
        found = deployment(copy("east", status=self.EAST), copy("west", status=self.WEST), mode="Divide")
        assert found == {**counts(replicas=5, ready=4, updated=4, available=4, unavailable=1), "observedGeneration": 3}

    def test_of_duplicated_counters_the_worst_counts(self) -> None:
        found = deployment(copy("east", status=self.EAST), copy("west", status=self.WEST))
        assert found == {**counts(replicas=3, ready=1, updated=2, available=1, unavailable=1), "observedGeneration": 3}

    def test_an_absent_counter_is_zero(self) -> None:
        found = deployment(copy("east", status=counts(replicas=2, ready=2)), copy("west", status=counts(replicas=2)))
        assert found == {"replicas": 2, "observedGeneration": 3}

    def test_a_zero_is_written_where_a_copy_has_one(self) -> None:
        found = deployment(copy("east", status=counts(ready=2)), copy("west", status=counts(ready=0)))
        assert found == {"readyReplicas": 0, "observedGeneration": 3}

    @pytest.mark.parametrize("mode", ["Duplicate", "Divide"])
    def test_nodes_are_summed_because_no_cluster_shares_them(self, mode: Any) -> None:
        small, large = {"desiredNumberScheduled": 2, "numberReady": 2}, {"desiredNumberScheduled": 5, "numberReady": 4}
        found = upward_status("DaemonSet.apps", 3, {}, [copy("a", status=small), copy("b", status=large)], mode)
        assert found == {"desiredNumberScheduled": 7, "numberReady": 6, "observedGeneration": 3}

    def test_the_generation_waits_for_all(self) -> None:
        found = deployment(copy("east"), copy("west", mark=2), before={"observedGeneration": 2, "replicas": 1})
        assert found == {"observedGeneration": 2}

    @pytest.mark.parametrize(
        ("kind", "east", "west", "status"),
        [
            ("Available", "True", "True", "True"),
            ("Available", "True", "False", "False"),
            ("Available", "False", "Unknown", "False"),
            ("Available", "True", "Unknown", "Unknown"),
            ("Available", "True", None, "Unknown"),
            ("ReplicaFailure", "True", "False", "True"),
            ("ReplicaFailure", "True", None, "True"),
            ("ReplicaFailure", "False", None, "False"),
            ("Degraded", "False", "False", "False"),
            ("Stalled", "True", "Unknown", "True"),
            ("Failed", "False", "Unknown", "Unknown"),
        ],
    )
    def test_conditions_hold_for_all_or_for_any(self, kind: str, east: str, west: str | None, status: str) -> None:
        one = copy("east", status={"conditions": [condition(kind, east)]})
        other = copy("west", status={"conditions": [condition(kind, west)] if west else []})
        for pair in ([one, other], [other, one]):
            assert deployment(*pair)["conditions"][0]["status"] == status

    def test_a_condition_names_the_targets_that_decide(self) -> None:
        ready = condition("Available", "True", message="all is well", reason="Yes")
        down = condition("Available", "False", message="no pods", reason="No")
        found = deployment(copy("east", status={"conditions": [ready]}), copy("west", status={"conditions": [down]}))
        assert found["conditions"] == [
            {
                "type": "Available",
                "status": "False",
                "reason": "No",
                "message": "west: no pods",
                "lastTransitionTime": EARLY,
            }
        ]
        same = deployment(copy("east", status={"conditions": [ready]}), copy("west", status={"conditions": [ready]}))
        assert same["conditions"] == [ready]

    def test_a_rollout_is_complete_only_where_all_are(self) -> None:
        done = condition("Progressing", "True", reason="NewReplicaSetAvailable")
        going = condition("Progressing", "True", reason="FoundNewReplicaSet")
        found = deployment(copy("a", status={"conditions": [done]}), copy("b", status={"conditions": [going]}))
        assert found["conditions"][0]["reason"] == "FoundNewReplicaSet"
        found = deployment(copy("a", status={"conditions": [done]}), copy("b", status={"conditions": [done]}))
        assert found["conditions"][0]["reason"] == "NewReplicaSetAvailable"

    def test_the_time_of_a_condition_moves_with_its_status_only(self) -> None:
        copies = [
            copy("a", status={"conditions": [condition("Available", "True", LATE)]}),
            copy("b", status={"conditions": [condition("Available", "True", LATEST, lastUpdateTime=LATEST)]}),
        ]
        was = {"conditions": [condition("Available", "True", EARLY)]}
        assert deployment(*copies, before=was)["conditions"][0]["lastTransitionTime"] == EARLY
        was = {"conditions": [condition("Available", "False", EARLY)]}
        found = deployment(*copies, before=was)["conditions"][0]
        assert (found["lastTransitionTime"], found["lastUpdateTime"]) == (LATEST, LATEST)

    def test_addresses_are_united_and_sorted(self) -> None:
        east = {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a"}]}}
        west = {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}}
        copies = [CopyStatus(target="east", status=east), CopyStatus(target="west", status=west)]
        found = upward_status("Service", 3, {}, copies)
        assert found == {"loadBalancer": {"ingress": [{"hostname": "a"}, {"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}}
        gateways = [
            copy("a", status={"addresses": [{"value": "y"}]}),
            copy("b", status={"addresses": [{"value": "x"}]}),
        ]
        found = upward_status("Gateway.gateway.networking.k8s.io", 3, {}, gateways)
        assert found == {"addresses": [{"value": "x"}, {"value": "y"}], "observedGeneration": 3}

    def test_other_fields_go_up_where_all_agree(self) -> None:
        one, other = {"phase": "Ready", "node": "a", "only": 1}, {"phase": "Ready", "node": "b"}
        found = upward_status("Widget.example.com", 3, {}, [copy("a", status=one), copy("b", status=other)])
        assert found == {"phase": "Ready", "observedGeneration": 3}


class TestUnreachable:
    GOOD: ClassVar[Json] = {**counts(replicas=2, ready=2), "conditions": [condition("Available", "True")]}

    def test_it_is_in_no_counter_and_makes_conditions_unknown(self) -> None:
        before = {
            **counts(replicas=2, ready=2),
            "observedGeneration": 2,
            "conditions": [condition("Available", "True")],
        }
        found = deployment(copy("east", status=self.GOOD), lost("west"), before=before, mode="Divide")
        assert found == {
            **counts(replicas=2, ready=2),
            "observedGeneration": 2,
            "conditions": [
                {
                    "type": "Available",
                    "status": "Unknown",
                    "reason": "TargetUnreachable",
                    "message": f"west cannot be reached, last seen {LATE}",
                    "lastTransitionTime": LATE,
                }
            ],
        }

    def test_what_is_bad_already_stays_bad(self) -> None:
        bad = {"conditions": [condition("Available", "False"), condition("Degraded", "True")]}
        found = deployment(copy("east", status=bad), lost("west"))
        assert [one["status"] for one in found["conditions"]] == ["False", "True"]
        assert f"west cannot be reached, last seen {LATE}" in found["conditions"][0]["message"]

    def test_the_only_target_lost_leaves_no_counters(self) -> None:
        before = {**self.GOOD, "observedGeneration": 3, "collisionCount": 1}
        found = deployment(lost("east"), before=before)
        assert {*found} == {"observedGeneration", "conditions", "collisionCount"}
        assert found["observedGeneration"] == 3
        assert found["conditions"][0]["status"] == "Unknown"
        assert upward_status("Deployment.apps", 3, found, [lost("east")]) is None

    def test_conditions_are_not_forgotten_while_a_target_is_lost(self) -> None:
        before = {"conditions": [condition("Available", "True"), condition("ReplicaFailure", "False")]}
        found = deployment(copy("east"), lost("west"), before=before)
        assert [(one["type"], one["status"]) for one in found["conditions"]] == [
            ("Available", "Unknown"),
            ("ReplicaFailure", "Unknown"),
        ]

    def test_its_addresses_are_not_taken_away_on_a_guess(self) -> None:
        before = {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}]}}
        east = CopyStatus(target="east", status={"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}})
        assert upward_status("Service", 3, before, [east, lost("west")]) is None
        assert upward_status("Service", 3, before, [lost("east"), lost("west")]) is None

    @pytest.mark.parametrize("last_seen", ["", "a while ago", "2026-01-02T00:00:00.123456+00:00"])
    def test_the_time_is_one_that_a_server_keeps(self, last_seen: str) -> None:
        before = {"conditions": [condition("Available", "True", EARLY)]}
        found = deployment(lost("east", last_seen), before=before)["conditions"][0]
        assert found["lastTransitionTime"] == (LATE if last_seen.startswith("2026") else EARLY)
        assert (last_seen or "never") in found["message"]


scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["True", "False", "x", EARLY, LATE])
json = st.recursive(
    scalars, lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from("ab"), inside), max_leaves=4
)
conditions = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Available", "Degraded", "Ready"])},
        optional={
            "status": st.sampled_from(["True", "False", "Unknown"]) | scalars,
            "reason": st.sampled_from(["A", "NewReplicaSetAvailable", ""]),
            "message": st.sampled_from(["", "m", "n"]),
            "lastTransitionTime": st.sampled_from([EARLY, LATE, LATEST, "odd"]),
            "lastUpdateTime": st.sampled_from([EARLY, LATE]),
            "observedGeneration": st.integers(0, 4),
            "more": json,
        },
    ),
    max_size=3,
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 5),
        "readyReplicas": st.integers(0, 5),
        "numberReady": st.integers(0, 5),
        "observedGeneration": st.integers(0, 4),
        "conditions": conditions | json,
        "loadBalancer": st.fixed_dictionaries({}, optional={"ingress": st.lists(json, max_size=2) | json, "x": json})
        | json,
        "addresses": st.lists(json, max_size=2) | json,
        "other": json,
    },
)
copies_of_all = st.lists(
    st.builds(
        CopyStatus,
        target=st.sampled_from(["east", "west", "north", "south"]),
        reachable=st.booleans(),
        last_seen=st.sampled_from(["", EARLY, LATEST, "odd"]),
        generation=st.integers(0, 3),
        marked_generation=st.integers(1, 3),
        status=statuses,
    ),
    max_size=4,
    unique_by=lambda one: one.target,
)
kinds = st.sampled_from(["Deployment.apps", "Service", "Widget.example.com"])
modes = st.sampled_from(["Duplicate", "Divide"])


@thorough
@given(st.tuples(kinds, st.integers(1, 3)), statuses, copies_of_all, modes, st.randoms())
def test_it_is_total_idempotent_and_the_order_does_not_matter(
    drawn: tuple[str, int], before: Json, copies: list[CopyStatus], mode: Any, dice: random.Random
) -> None:
    kind, generation = drawn
    untouched = deepcopy((before, copies))
    found = upward_status(kind, generation, before, copies, mode)
    assert (before, copies) == untouched
    after = before if found is None else found
    shuffled = list(copies)
    dice.shuffle(shuffled)
    assert upward_status(kind, generation, before, shuffled, mode) == found
    assert upward_status(kind, generation, after, shuffled, mode) is None, "a second pass writes nothing"


@thorough
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=2, max_size=4))
def test_who_waits_for_the_replicas_waits_for_all(drawn: list[tuple[int, int]]) -> None:
    wanted = max(replicas for replicas, _ in drawn)
    copies = [
        copy(f"t{index}", status=counts(replicas=wanted, ready=min(ready, wanted)))
        for index, (_, ready) in enumerate(drawn)
    ]
    found = deployment(*copies)
    assert (found.get("readyReplicas", 0) == wanted) is all(one.status["readyReplicas"] == wanted for one in copies)
