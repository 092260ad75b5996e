"""What a sync tells: conditions, counts, targets, history, events; and that it is quiet when there is nothing to do."""

from tests.configmapsync.world import Json, Thing, World, until

MANY = 110


def no_config_maps(world: World, namespace: str, name: str = "none") -> Thing:
    """Let a namespace take no more ConfigMaps."""
    limit = {"hard": {"count/configmaps": "0"}}
    quota = Thing(world.sandbox, f"/api/v1/namespaces/{namespace}/resourcequotas", name)
    quota.create({"metadata": {"name": name}, "spec": limit})
    # No controller counts for it here, so the test writes its status.
    world.sandbox.request("PUT", f"{quota.path}/status", {**quota.read(), "status": {**limit, "used": limit["hard"]}})
    return quota


def test_a_synced_sync_has_one_condition_and_counts(world: World) -> None:
    source = world.source()
    targets = world.namespaces("a", "b")
    sync = world.sync(destinationNamespaces=targets)
    sync.becomes("Synced", synced=2)
    assert list(sync.conditions) == ["Ready"]
    status = sync.status
    assert status["observedGeneration"] == 1
    assert status["targets"] == {
        **dict.fromkeys(("pending", "failed", "conflicted", "skipped", "unknown", "unwanted"), 0),
        "desired": 2,
        "synced": 2,
        "summary": "2/2",
    }
    assert status["sourceRevision"] == source.read()["metadata"]["resourceVersion"]
    assert [entry["namespace"] for entry in status["targetStatuses"]] == sorted(targets)
    assert {entry["lastSyncTime"] for entry in status["targetStatuses"]} == {status["lastSyncTime"]}
    sync.change(prune=False)
    sync.becomes("Synced")
    assert sync.status["observedGeneration"] == 2


def test_conditions_are_there_only_while_they_hold(world: World) -> None:
    world.source()
    target = world.namespace("a")
    theirs = world.put(target)
    sync = world.sync(destinationNamespace=target)
    sync.becomes("NotOurs")
    assert set(sync.conditions) == {"Ready", "Conflicted"}
    sync.change(transforms=[{"key": "colour", "template": "{{"}])
    sync.becomes("InvalidContent")
    assert set(sync.conditions) == {"Ready", "Stalled"}
    sync.change(transforms=None)
    sync.becomes("NotOurs")
    theirs.delete()
    sync.becomes("Synced")
    assert set(sync.conditions) == {"Ready"}


def test_retrying_is_reconciling(world: World) -> None:
    world.source()
    target = world.namespace("a")
    quota = no_config_maps(world, target)
    sync = world.sync(destinationNamespace=target)
    ready = sync.becomes("Forbidden", failed=1)
    assert f"cannot create configmaps in namespace '{target}': 403 Forbidden" in ready["message"]
    assert "exceeded quota" in ready["message"]
    assert sync.conditions["Reconciling"]["status"] == "True"
    quota.delete()
    world.config_map(target).becomes(colour="red")
    sync.becomes("Synced")
    assert "Reconciling" not in sync.conditions


def test_the_time_of_a_condition_moves_only_with_its_status(world: World) -> None:
    world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    ready = sync.becomes("Synced")
    world.namespace("b")
    sync.change(destinationNamespaces=[f"{world.name}-b"])
    later = sync.becomes("Synced", synced=2)
    assert later["message"] != ready["message"]
    assert later["lastTransitionTime"] == ready["lastTransitionTime"]


def test_a_long_list_of_targets_is_cut_failures_first_and_counted_exactly(world: World) -> None:
    source = world.source()
    targets = world.namespaces(*(f"n{number:03}" for number in range(MANY)), team=world.name)
    failing = targets[-3:]
    for target in failing:
        world.put(target, theirs="1")
    sync = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    ready = sync.becomes("NotOurs", desired=MANY, synced=MANY - 3, conflicted=3)
    assert ready["message"].startswith(f"3 of {MANY} targets not in agreement: {failing[0]}/app: ")
    listed = sync.status["targetStatuses"]
    assert len(listed) == 100
    assert [entry["namespace"] for entry in listed] == [*failing, *targets[:97]]
    assert [entry["status"] for entry in listed] == ["Conflict"] * 3 + ["Synced"] * 97
    assert sync.status["targets"]["summary"] == f"{MANY - 3}/{MANY}"

    sync.tells("NotOurs")
    told = len(sync.events())
    source.set(colour="blue")
    sync.did(f"{MANY - 3} updated")
    assert [copy["data"] for copy in world.copies()] == [{"colour": "blue"}] * (MANY - 3)
    assert len(until(sync.events, lambda events: len(events) > told)) == told + 1
    sync.delete()
    sync.gone()
    assert world.copies() == []

    hasty = world.sync(destinationNamespaceSelector={"matchLabels": {"team": world.name}})
    hasty.becomes_held()
    hasty.delete()
    hasty.gone()
    assert world.copies() == []


