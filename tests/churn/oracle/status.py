"""Whether a sync says what is so."""

from collections.abc import Collection, Iterator, Mapping

from tests.churn.api import FAR, Json, Place
from tests.churn.names import FINALIZER, REQUESTED
from tests.churn.oracle.deviation import Deviation
from tests.churn.oracle.wanted import Wishes

HELD = "DeletionHeld"
_NOT_READY = frozenset({"Failed", "Conflict", "Pending"})


def ready_of(sync: Json) -> Json:
    """Return the Ready condition, empty where there is none."""
    conditions = (sync.get("status") or {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})


def judge_status(
    wishes: Wishes, states: Mapping[Place, set[str]], unwanted: Collection[Place], spared: Collection[Place] = ()
) -> Iterator[Deviation]:
    """Yield what is wrong with the status of a sync.

    `states` are the states that its targets may have, `unwanted` its copies that must go, `spared` those that may.
    """
    sync, ref = wishes.sync, wishes.ref
    meta, status = sync["metadata"], sync.get("status") or {}
    ready = ready_of(sync)
    told = f"Ready={ready.get('status')} {ready.get('reason')}: {ready.get('message', '')[:300]}"
    if "deletionTimestamp" in meta:
        yield Deviation("stuck", ref, None, f"still being deleted; {told}")
        return
    if status.get("observedGeneration") != meta["generation"]:
        message = f"observedGeneration is {status.get('observedGeneration')} of {meta['generation']}; {told}"
        yield Deviation("stale status", ref, None, message)
        return
    asked = meta.get("annotations", {}).get(REQUESTED)
    if asked and status.get("lastHandledRequest") != asked:
        message = f"lastHandledRequest is {status.get('lastHandledRequest')!r} and not {asked!r}; {told}"
        yield Deviation("stale status", ref, None, message)
    expected = _expected(wishes, states, ready)
    if ready.get("status") not in expected:
        yield Deviation("untrue status", ref, None, f"Ready must be {' or '.join(sorted(expected))}; {told}")
    if wishes.suspended or wishes.problem:
        return
    yield from _judge_targets(wishes, states, unwanted, spared, told)
    conditions = {one["type"] for one in status.get("conditions", [])}
    if ready.get("status") == "True" and {"Reconciling", "Stalled", "Conflicted"} & conditions and not unwanted:
        yield Deviation("untrue status", ref, None, f"Ready, and also {sorted(conditions)}")
    if FINALIZER not in meta.get("finalizers", []):
        yield Deviation("no finalizer", ref, None, told)


def _expected(wishes: Wishes, states: Mapping[Place, set[str]], ready: Json) -> set[str]:
    if wishes.suspended:
        return {"Unknown"} if ready.get("reason") == "Suspended" else {"Unknown (Suspended)"}
    if wishes.problem or wishes.absent or ready.get("reason") == HELD:
        return {"False"}
    if any(allowed <= _NOT_READY for allowed in states.values()):
        return {"False"}
    return {"True", "False"} if any(allowed & _NOT_READY for allowed in states.values()) else {"True"}


def _judge_targets(
    wishes: Wishes, states: Mapping[Place, set[str]], unwanted: Collection[Place], spared: Collection[Place], told: str
) -> Iterator[Deviation]:
    status = wishes.sync["status"]
    counts = status.get("targets") or {}
    if counts.get("desired") != len(states):
        message = f"{counts.get('desired')} targets are told, and there are {len(states)}; {told}"
        yield Deviation("untrue status", wishes.ref, None, message)
    surplus = counts.get("unwanted", 0) - len(unwanted)
    if ready_of(wishes.sync).get("reason") == HELD and not 0 <= surplus <= len(spared):
        message = f"{counts.get('unwanted', 0)} unwanted copies are told, and there are {len(unwanted)}; {told}"
        yield Deviation("untrue status", wishes.ref, None, message)
    for listed in status.get("targetStatuses") or []:
        kind = (listed.get("kind") or "ConfigMap").partition(".")[0]
        kind = f"{FAR}/{kind}" if listed.get("clusterName") else kind
        place = (kind, listed.get("namespace", ""), listed["name"])
        allowed = states.get(place)
        if allowed is None and (place in unwanted or place in spared):
            allowed = {"Pending"} if listed.get("reason") == HELD else set()
        if allowed is None:
            message = f"lists {listed['status']} {listed.get('reason', '')}, and wants nothing there"
            yield Deviation("untrue target", wishes.ref, place, message)
        elif listed["status"] not in allowed:
            message = f"says {listed['status']} {listed.get('reason', '')}, and it must be {sorted(allowed)}"
            yield Deviation("untrue target", wishes.ref, place, f"{message}: {listed.get('message', '')[:200]}")