def test_the_history_keeps_the_last_ten_changes_newest_first(world: World) -> None:
    source = world.source(number="0")
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    copy = world.config_map(target)
    revisions = []
    for number in range(1, 12):
        source.set(number=str(number))
        copy.becomes(number=str(number))
        revisions.insert(0, str(source.read()["metadata"]["resourceVersion"]))
    sync.did("1 updated")
    sync.now()
    history = sync.status["history"]
    assert [entry["revision"] for entry in history] == revisions[:10]
    assert {(entry["result"], entry["changes"]) for entry in history} == {("Synced", "1 updated")}


def test_the_history_tells_of_changes_with_conflicts(world: World) -> None:
    world.source()
    taken, free = world.namespaces("taken", "free")
    world.put(taken)
    sync = world.sync(destinationNamespaces=[taken, free])
    assert sync.did("1 created")["result"] == "Conflict"


def test_a_failure_enters_the_history_once_and_so_does_its_end(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    quota = no_config_maps(world, target)
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Forbidden", failed=1)
    sync.now()
    sync.now()
    (failed,) = sync.status["history"]
    assert (failed["result"], failed["changes"], failed["reason"]) == ("Failed", "", "Forbidden")
    assert failed["revision"] == source.read()["metadata"]["resourceVersion"]
    assert "exceeded quota" in failed["message"]
    quota.delete()
    sync.now()
    sync.did("1 created")
    assert [entry["result"] for entry in sync.status["history"]] == ["Synced", "Failed"]
    source.delete()
    sync.becomes("SourceNotFound")
    sync.now()
    lost = next(entry for entry in sync.status["history"] if entry.get("reason") == "SourceNotFound")
    assert lost["result"] == "Failed"


def test_a_new_cause_under_the_same_reason_has_an_event_of_its_own(world: World) -> None:
    world.source()
    target = world.namespace("a")
    first = no_config_maps(world, target, "first")
    sync = world.sync(destinationNamespace=target)
    assert "exceeded quota: first" in sync.becomes("Forbidden", failed=1)["message"]
    sync.now()
    no_config_maps(world, target, "second")
    first.delete()

    def told() -> list[str]:
        return [event["note"] for event in sync.events() if event["reason"] == "Forbidden"]

    until(lambda: sync.now() or told(), lambda notes: any("exceeded quota: second" in note for note in notes))
    sync.now()
    sync.now()
    assert ["second" in note for note in told()] == [False, True]
    assert "exceeded quota: second" in sync.status["history"][0]["message"]


def test_last_sync_time_moves_only_when_something_was_written(world: World) -> None:
    source = world.source()
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target)
    sync.becomes("Synced")
    before = sync.status
    source.annotate({"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    sync.now()
    after = sync.status
    assert (after["lastSyncTime"], after["history"]) == (before["lastSyncTime"], before["history"])
    assert after["sourceRevision"] == source.read()["metadata"]["resourceVersion"]


def test_there_is_one_event_for_a_change_whatever_the_number_of_targets(world: World) -> None:
    source = world.source()
    sync = world.sync(destinationNamespaces=world.namespaces("a", "b", "c"))
    sync.becomes("Synced", synced=3)
    source.set(colour="blue")
    sync.did("3 updated")
    sync.now()

    def brief(event: Json) -> tuple[str, str, str]:
        return event["type"], event["reason"], event["note"].partition(": ")[2].split(" (")[0]

    assert [brief(event) for event in sync.events()] == [
        ("Normal", "Synced", "3 created"),
        ("Normal", "Synced", "3 updated"),
    ]
    assert {event["regarding"]["kind"] for event in sync.events()} == {"ConfigMapSync"}


def test_there_is_one_event_for_a_change_of_state_and_one_for_its_end(world: World) -> None:
    target = world.namespace("a")
    sync = world.sync(destinationNamespace=target, suspend=True)
    sync.becomes("Suspended")
    sync.change(suspend=False)
    sync.becomes("SourceNotFound")
    sync.now()
    sync.now()
    world.source()
    sync.becomes("Synced")
    sync.now()
    assert [(event["type"], event["reason"]) for event in sync.events()] == [
        ("Normal", "Suspended"),
        ("Warning", "SourceNotFound"),
        ("Normal", "Synced"),
    ]


def test_once_all_agree_nothing_is_written_any_more(world: World) -> None:
    source = world.source()
    targets = world.namespaces("a", "b")
    sync = world.sync(destinationNamespaces=targets)
    merged = world.sync("merged", destinationNamespaces=targets, destinationName="merged", conflictPolicy="Merge")
    for one in (sync, merged):
        one.becomes("Synced", synced=2)
    world.config_map(targets[0], "merged").set(mine="x")
    merged.now()
    mark = world.mark()
    # Echoes of our own writes, and changes that mean nothing to a copy, wake but write nothing.
    world.namespace_object(targets[0]).label(irrelevant="x")
    source.annotate({"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    for one in (sync, merged):
        one.now()
    assert {entry.split(":")[0] for entry in world.writes(mark)} == {
        f"patch configmapsyncs/status {world.home}/sync",
        f"patch configmapsyncs/status {world.home}/merged",
    }
    mark = world.mark()
    other = World(world.sandbox)
    other.source()
    other.sync(destinationNamespace=other.namespace("a")).becomes("Synced")
    other.end()
    assert world.writes(mark) == []
